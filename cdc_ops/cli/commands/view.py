"""The command that tells how to look at a table's current rows from SQL: view. It reads the table's log, without Spark."""

from typing import Annotated

import typer

from cdc_ops.cli.chosen.pipeline_names import OfTable, Table
from cdc_ops.cli.chosen.tables import place_of_table
from cdc_ops.cli.commands.pipelines import Folder, app, guarded


@app.command()
def view(
    table: Table,
    name: Annotated[str, typer.Option(help="Name of the view; default TABLE_current.")] = "",
    pipeline: OfTable = "",
    folder: Folder = None,
) -> None:
    """Print a CREATE VIEW statement for a table's current rows: no old versions, no deleted rows, only the source's columns."""
    from cdc_ops.lake.read.current import view_statement

    with guarded(as_json=False):
        _, path = place_of_table(folder, pipeline, table)
        typer.echo(view_statement(name or f"{table.rpartition('.')[2]}_current", path) + ";")
