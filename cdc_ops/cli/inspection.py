"""Commands that look: status, verify; and the one that repairs the ledger: state rebuild."""

import os
from dataclasses import replace
from typing import Annotated, Any

import typer

from cdc_ops.cli import render
from cdc_ops.cli.commands import TABLES_FAILED, Folder, Json, Names, Tables, app, guarded, progress, state_app
from cdc_ops.cli.session import LocalSpark, chosen_pipelines, new_request, opened
from cdc_ops.cli.verbosity import verbose_option
from cdc_ops.config.settings import load_settings
from cdc_ops.core import wire
from cdc_ops.core.cursors import CursorValue
from cdc_ops.core.pipeline import TableConfig
from cdc_ops.core.schema_changes import only_columns
from cdc_ops.errors import RequestError
from cdc_ops.lake.log import read_head
from cdc_ops.sources.base import Source
from cdc_ops.state.sql import open_reader
from cdc_ops.steps.commit import rebuild_table
from cdc_ops.steps.context import Context
from cdc_ops.steps.orders import read_facts
from cdc_ops.steps.plan import discover


@app.command()
def status(pipeline: Names = None, as_json: Json = False) -> None:
    """Show what the ledger knows: watermarks, freshness, last runs, who holds a table. Connects to no source."""
    with guarded(as_json):
        reader = open_reader(load_settings(os.environ).ledger)
        try:
            rows = [row for row in reader.overview() if not pipeline or row.state.pipeline in pipeline]
        finally:
            reader.close()
    if as_json:
        render.print_json(wire.to_data(tuple(rows)))
    else:
        render.print_status(rows)


@app.command()
@verbose_option
def verify(folder: Folder = None, pipeline: Names = None, table: Tables = None, as_json: Json = False) -> None:
    """Compare source and lake, by checksums and then row by row; writes nothing. Changes under way show up as differences."""
    documents: list[dict[str, Any]] = []
    with guarded(as_json):
        request = new_request(tables=tuple(table or ()))
        for chosen in chosen_pipelines(folder, pipeline or []):
            with progress(as_json) as say, opened(chosen) as (context, source), LocalSpark(chosen, say) as spark:
                for config in discover(chosen, source, request):
                    say(f"{config.table}: comparing source and lake")
                    documents.append(_verify_table(context, source, spark, config))
    if as_json:
        render.print_json(documents)
    else:
        render.print_verification(documents)
    if not all(document["equal"] for document in documents):
        raise typer.Exit(TABLES_FAILED)


@state_app.command("rebuild")
def rebuild(
    folder: Folder = None,
    pipeline: Names = None,
    table: Tables = None,
    watermark: Annotated[str, typer.Option(help="Where to go on, for tables whose log no longer tells; only with --table.")] = "",
    as_json: Json = False,
) -> None:
    """Restore the ledger from the Delta tables: watermark, number and snapshot progress of each. Unfinished plans are discarded."""
    done: list[dict[str, Any]] = []
    with guarded(as_json):
        if watermark and not table:
            raise RequestError("--watermark is a decision about one table.", data="Nothing was changed.", next="Add --table schema.table.")
        request = new_request(tables=tuple(table or ()))
        low = CursorValue(parts=(watermark,)) if watermark else None
        for chosen in chosen_pipelines(folder, pipeline or []):
            with opened(chosen) as (context, source):
                for config in discover(chosen, source, request):
                    state = rebuild_table(context, request, config, watermark=low)
                    done.append({"table": str(config.table), "state": wire.to_data(state)})
    if as_json:
        render.print_json(done)
        return
    for item in done:
        known = item["state"]
        text = (
            f"operation {known['op_seq']}, Delta version {known['delta_version']}" if known else "no Delta table; it starts with a snapshot"
        )
        render.out.print(f"[green]rebuilt[/] {item['table']}: {text}", soft_wrap=True)


def _verify_table(context: Context, source: Source, spark: LocalSpark, config: TableConfig) -> dict[str, Any]:
    from cdc_ops.steps.reconciling import ask
    from cdc_ops.steps.verify import verify as compare

    facts = read_facts(context.pipeline, source, config)
    head = read_head(config.path, config.pipeline, config.table)
    schema = only_columns(facts.schema, (name for name, _ in head.columns)) if head else facts.schema
    found = compare(spark.session(), source, ask(source, replace(facts, schema=schema), config.settings.readers))
    missing = [column.name for column in facts.schema.columns if schema.column(column.name) is None]
    return {"table": str(config.table), "equal": found.equal, "not_compared": missing, **wire.to_data(found)}
