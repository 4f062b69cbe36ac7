"""Commands on gaps in archives: gap list, gap accept. They read and write the ledger and connect to no archive."""

import getpass
import os
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from cdc_ops.cli.commands.pipelines import Json, One, app, guarded
from cdc_ops.cli.help_format import Application
from cdc_ops.cli.output import render
from cdc_ops.config.settings import load_settings
from cdc_ops.core import json_codec

if TYPE_CHECKING:
    from cdc_ops.core.archive.completeness import GapRecord

gap_app = Application(help="Gaps in archives: change events that no file holds although later ones exist.")
app.add_typer(gap_app, name="gap")

Chosen = Annotated[str | None, typer.Option("--pipeline", "-p", metavar="NAME", help="Only this pipeline. Default: all.")]


@gap_app.command("list")
def list_gaps(pipeline: Chosen = None, as_json: Json = False) -> None:
    """Show gaps that stop a table, and accepted gaps that no run has passed yet."""
    from cdc_ops.state.sql import open_reader

    with guarded(as_json):
        reader = open_reader(load_settings(os.environ).ledger)
        try:
            records = reader.archive_gaps(pipeline)
        finally:
            reader.close()
    if as_json:
        render.print_json([_data(record) for record in records])
        return
    if not records:
        render.out.print("The archives have no open gaps.")
    for record in records:
        render.out.print(_line(record), highlight=False, soft_wrap=True)
    if still := next((record for record in records if record.decision is None), None):
        how = f'To accept the loss of its events: cdc-ops gap accept {still.gap_id} --pipeline {still.pipeline} --why "..."'
        render.out.print(escape(how), highlight=False, soft_wrap=True)


@gap_app.command("accept")
def accept(
    gap: Annotated[str, typer.Argument(help="The gap's name, from 'gap list'.")],
    pipeline: One,
    why: Annotated[str, typer.Option(metavar="TEXT", help="Why the loss is acceptable. The ledger keeps the reason.")],
    who: Annotated[str, typer.Option(metavar="NAME", help="Who accepts the loss. Default: the user of this process.")] = "",
    as_json: Json = False,
) -> None:
    """Accept that the events of a gap are lost. The next run continues behind it, and its commit records the decision."""
    from cdc_ops.state.sql import open_store

    with guarded(as_json):
        store = open_store(load_settings(os.environ).ledger)
        try:
            record = store.accept_gap(pipeline, gap, who=who or getpass.getuser(), why=why)
        finally:
            store.close()
    if as_json:
        render.print_json(_data(record))
    else:
        render.out.print(_line(record), highlight=False, soft_wrap=True)


def _data(record: "GapRecord") -> dict[str, object]:
    return {"name": record.gap_id, **json_codec.to_data(record)}


def _line(record: "GapRecord") -> str:
    text = f"{record.gap_id}  {record.status.value:8}  {record.pipeline}  {record.table}  {record.gap}"
    if record.decision is not None:
        text += f"  [{record.decision.who}, {record.decision.at:%Y-%m-%d %H:%M} UTC: {record.decision.why}]"
    return escape(text)
