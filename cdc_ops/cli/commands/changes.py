"""The command on what changed in a Delta table: changes. It reads the lake and connects to no source."""

from typing import Annotated

import typer

from cdc_ops.cli.chosen.pipeline_names import OfTable, Table
from cdc_ops.cli.chosen.tables import free_folder, place_of_table, write_rows
from cdc_ops.cli.commands.pipelines import Folder, app, guarded
from cdc_ops.cli.output import render
from cdc_ops.cli.output.moving_lines import progress
from cdc_ops.cli.output.verbosity import verbose_option
from cdc_ops.cli.session import LocalSpark
from cdc_ops.core.change_range import ChangeMode, parse_bound

_END = "a Delta version, an instant with its zone (ISO 8601), or watermark:VALUE"


@app.command()
@verbose_option
def changes(  # noqa: PLR0913, PLR0917  a command line has as many parameters as it has options
    table: Table,
    begin: Annotated[str, typer.Option("--from", help=f"Where to start: {_END}. Changes after it are shown.")],
    end: Annotated[str, typer.Option("--to", help="Where to end (included), in the same forms. Default: the newest version.")] = "",
    mode: Annotated[ChangeMode, typer.Option(help="The columns of each change.")] = ChangeMode.DATA_BEFORE_AFTER,
    pipeline: OfTable = "",
    parquet: Annotated[str, typer.Option(help="Write Parquet to this folder, which must not exist.")] = "",
    output: Annotated[str, typer.Option(help="Write JSON lines to this folder, which must not exist. Default: standard output.")] = "",
    folder: Folder = None,
) -> None:
    """Show what changed in a Delta table between two of its commits: one line of JSON for each row and commit, in order."""
    from cdc_ops.lake.log.change_feed_log import find_range

    with guarded(as_json=False):
        chosen, path = place_of_table(folder, pipeline, table)
        versions = find_range(path, parse_bound(begin, "--from"), parse_bound(end, "--to") if end else None)
        target = free_folder(parquet or output)
        with progress(quiet=not target), LocalSpark(chosen) as spark:
            from cdc_ops.lake.read.change_feed import read_changes

            rows = read_changes(spark.session(), path, versions, mode).orderBy("version", "key")
            write_rows(rows, target, kind="parquet" if parquet else "json")
    begun = f"after Delta version {versions.begin}" if versions.begin >= 0 else "from the table's first commit"
    render.err.print(f"{table}: changes {begun} up to version {versions.end}", highlight=False, soft_wrap=True)
