"""The command for a pipeline that is gone: forget. It writes the ledger and connects to nothing else."""

import os
from typing import Annotated

import typer
from rich.markup import escape

from cdc_ops.cli.chosen.gone_pipelines import check_is_gone, check_is_known
from cdc_ops.cli.commands.pipelines import Folder, Json, app, guarded
from cdc_ops.cli.confirmation import is_confirmed
from cdc_ops.cli.output import render
from cdc_ops.cli.session import ledger_reader
from cdc_ops.config.settings import load_settings
from cdc_ops.core.text import plural

_KEPT = "Its Delta tables stay as they are; nothing updates them any more."


@app.command()
def forget(
    pipeline: Annotated[str, typer.Argument(help="The pipeline's name, as 'cdc-ops status' shows it.", metavar="PIPELINE")],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Forget it without confirmation.")] = False,
    folder: Folder = None,
    as_json: Json = False,
) -> None:
    """Remove a pipeline whose file is gone from the ledger: its tables, runs, alerts and questions. Its Delta tables stay as they are."""
    from cdc_ops.state.sql import open_store

    with guarded(as_json):
        instead = f"Remove {{origin}} first. If its ledger is wrong: cdc-ops state rebuild --pipeline {pipeline}"
        check_is_gone(pipeline, folder or load_settings(os.environ).pipelines, "forgotten", instead)
        with ledger_reader() as reader:
            check_is_known(reader, pipeline)
            tables = [str(row.state.table) for row in reader.overview(pipeline)]
        text = f"The ledger forgets pipeline {pipeline}: {plural(len(tables), 'table')}, with runs and alerts. {_KEPT}"
        if wanted := is_confirmed((text,), "Forget it?", without="Nothing was forgotten", yes=yes, quiet=as_json):
            with open_store(load_settings(os.environ).ledger) as store:
                store.forget(pipeline)
    if as_json:
        render.print_json({"pipeline": pipeline, "forgotten": wanted, "tables": tables})
    elif wanted:
        render.out.print(
            escape(f"The ledger has forgotten {pipeline}: {plural(len(tables), 'table')}. {_KEPT}"), highlight=False, soft_wrap=True
        )
