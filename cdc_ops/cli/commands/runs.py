"""The command on the last runs, of pipelines or of one table: runs. It reads the ledger and connects to no source."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cdc_ops.cli.chosen.pipeline_names import Names, check_known, pipeline_argument
from cdc_ops.cli.commands.pipelines import Json, app, guarded
from cdc_ops.cli.completion import complete_tables
from cdc_ops.cli.output import render
from cdc_ops.cli.session import ledger_reader
from cdc_ops.core import json_codec
from cdc_ops.core.text import did_you_mean
from cdc_ops.errors import RequestError

if TYPE_CHECKING:
    from cdc_ops.state.base import StateReader
    from cdc_ops.state.table_run import RunSummary, TableRun


@app.command()
@pipeline_argument
def runs(
    pipeline: Names = None,
    table: Annotated[
        str, typer.Option("--table", "-t", metavar="SCHEMA.TABLE", help="The runs of this table alone.", autocompletion=complete_tables)
    ] = "",
    limit: Annotated[int, typer.Option("--limit", "-n", help="How many runs; of each pipeline that has the table.", min=1)] = 20,
    as_json: Json = False,
) -> None:
    """Show the last runs, newest first: when, how long, how many tables and rows; or those of one table. Connects to no source."""
    from cdc_ops.cli.output.runs import print_history, print_runs
    from cdc_ops.state.table_run import RunSummary

    with guarded(as_json), ledger_reader() as reader:
        check_known(reader, pipeline or ())
        found = [RunSummary(lines=lines) for lines in reader.newest_runs(pipeline or (), limit=limit)] if not table else []
        lines = _history(reader, pipeline or (), table, limit) if table else []
    if as_json:
        render.print_json([json_codec.to_data(line) for line in lines] if table else [_data(run) for run in found])
    elif not (found or lines):
        render.out.print("The ledger has no runs yet. Next: cdc-ops run")
    elif table:
        print_history(lines)
    else:
        print_runs(found)


def _history(reader: "StateReader", pipelines: Sequence[str], table: str, limit: int) -> "list[TableRun]":
    """Returns the lines of a table.

    Raises:
        RequestError: the ledger does not know it.
    """
    known = [row.state for row in reader.overview() if not pipelines or row.state.pipeline in pipelines]
    states = [state for state in known if str(state.table) == table]
    if not states:
        of = f" of pipeline {', '.join(pipelines)}" if pipelines else ""
        raise RequestError(
            f"The ledger does not know the table {table}{of}.",
            why=did_you_mean(table, (str(state.table) for state in known)),
            data="Nothing was changed.",
            next="'cdc-ops status' shows the tables.",
        )
    return [line for state in states for line in reader.history(state.pipeline, state.table, limit=limit)]


def _data(run: "RunSummary") -> dict[str, Any]:
    from cdc_ops.state.table_run import TableRunStatus

    counts = run.counts
    return {
        "pipeline": run.pipeline,
        "run": run.run_id,
        "trigger": run.trigger,
        "kinds": [kind.value for kind in run.kinds],
        "started_at": json_codec.to_data(run.started_at),
        "finished_at": json_codec.to_data(run.finished_at),
        "tables": {status.value: list(map(str, run.tables(status))) for status in TableRunStatus},
        "rows": {name: getattr(counts, name) for name in ("read", "inserted", "updated", "deleted")},
    }
