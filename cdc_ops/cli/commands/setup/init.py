"""A new project: init. It writes files, and connects to nothing but the source that it is told to look at."""

import os
import shlex
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer
from rich.markup import escape

from cdc_ops.cli.commands.pipelines import Json, app, guarded
from cdc_ops.cli.confirmation import has_terminal
from cdc_ops.cli.new_files import write_new
from cdc_ops.cli.output import render
from cdc_ops.cli.output.layout import Grid, print_sentence, show_grid
from cdc_ops.cli.starter import IGNORED, connection_id, environment_file, pipeline_path, starter_files
from cdc_ops.config.secret_files import secret_value
from cdc_ops.core.pipeline.connections import ConnectionUrl, variable_name
from cdc_ops.core.pipeline.pipeline import SourceConfig, SourceKind
from cdc_ops.core.text import did_you_mean, size_text
from cdc_ops.errors import RequestError

if TYPE_CHECKING:
    from cdc_ops.cli.chosen.found_tables import FoundTable

_KINDS: Final = (SourceKind.MYSQL, SourceKind.MARIADB, SourceKind.POSTGRES)
_KINDS_OF_SCHEMES: Final = {"mysql": SourceKind.MYSQL, "mariadb": SourceKind.MARIADB, "postgresql": SourceKind.POSTGRES}


@app.command("init")
def init(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="The project's folder; it may exist.")] = Path(),
    name: Annotated[str, typer.Option(metavar="NAME", help="The pipeline's name.")] = "shop",
    kind: Annotated[str, typer.Option(metavar="KIND", help="Kind of the source: mysql, mariadb or postgres.")] = "mysql",
    url: Annotated[
        str,
        typer.Option(
            metavar="URL",
            help="Write the entries of this source's tables: mysql://user@host/database. The password is asked for, or taken from the"
            " connection's variable.",
        ),
    ] = "",
    as_json: Json = False,
) -> None:
    """Write a new project: a pipeline file with comments, the DAG file for Airflow, and the variables as an example.

    Nothing that exists is written over; a .gitignore that is there stays, and what belongs in it is said. With --url it looks at the
    source, and writes an entry for each table: keys, a column that may tell what has changed, and size; and the file .env, with the
    password if it was asked for, which only you can read.
    """
    with guarded(as_json):
        address, typed = source_url(url, name) if url else (None, False)
        found = _tables(address, name) if address else []
        files = starter_files(folder, name, _KINDS_OF_SCHEMES[address.scheme] if address else _kind(kind), found, address)
        own = folder / ".env"
        if address and not own.exists():
            files[own] = environment_file(name, address if typed else None)
        missing = _missing_lines(folder / ".gitignore")
        if missing is not None:
            del files[folder / ".gitignore"]
        environ = {"CDC_OPS_LAKE": "/lake", "CDC_OPS_STAGING": "/staging"}
        write_new(files, pipelines=[pipeline_path(folder, name)], environ=environ, private=[own])
    if as_json:
        tables = [one.data() for one in found]
        written = [str(path) for path in files]
        render.print_json({"folder": str(folder), "pipeline": name, "files": written, "to_ignore": missing or [], "tables": tables})
        return
    if found:
        _print_tables(found)
    for line in (*_written(folder, files, missing), *_next_steps(folder, name, ready=own in files)):
        render.out.print(line, highlight=False, soft_wrap=True, markup=False)


def source_url(text: str, name: str) -> tuple[ConnectionUrl, bool]:
    """Returns the URL of a source with its password: that of the connection's variable, else what a person at the terminal types.

    Returns:
        The URL, and whether it is to be kept: no variable has it.

    Raises:
        ConfigError: it cannot be read.
        RequestError: it has a password, or names no database.
    """
    url, variable = ConnectionUrl.parse(text), variable_name(connection_id(name))
    if url.password:
        raise RequestError(
            "The URL has a password, and other users of this machine can see what a command is called with.",
            data="Nothing was asked or written.",
            next=f"Leave it out; the password is asked for, or taken from {variable}.",
        )
    if not url.database:
        raise RequestError(
            "The URL names no database.", data="Nothing was asked or written.", next="Write it as mysql://user@host/database."
        )
    if text := secret_value(variable, os.environ):
        known = ConnectionUrl.parse(text)
        if (known.host, known.default_port, known.user) == (url.host, url.default_port, url.user):
            return replace(url, password=known.password), False
    if has_terminal():
        question = f"Password of {url.user or 'the user'} at {url.host}"
        secret = typer.prompt(question, default="", show_default=False, hide_input=True, err=True)
        return replace(url, password=secret), True
    return url, True


def _tables(url: ConnectionUrl, name: str) -> "list[FoundTable]":
    """Returns the tables of a source.

    Raises:
        RequestError: none of them can be an entry without a decision.
    """
    from cdc_ops.cli.chosen.found_tables import find_tables
    from cdc_ops.sources.base import open_source

    kind = _KINDS_OF_SCHEMES[url.scheme]
    with closing(open_source(SourceConfig(kind=kind, connection=connection_id(name)), url.render())) as source:
        found = list(find_tables(source, "" if kind is SourceKind.POSTGRES else url.database))
    if not any(one.is_entry for one in found):
        raise RequestError(
            f"No table of {url.database} can be written as an entry.",
            why="; ".join(f"{one.table}: {one.remark}" for one in found[:3]) or f"The user {url.user!r} sees none.",
            data="Nothing was written.",
            next="Correct the database or the user's grants; or write the entries yourself: cdc-ops init without --url.",
        )
    return found


def _print_tables(found: "Sequence[FoundTable]") -> None:
    columns = ("table", "rows", "size", "key", "cursor")
    rows = [
        (one.table, (f"{one.rows:,}", size_text(one.bytes) if one.bytes else "", escape(", ".join(one.keys)), escape(one.cursor)))
        for one in found
        if not one.refused
    ]
    show_grid(render.out, Grid(title="Tables", columns=columns, groups=render.by_schema(rows)))
    for one in found:
        if one.remark:
            print_sentence(render.out, one.remark, name=str(one.table))


def _kind(text: str) -> SourceKind:
    known = {kind.value: kind for kind in _KINDS}
    if text not in known:
        raise RequestError(
            f"{text!r} is not a kind of source that can be queried.",
            why=did_you_mean(text, known),
            data="Nothing was written.",
            next="Write --kind mysql, mariadb or postgres. Other databases come by archived events: docs/archives.md.",
        )
    return known[text]


def _missing_lines(ignored: Path) -> list[str] | None:
    """Returns what a .gitignore does not have yet; None if there is none."""
    if not ignored.is_file():
        return None
    try:
        lines = {line.strip().strip("/") for line in ignored.read_text("utf-8", errors="replace").splitlines()}
    except OSError:
        lines = set()
    return [line for line in IGNORED if line.strip("/") not in lines]


def _written(folder: Path, files: dict[Path, str], missing: list[str] | None) -> list[str]:
    lines = [f"wrote {path}" for path in files]
    if missing is not None:
        remark = f"add {' and '.join(missing)} to it, .env has the password" if missing else "it has what is needed"
        lines.append(f"kept  {folder / '.gitignore'}: {remark}")
    return lines


def _next_steps(folder: Path, name: str, *, ready: bool) -> list[str]:
    """Returns what is to be done; `ready` says that the tables and the variables are those of a source that has answered."""
    file = f"dags/pipelines/{name}.yaml"
    begin = (
        [(file, "read it: which tables, and which column tells what has changed")]
        if ready
        else [("cp .env.example .env", "give the connection its URL"), (f"edit {file}", "your tables and their cursors")]
    )
    steps = (
        *([(f"cd {shlex.quote(str(folder))}", "")] if folder != Path() else []),
        *begin,
        (f"cdc-ops check {name}", "what a run needs"),
        (f"cdc-ops run {name} --limit 100", "a trial, into a folder of its own"),
        (f"cdc-ops run {name}", "all rows; again for what has changed"),
        (f"cdc-ops verify {name}", "source against lake, row by row"),
    )
    width = max((len(command) for command, _ in steps), default=0) + 3
    return [
        "",
        "next",
        *(f"  {command:<{width}}{f'# {what}' if what else ''}".rstrip() for command, what in steps),
        "",
        "In Airflow: put dags/ into the DAGs folder, set the same variables for its",
        "processes, and add the connections: cdc-ops docs install",
    ]
