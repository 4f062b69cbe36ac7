"""Commands on formats of change events: formats list, formats show. They read no file and connect to nothing."""

import json
from typing import Annotated, Any

import typer
from rich.markup import escape

from cdc_ops.cli.commands.pipelines import Json, app, guarded
from cdc_ops.cli.help_format import Application
from cdc_ops.cli.output import render
from cdc_ops.core.events.format_spec import Container, FormatSpec
from cdc_ops.core.formats.demanded_settings import (
    advised,
    archive_settings,
    demanded,
    for_some_types,
    left_at_default,
    only_accepted,
)
from cdc_ops.events.registry import FORMAT_SPECS, configuration, format_spec

formats_app = Application(help="Formats of change events, and the settings that they require.")
app.add_typer(formats_app, name="formats")

_HOLDS = {
    Container.LINES: "JSON, a record a line",
    Container.CSV: "CSV files with a header",
    Container.PARQUET: "Parquet files",
    Container.AVRO: "Avro files",
    Container.BINLOG: "binlogs",
}


@formats_app.command("list")
def list_formats(as_json: Json = False) -> None:
    """Show the formats that can be read."""
    if as_json:
        render.print_json([{"name": spec.name, "tool": spec.tool, "files": spec.files.container} for spec in FORMAT_SPECS.values()])
        return
    for spec in FORMAT_SPECS.values():
        render.out.print(f"{spec.name:<34} {spec.tool}: {_HOLDS[spec.files.container]}", highlight=False, soft_wrap=True)


@formats_app.command("show")
def show(name: Annotated[str, typer.Argument(help="The format's name, from 'formats list'.")], as_json: Json = False) -> None:
    """Show what a format reads and demands, what it refuses, and blocks of settings to copy into the tool and the pipeline file."""
    with guarded(as_json):
        spec = format_spec(name)
    if as_json:
        render.print_json(_data(spec))
        return
    for line in _lines(spec):
        render.out.print(escape(line), highlight=False, soft_wrap=True)


def _data(spec: FormatSpec) -> dict[str, Any]:
    settings = [
        {
            "name": item.name,
            "default": item.default,
            "safe": advised(item),
            "where": item.where,
            "loses": item.loses,
            "types": list(item.only.declared),
            "demanded": item.loses_at(item.default),
        }
        for item in spec.lossy
    ]
    configured = configuration(spec)
    blocks = {"archive": archive_settings(spec), "tool": configured.tool, "sink": configured.sink}
    refuses = [{"values": str(family), "why": why} for family, why in spec.unreadable.items()]
    return {
        "name": spec.name,
        "tool": spec.tool,
        "files": spec.files.container,
        "settings": settings,
        "blocks": blocks,
        "refuses": refuses,
    }


def _lines(spec: FormatSpec) -> list[str]:
    marks = spec.marks
    events = {"deletes": marks.delete, "changed keys": marks.key_change, "TRUNCATE": marks.truncate, "snapshot": marks.snapshot}
    lines = [f"{spec.name}: {spec.tool}, {_HOLDS[spec.files.container]}", ""]
    lines += [f"  {title + ':':<14} {text}" for title, text in {**events, "changed tables": marks.ddl}.items()]
    lines += [f"  {'order:':<14} {', '.join(part.name for part in spec.order)}", ""]
    lines += _blocks(spec)
    if items := demanded(spec):
        lines += ["Required, because the tool's default loses data:"]
        lines += [f"  {item.name} (default {item.default or 'unset'}; {item.where}): {item.loses}" for item in items]
    if items := for_some_types(spec):
        lines += ["Required for columns of some types:"]
        lines += [f"  {item.name}={item.safe[0]} ({', '.join(item.only.declared)}): {item.loses} {item.remedy}" for item in items]
    if items := left_at_default(spec):
        lines += ["Safe by default; refused where 'settings' says otherwise:"]
        lines += [f"  {item.name} ({' or '.join(item.safe) or 'unset'}): {item.loses}" for item in items]
    if spec.unreadable:
        lines += ["Columns that are not supported:"]
        lines += [f"  {family}: {why}" for family, why in spec.unreadable.items()]
    if spec.local_instants:
        lines += ["'time_zone' is required for tables with instants: the tool writes them as local time."]
    return lines


def _blocks(spec: FormatSpec) -> list[str]:
    lines = ["Pipeline file:", "", "archive:", f"  format: {spec.name}"]
    if spec.is_binlog:
        lines += ["  layout: binlog"]
    if settings := archive_settings(spec):
        lines += ["  settings:", *(f"    {name}: {json.dumps(value)}" for name, value in settings.items())]
    if accepted := only_accepted(spec):
        lines += [f"  accept_losses: [{', '.join(item.accepted_by(item.default) for item in accepted)}]"]
    configured = configuration(spec)
    if configured.sink:
        lines += [
            "",
            "Source connector (add the database's address, login and tables):",
            "",
            *_json({"name": "cdc", "config": configured.tool}),
        ]
        lines += ["", "Sink connector (Confluent's S3 sink):", "", *_json({"name": "archive", "config": configured.sink})]
    elif configured.tool:
        lines += ["", f"Settings of {spec.tool}:", "", *(f"{name}={value}" for name, value in configured.tool.items())]
    return [*lines, ""]


def _json(block: dict[str, Any]) -> list[str]:
    return json.dumps(block, indent=2).splitlines()
