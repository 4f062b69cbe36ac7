"""Leases: who may write a table, until when by the ledger database's clock, and that live runs go first.

A process of this machine that is certain to be gone holds nothing any more (`state.processes`): nobody waits for the end of its lease.
A table's row keeps its token for ever, so tokens grow over releases and expiries. A token is what writes are fenced with: a lease that has
expired but was taken by nobody still writes, because nothing can have happened in between.
"""

import hashlib
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final

from sqlalchemy import Connection, Row, delete, select, update

from cdc_ops.core.processes import holder_name
from cdc_ops.core.schema.tables import TableName
from cdc_ops.errors import LeaseHeldError, StaleStateError
from cdc_ops.state.db import table_rows
from cdc_ops.state.db.schema import tables, utc_now, waiters
from cdc_ops.state.lease import Lease
from cdc_ops.state.processes import holder_is_gone

LIVE_WAIT: Final = timedelta(seconds=60)
"""How long others stand back after a live run was refused and has not asked again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """What a run asks for; the fields are those of `StateStore.acquire`."""

    pipeline: str
    table: TableName
    holder: str
    ttl: timedelta
    live: bool
    purpose: str


def current(connection: Connection, pipeline: str, table: TableName) -> Lease | None:
    """Returns the unexpired lease of a table."""
    query = select(tables).where(table_rows.of_table(tables, pipeline, table), tables.c.holder != "", tables.c.expires_at > utc_now())
    row = connection.execute(query).first()
    return None if row is None else lease_of(row)


def lease_of(row: Row[Any]) -> Lease:
    """Reads the lease from a row of `cdc_tables` that has a holder."""
    return Lease(
        pipeline=row.pipeline,
        table=TableName(schema=row.table_schema, name=row.table_name),
        holder=row.holder,
        token=row.token,
        expires_at=row.expires_at,
        purpose=row.purpose,
    )


def acquire(connection: Connection, claim: Claim) -> Lease | LeaseHeldError:
    """Takes or renews a lease, or returns why not; the caller raises that after the transaction, which keeps a live run's mark."""
    row, now = _lock(connection, claim.pipeline, claim.table), clock(connection)
    held = bool(row.holder) and row.expires_at > now
    if held and row.holder == claim.holder:
        return _grant(connection, claim, row.token, now)
    gone = held and holder_is_gone(row.holder)
    if held and not gone:
        if claim.live:
            _mark_waiting(connection, claim, now)
        next_one = " This run gets the table next." if claim.live else " Increments get the table before this run."
        return lease_held(lease_of(row), next_one)
    if not claim.live and (waiting := _waiting(connection, claim, now)):
        return _stand_back(*waiting, claim)
    return replace(_grant(connection, claim, row.token + 1, now), instead_of=row.holder if gone else "")


def renew(connection: Connection, lease: Lease, ttl: timedelta) -> Lease:
    """Extends a lease from the database's present moment; see `StateStore.renew`."""
    hold(connection, lease)
    claim = Claim(pipeline=lease.pipeline, table=lease.table, holder=lease.holder, ttl=ttl, live=False, purpose=lease.purpose)
    return _grant(connection, claim, lease.token, clock(connection))


def release(connection: Connection, lease: Lease) -> None:
    """Gives a lease back if it is still the table's."""
    ours = (table_rows.of_table(tables, lease.pipeline, lease.table), tables.c.holder == lease.holder, tables.c.token == lease.token)
    connection.execute(update(tables).where(*ours).values(holder="", purpose="", expires_at=None))


def unlock(connection: Connection, lease: Lease) -> None:
    """Takes a lease away; see `StateStore.unlock`."""
    row = connection.execute(select(tables).where(table_rows.of_table(tables, lease.pipeline, lease.table)).with_for_update()).first()
    if row is None or (row.token, row.holder) != (lease.token, lease.holder):
        raise StaleStateError(
            f"Table {lease.table} of pipeline {lease.pipeline!r} is no longer held by {lease.holder_name}.",
            why=f"It is held by {holder_name(row.holder)} now." if row is not None and row.holder else "Its holder released the lease.",
            data="Nothing was changed.",
            next="'cdc-ops status' shows who holds it.",
        )
    freed = {"holder": "", "purpose": "", "expires_at": None, "token": row.token + 1}
    connection.execute(update(tables).where(table_rows.of_table(tables, lease.pipeline, lease.table)).values(freed))


def hold(connection: Connection, lease: Lease) -> Row[Any]:
    """Locks a table's row for the rest of the transaction and returns it.

    Raises:
        StaleStateError: the lease was released, or somebody has taken the table since.
    """
    row = connection.execute(select(tables).where(table_rows.of_table(tables, lease.pipeline, lease.table)).with_for_update()).first()
    if row is None or row.token != lease.token or row.holder != lease.holder:
        raise _lost(lease, row)
    return row


def clock(connection: Connection) -> datetime:
    """Returns the database's clock, UTC."""
    return connection.execute(select(utc_now())).scalar_one()


def _lock(connection: Connection, pipeline: str, table: TableName) -> Row[Any]:
    query = select(tables).where(table_rows.of_table(tables, pipeline, table)).with_for_update()
    row = connection.execute(query).first()
    if row is None:
        table_rows.register(connection, pipeline, table)
        row = connection.execute(query).one()
    return row


def _grant(connection: Connection, claim: Claim, token: int, now: datetime) -> Lease:
    expires_at = now + claim.ttl
    granted: dict[str, Any] = {"token": token, "holder": claim.holder, "expires_at": expires_at, "purpose": claim.purpose}
    connection.execute(update(tables).where(table_rows.of_table(tables, claim.pipeline, claim.table)).values(granted))
    mine = (table_rows.of_table(waiters, claim.pipeline, claim.table), waiters.c.waiter == _waiter(claim.holder))
    connection.execute(delete(waiters).where(*mine))
    return Lease(pipeline=claim.pipeline, table=claim.table, **granted)


def _mark_waiting(connection: Connection, claim: Claim, now: datetime) -> None:
    stale = (table_rows.of_table(waiters, claim.pipeline, claim.table), waiters.c.until <= now)
    connection.execute(delete(waiters).where(*stale))
    mark = {"waiter": _waiter(claim.holder), "holder": claim.holder, "until": now + LIVE_WAIT}
    table_rows.upsert(connection, waiters, table_rows.key(claim.pipeline, claim.table) | mark)


def _waiting(connection: Connection, claim: Claim, now: datetime) -> tuple[str, datetime] | None:
    query = select(waiters.c.holder, waiters.c.until).where(
        table_rows.of_table(waiters, claim.pipeline, claim.table), waiters.c.until > now
    )
    waiting = connection.execute(query.order_by(waiters.c.until.desc()))
    return next(((row.holder, row.until) for row in waiting if not holder_is_gone(row.holder)), None)


def _waiter(holder: str) -> str:
    return hashlib.sha256(holder.encode()).hexdigest()


def lease_held(lease: Lease, next_one: str = "") -> LeaseHeldError:
    """Returns the error of who may not write a table.

    Args:
        lease: Who may.
        next_one: Who gets it then, as a sentence.
    """
    purpose = f" for {lease.purpose}" if lease.purpose else ""
    return LeaseHeldError(
        f"Table {lease.table} of pipeline {lease.pipeline!r} is held by {lease.holder_name}{purpose} until {_moment(lease.expires_at)}.",
        why=f"Only one run may write a table at a time.{next_one}",
        data="Nothing was read or written.",
        next="Nothing to do: retry. If its holder ended without releasing it, the lease expires at that time; to end it now:"
        f" cdc-ops unlock {lease.table} --pipeline {lease.pipeline}",
    )


def _stand_back(holder: str, until: datetime, claim: Claim) -> LeaseHeldError:
    return LeaseHeldError(
        f"Table {claim.table} of pipeline {claim.pipeline!r} is reserved for {holder_name(holder)}, which waits for it,"
        f" until {_moment(until)}.",
        why="Increments go before backfills and resyncs.",
        data="Nothing was read or written.",
        next="Nothing to do: retry.",
    )


def _lost(lease: Lease, row: Row[Any] | None) -> StaleStateError:
    if row is None:
        why = "The ledger no longer has this table."
    elif row.token != lease.token:
        newest = f"{row.token} ({holder_name(row.holder) or 'released'})"
        why = f"The lease expired and another run took it, or it was unlocked: its token was {lease.token}, the newest is {newest}."
    else:
        why = "The lease was released."
    return StaleStateError(
        f"{lease.holder_name} lost its lease on {lease.table}.",
        why=why,
        data="The ledger was not changed. The Delta table shows whether the operation was committed.",
        next="Nothing to do: the next run creates a new plan from the newest state.",
    )


def _moment(instant: datetime) -> str:
    return instant.strftime("%Y-%m-%d %H:%M:%S UTC")
