"""The command on what changed in a Delta table: changes. It reads the lake and connects to no source."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cdc_ops.cli import render
from cdc_ops.cli.commands import Folder, app, guarded, progress
from cdc_ops.cli.session import LocalSpark, chosen_pipelines
from cdc_ops.core.change_ranges import ChangeMode, parse_bound
from cdc_ops.core.pipeline import Pipeline, current_settings, table_path
from cdc_ops.core.tables import TableName
from cdc_ops.errors import RequestError
from cdc_ops.lake.feed_log import find_range

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_END = "a Delta version, an instant with its zone (ISO 8601), or watermark:VALUE"


@app.command()
def changes(  # noqa: PLR0913, PLR0917  a command line has as many parameters as it has options
    table: Annotated[str, typer.Argument(help="schema.table", metavar="TABLE")],
    begin: Annotated[str, typer.Option("--from", help=f"What has been seen already: {_END}. Changes come after it.")],
    end: Annotated[str, typer.Option("--to", help="The last that is wanted, told in the same ways, included; default the newest.")] = "",
    mode: Annotated[ChangeMode, typer.Option(help="What is told of each row.")] = ChangeMode.DATA_BEFORE_AFTER,
    pipeline: Annotated[str, typer.Option("--pipeline", "-p", help="Pipeline, if several write a table of that name.")] = "",
    parquet: Annotated[str, typer.Option(help="Write Parquet to this folder, which must not be there.")] = "",
    output: Annotated[str, typer.Option(help="Write JSON lines to this folder, which must not be there; default standard output.")] = "",
    folder: Folder = None,
) -> None:
    """Show what changed in a Delta table between two of its commits: one line of JSON for each row and commit, in order."""
    with guarded(as_json=False):
        chosen, path = _place(folder, pipeline, table)
        found = find_range(path, parse_bound(begin, "--from"), parse_bound(end, "--to") if end else None)
        target = _free(parquet or output)
        with progress(quiet=not target) as say, LocalSpark(chosen, say) as spark:
            from cdc_ops.lake.change_feed import read_changes

            rows = read_changes(spark.session(), path, found, mode).orderBy("version", "key")
            _write(rows, target, as_parquet=bool(parquet))
    render.err.print(f"{table}: changes after Delta version {found.begin} up to version {found.end}", highlight=False, soft_wrap=True)


def _place(folder: Path | None, pipeline: str, table: str) -> tuple[Pipeline, str]:
    """Returns the pipeline that writes a table, and the path of its Delta table."""
    name = TableName.parse(table)
    places = []
    for one in chosen_pipelines(folder, [pipeline] if pipeline else []):
        settings = current_settings(one, name)
        if settings is not None:
            places.append((one, table_path(one, name, settings)))
    if len(places) != 1:
        raise RequestError(
            f"{'No' if not places else 'More than one'} pipeline has the table {table}.",
            why=f"There are {', '.join(one.name for one, _ in places)}." if places else "",
            data="Nothing was read.",
            next="Name one with --pipeline." if places else "'cdc-ops status' shows the tables.",
        )
    return places[0]


def _free(target: str) -> str:
    from cdc_ops.lake.files import open_filesystem

    if target:
        filesystem, inner = open_filesystem(target)
        if filesystem.exists(inner):
            raise RequestError(f"{target} is there already.", data="Nothing was read or written.", next="Name another folder.")
    return target


def _write(rows: "DataFrame", target: str, *, as_parquet: bool) -> None:
    from pyspark.sql import functions as F

    if as_parquet:
        rows.write.parquet(target)
        return
    lines = rows.select(F.to_json(F.struct(*rows.columns), {"ignoreNullFields": "false"}).alias("value"))
    if target:
        lines.write.text(target)
        return
    for line in lines.toLocalIterator():
        sys.stdout.write(f"{line[0]}\n")
