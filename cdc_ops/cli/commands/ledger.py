"""Commands on the ledger: status and metrics, which look, and state rebuild, which repairs it."""

from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from cdc_ops.cli.chosen.pipeline_names import Names, Tables, check_known, pipeline_argument
from cdc_ops.cli.commands.pipelines import Folder, Json, app, guarded, state_app
from cdc_ops.cli.output import render
from cdc_ops.cli.session import chosen_pipelines, ledger_reader, new_request, opened
from cdc_ops.core import json_codec
from cdc_ops.errors import EnvironmentSetupError, RequestError

if TYPE_CHECKING:
    from cdc_ops.core.approvals import ApprovalRecord
    from cdc_ops.core.pipeline.pipeline import TableConfig
    from cdc_ops.state.base import TableOverview
    from cdc_ops.steps.recover import Rebuilt


@app.command()
@pipeline_argument
def status(pipeline: Names = None, as_json: Json = False) -> None:
    """Show what the ledger knows: watermarks, freshness, last runs, and which run holds a table. Connects to no source."""
    with guarded(as_json):
        rows, now, approvals = _status_of(pipeline)
    if as_json:
        render.print_json([{**json_codec.to_data(row), "approvals": json_codec.to_data(_of_table(row, approvals))} for row in rows])
    else:
        render.print_status(rows)
        render.print_questions(record for record in approvals if record.is_open(now))


@app.command()
@pipeline_argument
def metrics(
    pipeline: Names = None,
    output: Annotated[Path | None, typer.Option(metavar="FILE", help="Write to a file, at once and as a whole.")] = None,
    as_openmetrics: Annotated[bool, typer.Option("--openmetrics", help="OpenMetrics, in place of Prometheus' own text format.")] = False,
) -> None:
    """Print counters and gauges of each table, for Prometheus. Reads the ledger; connects to no source.

    With --output, what the node exporter's textfile collector reads: name the file *.prom, and let cron run the command.
    """
    from cdc_ops.metrics.exposition import openmetrics_text, prometheus_text
    from cdc_ops.metrics.families import read_families

    with guarded(as_json=False):
        with ledger_reader() as reader:
            check_known(reader, pipeline or ())
            families = read_families(reader, (one for one in reader.overview() if _is_wanted(one, pipeline)))
            text = openmetrics_text(families) if as_openmetrics else prometheus_text(families)
        if output is None:
            typer.echo(text, nl=False)
        else:
            _replace_file(output, text)


def _tables_of(pipelines: list[str] | None) -> "tuple[list[TableOverview], datetime]":
    """Returns the tables of some pipelines, or of all, and the ledger's clock."""
    with ledger_reader() as reader:
        check_known(reader, pipelines or ())
        return [row for row in reader.overview() if _is_wanted(row, pipelines)], reader.now()


def _is_wanted(row: "TableOverview", pipelines: list[str] | None) -> bool:
    return not pipelines or row.state.pipeline in pipelines


def _status_of(pipelines: list[str] | None) -> "tuple[list[TableOverview], datetime, list[ApprovalRecord]]":
    """Returns the tables of some pipelines, or of all, the ledger's clock, and what people were asked: what is open, and the newest."""
    from cdc_ops.core.approvals import ApprovalStatus

    rows, now = _tables_of(pipelines)
    with ledger_reader() as reader:
        found = {one.approval_id: one for one in (*reader.approvals(status=ApprovalStatus.ASKED), *reader.approvals())}
    records = sorted(found.values(), key=lambda one: one.asked_at, reverse=True)
    return rows, now, [one for one in records if not pipelines or one.pipeline in pipelines]


def _of_table(row: "TableOverview", approvals: "Iterable[ApprovalRecord]") -> "tuple[ApprovalRecord, ...]":
    return tuple(one for one in approvals if (one.pipeline, one.table) == (row.state.pipeline, row.state.table))


def _replace_file(path: Path, text: str) -> None:
    """Writes a file that a reader sees as it was or as it is now, never half."""
    from cdc_ops.lake.file_io import write_text

    try:
        path.absolute().parent.stat()  # a folder that is not there is misspelled rather than wanted
        write_text(str(path.absolute()), text)
    except OSError as error:
        raise EnvironmentSetupError(
            f"The metrics cannot be written to {path}.",
            why=str(error),
            data="Nothing was written; the file stays as it was.",
            next="Create the folder, or let the user of cdc-ops write to it.",
        ) from error


@state_app.command("rebuild")
@pipeline_argument
def rebuild(
    folder: Folder = None,
    pipeline: Names = None,
    table: Tables = None,
    watermark: Annotated[
        str, typer.Option(metavar="VALUE", help="Continue from this cursor value if the Delta log no longer tells. Needs one --table.")
    ] = "",
    as_json: Json = False,
) -> None:
    """Rebuild the ledger from the Delta tables: watermark, operation number and snapshot progress of each table.

    Discards unfinished operations.
    """
    from cdc_ops.core.cursor.cursors import CursorValue
    from cdc_ops.steps.discovery import discover
    from cdc_ops.steps.recover import rebuild_table

    done: list[dict[str, Any]] = []
    with guarded(as_json):
        if watermark and len(table or ()) != 1:
            raise RequestError("--watermark needs exactly one table.", data="Nothing was changed.", next="Add --table schema.table.")
        request = new_request(tables=tuple(table or ()))
        low = CursorValue(parts=(watermark,)) if watermark else None
        for chosen in chosen_pipelines(folder, pipeline or []):
            with opened(chosen) as (context, source):
                for config in discover(chosen, source, request):
                    done.append(_rebuilt(config, rebuild_table(context, request, config, watermark=low)))
    if as_json:
        render.print_json(done)
        return
    for item in done:
        render.out.print(f"[green]rebuilt[/] {item['table']}: {_rebuilt_text(item)}", soft_wrap=True)
        if watermark and item["has_table"] and not item["by_hand"]:
            told = "--watermark is not used, because the newest commit tells the watermark. To read rows again: cdc-ops backfill --since"
            render.out.print(f"{item['table']}: {told}", soft_wrap=True)


def _rebuilt(config: "TableConfig", rebuilt: "Rebuilt") -> dict[str, Any]:
    discarded = [operation.op_seq for operation in rebuilt.discarded]
    document = {"table": str(config.table), "state": json_codec.to_data(rebuilt.state), "has_table": rebuilt.has_table}
    return {**document, "by_hand": rebuilt.by_hand, "watermark": str(rebuilt.state.progress.watermark or ""), "discarded": discarded}


def _rebuilt_text(item: dict[str, Any]) -> str:
    known, discarded = item["state"], len(item["discarded"])
    there = f"operation {known['committed_op_seq']}, Delta version {known['delta_version']}"
    there += f", watermark {escape(item['watermark'])}" if item["watermark"] else ""
    text = there if item["has_table"] else "no Delta table; the next run reads it from the beginning"
    plans = f"; {discarded} unfinished operation{'s were' if discarded > 1 else ' was'} discarded" if discarded else ""
    return f"{text}{plans}"
