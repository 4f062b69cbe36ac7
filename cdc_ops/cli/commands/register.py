"""`cdc-ops register`: tells Spark's catalog of tables that are in the lake."""

import os
from typing import TYPE_CHECKING, Any

import typer
from rich.markup import escape

from cdc_ops.cli.chosen.pipeline_names import Names, Tables, pipeline_argument
from cdc_ops.cli.commands.pipelines import Folder, Json, Quiet, app, common_exit_code, guarded, isolated_errors
from cdc_ops.cli.output import render
from cdc_ops.cli.output.moving_lines import progress
from cdc_ops.cli.output.verbosity import verbose_option
from cdc_ops.cli.session import LocalSpark, chosen_pipelines, connect, new_request
from cdc_ops.config.settings import load_settings
from cdc_ops.errors import CdcError

if TYPE_CHECKING:
    from cdc_ops.steps.register import Registration


@app.command()
@verbose_option
@pipeline_argument
def register(folder: Folder = None, pipeline: Names = None, table: Tables = None, quiet: Quiet = False, as_json: Json = False) -> None:
    """Register Delta tables in Spark's catalog, by the names that `catalog` and `catalog_name` give them. Connects to no source.

    Runs do so after a commit. This is for tables that were there before `catalog` was set, and for a catalog that was away.
    """
    done: list[Registration] = []
    stopped: dict[str, CdcError] = {}
    with guarded(as_json):
        from cdc_ops.state.sql import open_store
        from cdc_ops.steps.context import Context
        from cdc_ops.steps.register import register_tables

        request = new_request(tables=tuple(table or ()))
        pipelines = chosen_pipelines(folder, pipeline or [])
        store = open_store(load_settings(os.environ).ledger)
        try:
            for chosen in pipelines:
                context = Context(pipeline=chosen, store=store, connect=connect)
                with (
                    isolated_errors(chosen.name, pipelines, stopped, as_json),
                    progress(as_json or quiet),
                    LocalSpark(chosen) as spark,
                ):
                    done += register_tables(context, request, spark.session)
        finally:
            store.close()
    if as_json:
        render.print_json([*map(_document, done), *({"pipeline": name, "error": error.to_payload()} for name, error in stopped.items())])
    else:
        for item in done:
            _print(item)
    if errors := [*(item.error for item in done if item.error), *stopped.values()]:
        raise typer.Exit(common_exit_code(errors))


def _document(item: "Registration") -> dict[str, Any]:
    names = {"pipeline": item.config.pipeline, "table": str(item.config.table), "name": item.name, "new": item.is_new}
    return names | ({"error": item.error.to_payload()} if item.error else {})


def _print(item: "Registration") -> None:
    if item.error:
        render.out.print(f"[red]failed[/] {escape(str(item.config.table))}: {escape(str(item.error))}", soft_wrap=True, highlight=False)
        return
    how = "registered as" if item.is_new else "is registered as"
    render.out.print(f"[green]done[/] {escape(str(item.config.table))} {how} {escape(item.name)}", soft_wrap=True, highlight=False)
