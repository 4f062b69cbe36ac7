"""The commands on a table's event history: as-of, which reads it, and replay, which applies it again."""

from typing import Annotated

import typer

from cdc_ops.cli.chosen.pipeline_names import OfTable, One, Table, Tables, one_name, pipeline_argument
from cdc_ops.cli.chosen.tables import free_folder, place_of_table, write_rows
from cdc_ops.cli.commands.pipelines import Folder, Json, Quiet, app, guarded, run_all
from cdc_ops.cli.help_format import WHICH_COMMAND
from cdc_ops.cli.output import render
from cdc_ops.cli.output.moving_lines import progress
from cdc_ops.cli.output.verbosity import verbose_option
from cdc_ops.cli.session import LocalSpark, new_request
from cdc_ops.core.instants import parse_instant
from cdc_ops.core.operation.run_request import Accepts, ResyncMode, RunKind


@app.command("as-of")
@verbose_option
def as_of(  # noqa: PLR0913, PLR0917  a command line has as many parameters as it has options
    table: Table,
    at: Annotated[str, typer.Option(metavar="TIME", help="Time with its zone (ISO 8601), or position:3,154; included.")],
    pipeline: OfTable = "",
    delta: Annotated[str, typer.Option(help="Write a Delta table to this folder, which must not exist.")] = "",
    parquet: Annotated[str, typer.Option(help="Write Parquet to this folder, which must not exist.")] = "",
    output: Annotated[str, typer.Option(help="Write JSON lines to this folder, which must not exist. Default: standard output.")] = "",
    folder: Folder = None,
) -> None:
    """Show the rows that the source had at a point in time, from the table's event history. Connects to no source."""
    from cdc_ops.core.events.event_history import parse_point
    from cdc_ops.core.pipeline.pipeline import current_settings
    from cdc_ops.core.pipeline.tables.paths import history_root
    from cdc_ops.core.schema.tables import TableName

    with guarded(as_json=False):
        parse_point(at, "--at")
        chosen, path = place_of_table(folder, pipeline, table)
        name = TableName.parse(table)
        settings = current_settings(chosen, name)
        root = history_root(chosen, name) if settings and settings.history.event_history else ""
        target = free_folder(delta or parquet or output)
        with progress(quiet=not target), LocalSpark(chosen) as spark:
            from cdc_ops.steps.history.as_of import as_of as rows_at

            rows = rows_at(spark.session(), path, at, history=root, apply_as_deletes=settings.apply.apply_as_deletes if settings else "")
            write_rows(rows, target, kind="delta" if delta else "parquet" if parquet else "json")
    if target:
        render.err.print(f"{table}: the rows at {at} are in {target}", highlight=False, soft_wrap=True)


@app.command(epilog=WHICH_COMMAND)
@verbose_option
@pipeline_argument
def replay(
    pipeline: One = "",
    table: Tables = None,
    since: Annotated[str, typer.Option(metavar="TIME", help="Keep the rows and apply the events from then on. Default: rebuild.")] = "",
    folder: Folder = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Rebuild tables from their event history, or apply its events again from a point in time. The watermark does not move."""
    with guarded(as_json):
        instant = parse_instant(since, "since") if since else None
        request = new_request(
            kind=RunKind.RESYNC, mode=ResyncMode.REPLAY, tables=tuple(table or ()), since=instant, accepts=Accepts(cost=True)
        )
        run_all(folder, [one_name(folder, pipeline)], request, as_json, quiet)
