"""Another table under the name of the one that was copied, or another server behind its address: an increment is refused, or told.

    another table, for sure (Postgres)      TableReplacedError
    a table that may be another one         a warning in each run
    another server that stamps its rows     SourceServerChangedError, unless the run accepts it

All three end with an operation that reads all rows, or compares all of their values.
"""

from cdc_ops.core.operation.operation import Operation
from cdc_ops.core.operation.protocol.table_state import Phase, TableState
from cdc_ops.core.operation.run_request import RunKind, RunRequest
from cdc_ops.core.schema.table_identity import Sameness, TableIdentity, compare_identity, has_moved, identity_after
from cdc_ops.errors import SourceServerChangedError, TableReplacedError
from cdc_ops.sources.base import Source
from cdc_ops.steps.table.source_table import SourceTable


def check_identity(source: Source, source_table: SourceTable, state: TableState, request: RunRequest) -> tuple[str, ...]:
    """Compares table and server at the source with those that the lake is a copy of, before an increment is planned.

    A snapshot that is under way goes on where another server answers: the first increment after it is refused.

    Args:
        source: The open source.
        source_table: What the source says.
        state: The table's state, which says of which table its rows are.
        request: The run. All but increments read rows on purpose, whichever table has them.

    Returns:
        A warning, if it may be another table.

    Raises:
        TableReplacedError: it is another table.
        SourceServerChangedError: another server stamps its rows, and nobody has accepted it.
    """
    if request.kind is not RunKind.INCREMENT:
        return ()
    recorded, present = state.identity, source_table.identity
    sameness = compare_identity(recorded, present)
    if sameness is Sameness.OTHER:
        raise _replaced(source_table, recorded)
    if has_moved(recorded, present) and state.phase is Phase.READY:
        if not request.accepts.server:
            raise _changed(source_table, recorded)
        if not _has_reached(source, source_table, state):
            raise _behind(source_table, recorded)
    return (_suspected(source_table),) if sameness is Sameness.UNSURE else ()


def settled_identity(source: Source, source_table: SourceTable, state: TableState, request: RunRequest, *, whole: bool) -> TableIdentity:
    """Returns the table and the server that the lake stands for after an operation, or after a plan that found nothing.

    That the server is another one is settled only once its own bound has reached the watermark. Before that, rows could still come below
    the watermark after all of them were compared.

    Args:
        source, source_table, state, request: As in `check_identity`.
        whole: All rows are read, or all of their values compared.
    """
    recorded, present = state.identity, source_table.identity
    accepted = request.accepts.server
    if has_moved(recorded, present) and (whole or accepted) and not _has_reached(source, source_table, state):
        return recorded
    return identity_after(recorded, present, whole=whole, accepted=accepted)


def unsettled_warnings(source_table: SourceTable, operations: tuple[Operation, ...]) -> tuple[str, ...]:
    """Returns a warning where another server answers and no new operation settles it."""
    if not operations or not has_moved(operations[-1].source.identity, source_table.identity):
        return ()
    return (
        f"another server answers than the one that the watermark comes from ({_servers(source_table, operations[-1].source.identity)}), and"
        " this run does not settle it: that takes a comparison of all rows after the new server's own bound has reached the watermark."
        f" Until 'cdc-ops reconcile {_which(source_table)}' has done that, increments are refused",
    )


def _has_reached(source: Source, source_table: SourceTable, state: TableState) -> bool:
    """True if nothing can commit any more below the watermark by the clocks and counters of the server that answers now."""
    cursor, progress = source_table.cursor, state.progress
    watermark = progress.watermark or (progress.snapshot.bound if progress.snapshot else None)
    if watermark is None:
        return True
    bound = source.safe_bound(source_table.schema, cursor, source_table.config.settings.load.lookback, None)
    return cursor.order(bound.value) >= cursor.order(watermark)


def _which(source_table: SourceTable) -> str:
    return f"--pipeline {source_table.config.pipeline} --table {source_table.config.table}"


def _servers(source_table: SourceTable, before: TableIdentity) -> str:
    present = source_table.identity
    if present.origin != before.origin:
        return f"it is {present.origin}; it was {before.origin}"
    return f"it is {present.origin} on {present.server}; it was on {before.server}"


def _changed(source_table: SourceTable, before: TableIdentity) -> SourceServerChangedError:
    which = _which(source_table)
    compared = f"cdc-ops reconcile {which}   # compares all rows, copies those that differ, and increments go on"
    if source_table.reads_changes:  # of which the source has more than the lake
        compared = f"cdc-ops resync {which} --mode full   # reads all rows anew"
    return SourceServerChangedError(
        f"Another server stamps the rows of {source_table.config.table} than the one that its watermark comes from:"
        f" {_servers(source_table, before)}.",
        why="After a failover, a move or a restore, the new server's clock or counters may be behind, so that it has rows below the"
        " watermark that were never read; and it may lack the last commits of the old one, which the lake has.",
        data="Nothing was read; the watermark stays.",
        next=f"{compared}\n"
        "        or, if the old server was stopped, the new one had applied all of it, and its clock is not behind: cdc-ops run"
        f" {which} --accept-server   # in Airflow: accept_server",
    )


def _behind(source_table: SourceTable, before: TableIdentity) -> SourceServerChangedError:
    return SourceServerChangedError(
        f"The server that answers for {source_table.config.table} cannot be accepted yet: its own bound has not reached the watermark"
        f" ({_servers(source_table, before)}).",
        why="Its clock or counter is behind, or a transaction is open that began before; rows can still come below the watermark.",
        data="Nothing was read; the watermark stays.",
        next=f"Accept it later, or, once its bound has passed: cdc-ops reconcile {_which(source_table)}",
    )


def _replaced(source_table: SourceTable, before: TableIdentity) -> TableReplacedError:
    which = _which(source_table)
    return TableReplacedError(
        f"{source_table.config.table} is another table than the one that was copied: its oid is {source_table.identity.made};"
        f" it was {before.made}.",
        why="It was dropped and made again, another table was renamed to its name, or the database was restored from a dump.",
        data="Nothing was read; the watermark stays. Rows of the new table below the watermark were never read, and no increment would.",
        next=f"cdc-ops resync {which} --mode full   # replaces the rows of the lake by those of the new table\n"
        f"        or, if most rows are the same: cdc-ops reconcile {which} --rows   # compares all of them, and copies those that differ",
    )


def _suspected(source_table: SourceTable) -> str:
    which = _which(source_table)
    return (
        f"was made anew or rebuilt on {source_table.identity.made} UTC, and the server does not say which. If another table took the name,"
        f" its rows below the watermark were not read. 'cdc-ops verify {which}' tells; 'cdc-ops reconcile {which} --rows' copies them, and"
        " ends this warning"
    )
