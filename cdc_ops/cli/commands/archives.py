"""Commands on archives: archive, which copies binlogs into one; gap list and gap accept, which know the ledger alone."""

import getpass
import os
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from cdc_ops.cli.chosen.pipeline_names import Names, OfGap, One, Tables, check_known, one_name, pipeline_argument
from cdc_ops.cli.chosen.tables import parse_table
from cdc_ops.cli.commands.pipelines import ARCHIVE_GAP, Folder, Json, Quiet, app, guarded
from cdc_ops.cli.help_format import Application
from cdc_ops.cli.output import render
from cdc_ops.cli.output.archived import print_copies
from cdc_ops.cli.output.moving_lines import progress
from cdc_ops.cli.session import chosen_pipelines, ledger_reader
from cdc_ops.config.connections import connection_url
from cdc_ops.config.settings import load_settings
from cdc_ops.core import json_codec
from cdc_ops.core.text import minute_text
from cdc_ops.errors import RequestError

if TYPE_CHECKING:
    from cdc_ops.core.archive.completeness import GapRecord
    from cdc_ops.state.base import StateReader

gap_app = Application(help="Gaps in archives: change events that no file holds although later ones exist.")
app.add_typer(gap_app, name="gap")


@app.command()
@pipeline_argument
def archive(
    pipeline: One = "",
    flush: Annotated[bool, typer.Option("--flush", help="Close the server's newest binlog first, so that it is copied too.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be copied, and what is missing.")] = False,
    folder: Folder = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Copy the closed binlogs of a pipeline's MySQL or MariaDB server into its archive, byte for byte, those that it does not have.

    The pipeline file says from where, in 'archive.copy'. A run that was killed leaves whole files only; the next one goes on.
    """
    from cdc_ops.steps.archive.copy_binlogs import archive_binlogs

    stopped = "Binlogs that were copied are whole; of the one that was being copied the archive has nothing, and the next run copies it."
    with guarded(as_json, lambda: stopped):
        [chosen] = chosen_pipelines(folder, [one_name(folder, pipeline)])
        with progress(quiet or as_json):
            url = connection_url(chosen.archive.copy.connection)
            report = archive_binlogs(chosen, url, flush=flush, dry_run=dry_run)
    if as_json:
        gap = report.gap
        render.print_json({**json_codec.to_data(report), "gap": gap.to_payload() if gap else None})
    else:
        print_copies(report, quiet=quiet)
    if report.gap:
        raise typer.Exit(ARCHIVE_GAP)


@gap_app.command("list")
@pipeline_argument
def list_gaps(pipeline: Names = None, as_json: Json = False) -> None:
    """Show gaps that stop a table, and accepted gaps that no run has passed yet."""
    with guarded(as_json), ledger_reader() as reader:
        check_known(reader, pipeline or ())
        records = [record for record in reader.archive_gaps() if not pipeline or record.pipeline in pipeline]
    if as_json:
        render.print_json([_data(record) for record in records])
        return
    if not records:
        render.out.print("The archives have no open gaps.")
    for record in records:
        render.out.print(_line(record), highlight=False, soft_wrap=True)
    if still := next((record for record in records if record.decision is None), None):
        how = f'To accept the loss of its events: cdc-ops gap accept {still.gap_id} --pipeline {still.pipeline} --why "..."'
        render.out.print(escape(how), highlight=False, soft_wrap=True)


@gap_app.command("accept")
def accept(
    gap: Annotated[str, typer.Argument(help="The gap's name, from 'gap list'.")],
    why: Annotated[str, typer.Option(metavar="TEXT", help="Why the loss is acceptable. The ledger keeps the reason.")],
    pipeline: OfGap = "",
    who: Annotated[str, typer.Option(metavar="NAME", help="Who accepts the loss. Default: the user of this process.")] = "",
    table: Tables = None,
    as_json: Json = False,
) -> None:
    """Accept that the events of a gap are lost. The next run continues behind it, and its commit records the decision.

    Tables whose events come in one stream have the same gap: it is accepted for all of them, or for those that are named.
    """
    from cdc_ops.state.sql import open_store

    with guarded(as_json):
        store = open_store(load_settings(os.environ).ledger)
        try:
            tables = tuple(map(parse_table, table or ()))
            records = store.accept_gap(pipeline or _pipeline_with(store, gap), gap, who=who or getpass.getuser(), why=why, tables=tables)
        finally:
            store.close()
    if as_json:
        render.print_json([_data(record) for record in records])
        return
    for record in records:
        render.out.print(_line(record), highlight=False, soft_wrap=True)


def _pipeline_with(store: "StateReader", gap: str) -> str:
    """Returns the pipeline that has a gap.

    Raises:
        RequestError: none has it, or several.
    """
    records = store.archive_gaps()
    found = sorted({record.pipeline for record in records if record.gap_id == gap})
    if len(found) == 1:
        return found[0]
    raise RequestError(
        f"Several pipelines have the gap {gap!r}." if found else f"No pipeline has an open gap {gap!r}.",
        why=f"Pipelines are {', '.join(found)}." if found else f"Open gaps are: {', '.join({one.gap_id for one in records}) or 'none'}.",
        data="Nothing was changed.",
        next="Name one with --pipeline." if found else "'cdc-ops gap list' shows them.",
    )


def _data(record: "GapRecord") -> dict[str, object]:
    return {"name": record.gap_id, **json_codec.to_data(record)}


def _line(record: "GapRecord") -> str:
    text = f"{record.gap_id}  {record.status.value:8}  {record.pipeline}  {record.table}  {record.gap}"
    if record.decision is not None:
        text += f"  [{record.decision.who}, {minute_text(record.decision.at)}: {record.decision.why}]"
    return escape(text)
