"""The command that frees a table whose holder does not come back: unlock. It writes the ledger and connects to nothing else."""

import os
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from cdc_ops.cli.chosen.pipeline_names import OfTable, Table
from cdc_ops.cli.chosen.tables import parse_table
from cdc_ops.cli.commands.pipelines import Json, app, guarded
from cdc_ops.cli.confirmation import is_confirmed
from cdc_ops.cli.output import render
from cdc_ops.config.settings import load_settings
from cdc_ops.core import json_codec
from cdc_ops.core.text import did_you_mean
from cdc_ops.errors import RequestError

if TYPE_CHECKING:
    from cdc_ops.core.schema.tables import TableName
    from cdc_ops.state.base import StateReader, TableOverview

_RISK = (
    "If the holder still runs, its work may be done twice. No row is lost or duplicated: the table's Delta log accepts the number of each"
    " operation only once."
)


@app.command()
def unlock(
    table: Table,
    pipeline: OfTable = "",
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Unlock without confirmation.")] = False,
    as_json: Json = False,
) -> None:
    """Take a table's lease from a holder that does not come back; a dead process of this machine gives way by itself."""
    from cdc_ops.state.sql import open_store

    with guarded(as_json):
        store = open_store(load_settings(os.environ).ledger)
        try:
            overview = _find(store, pipeline, parse_table(table))
            lease_text = _lease_text(store, overview)
            asked = "Remove the lease?"
            freed = overview.lease is not None and is_confirmed(
                (lease_text, _RISK), asked, without="The lease was not removed", yes=yes, quiet=as_json
            )
            if overview.lease is not None and freed:
                store.unlock(overview.lease)
        finally:
            store.close()
    if as_json:
        render.print_json(
            {"pipeline": overview.state.pipeline, "table": table, "unlocked": freed, "lease": json_codec.to_data(overview.lease)}
        )
    elif overview.lease is None or freed:
        text = f"{table} is free: the next run takes it." if freed else lease_text
        render.out.print(escape(text), highlight=False, soft_wrap=True)


def _find(store: "StateReader", pipeline: str, table: "TableName") -> "TableOverview":
    known = store.overview(pipeline or None)
    rows = [row for row in known if row.state.table == table]
    if len(rows) != 1:
        names = [str(row.state.table) for row in known]
        others = f"Pipelines that have it: {', '.join(row.state.pipeline for row in rows)}." if rows else did_you_mean(str(table), names)
        raise RequestError(
            f"{'More than one pipeline has' if rows else 'The ledger does not know'} the table {table}.",
            why=others,
            data="Nothing was changed.",
            next="Name one with --pipeline." if rows else "'cdc-ops status' shows the tables.",
        )
    return rows[0]


def _lease_text(store: "StateReader", row: "TableOverview") -> str:
    """Returns who holds a table, what for, since when and until when."""
    lease, state = row.lease, row.state
    if lease is None:
        return f"{state.table} of pipeline {state.pipeline!r} is not locked."
    runs = store.history(state.pipeline, state.table)
    begun = next((run.timing.started_at for run in runs if lease.holder_name.endswith(run.run_id)), None)
    since = f" since {begun:%Y-%m-%d %H:%M:%S} UTC" if begun else ""
    until = f"until {lease.expires_at:%Y-%m-%d %H:%M:%S} UTC, if it is not renewed"
    purpose = f" for {lease.purpose}" if lease.purpose else ""
    return f"{state.table} of pipeline {state.pipeline!r} is held by {lease.holder_name}{purpose}{since}, {until}."
