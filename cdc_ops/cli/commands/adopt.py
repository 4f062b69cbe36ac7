"""The command for a pipeline that has got another name: adopt."""

import logging
import os
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from cdc_ops.cli.chosen.gone_pipelines import check_is_gone, check_is_known
from cdc_ops.cli.commands.pipelines import Folder, Json, Quiet, app, guarded
from cdc_ops.cli.completion import complete_pipelines
from cdc_ops.cli.confirmation import is_confirmed
from cdc_ops.cli.output import render
from cdc_ops.cli.output.moving_lines import progress
from cdc_ops.cli.output.verbosity import verbose_option
from cdc_ops.cli.session import LocalSpark, chosen_pipelines, connect, new_request
from cdc_ops.config.settings import load_settings
from cdc_ops.core.text import plural
from cdc_ops.errors import RequestError

if TYPE_CHECKING:
    from cdc_ops.steps.adopt import Adopted, Adoption

logger = logging.getLogger("cdc_ops.cli")


@app.command()
@verbose_option
def adopt(
    pipeline: Annotated[
        str, typer.Argument(metavar="PIPELINE", help="The pipeline, under its new name.", autocompletion=complete_pipelines)
    ],
    old: Annotated[str, typer.Option("--from", metavar="NAME", help="Its old name, as 'cdc-ops status' shows it.")],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do it without confirmation.")] = False,
    folder: Folder = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Let a renamed pipeline take over its tables: Delta tables, watermarks, runs, tombstones, quarantine. Reads no row again.

    Connects to no source. What was planned under the old name and not committed is given up.
    """
    done: list[Adopted] = []
    with guarded(as_json):
        from cdc_ops.state.sql import open_store
        from cdc_ops.steps.adopt import adopt_tables, plan_adoption
        from cdc_ops.steps.context import Context

        [chosen] = chosen_pipelines(folder, [pipeline])
        instead = f"Remove {{origin}}; or rename it instead: write 'pipeline: {pipeline}' in it, and remove the other file of that name."
        check_is_gone(old, folder or load_settings(os.environ).pipelines, "taken over", instead)
        with open_store(load_settings(os.environ).ledger) as store:
            check_is_known(store, old)
            context = Context(pipeline=chosen, store=store, connect=connect)
            adoption = plan_adoption(context, old)
            _check_any(adoption, pipeline)
            lines = (
                f"{pipeline} takes over {plural(len(adoption.tables), 'table')} of {old}, with watermarks, runs and questions.",
                *_left(adoption, pipeline),
            )
            if confirmed := is_confirmed(lines, "Take them over?", without="Nothing was changed", yes=yes, quiet=as_json):
                with progress(as_json or quiet), LocalSpark(chosen) as spark:
                    for item in adopt_tables(context, adoption, new_request(), spark.session):
                        done.append(item)
                        logger.info(f"{item.state.table} belongs to {pipeline}")
    if as_json:
        render.print_json({"pipeline": pipeline, "from": old, "tables": [_document(item) for item in done]})
    elif confirmed:
        given_up = sum(item.given_up for item in done)
        text = f"{pipeline} has taken over {plural(len(done), 'table')} of {old}."
        if given_up:
            text += f" Given up, because it was planned and not committed: {plural(given_up, 'operation')}. Runs plan increments anew."
        render.out.print(escape(f"{text} Next: cdc-ops run {pipeline}"), highlight=False, soft_wrap=True)


def _check_any(adoption: "Adoption", pipeline: str) -> None:
    if adoption.left and not adoption.tables:
        raise RequestError(
            f"The file of pipeline {pipeline} has none of the tables of {adoption.old}.",
            why="Those are: " + ", ".join(map(str, adoption.left)),
            data="Nothing was changed.",
            next=f"Enter them in 'tables' of {pipeline}, or forget them: cdc-ops forget {adoption.old}",
        )


def _left(adoption: "Adoption", pipeline: str) -> tuple[str, ...]:
    if not adoption.left:
        return ()
    names = ", ".join(map(str, adoption.left))
    return (f"Not in the file of {pipeline}, so left to {adoption.old}: {names} ('cdc-ops forget {adoption.old}' removes them).",)


def _document(item: "Adopted") -> dict[str, object]:
    return {"table": str(item.state.table), "op_seq": item.state.op_seq, "given_up": item.given_up}
