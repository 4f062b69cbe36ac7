"""adopt: a pipeline takes over the tables of one that has no file any more, mostly itself under its old name. `cdc-ops adopt` calls it.

    for each table, under its lease in both pipelines:
        the ledger is brought up to the lake; what was planned and not committed is given up
        the Delta table gets its new owner (lake.table.owner)
        its tombstones, quarantine and event history go to their place below the new name
        the ledger's rows go to the new name, in one transaction

Whatever breaks it off, the table is either the old pipeline's, or refused to both, until the command is repeated.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from pyspark.sql import SparkSession

from cdc_ops.core.operation.protocol.table_state import TableState, last_drawn
from cdc_ops.core.operation.run_request import RunRequest
from cdc_ops.core.pipeline.pipeline import Pipeline, TableConfig, current_settings, table_path
from cdc_ops.core.pipeline.tables.paths import history_root, quarantine_path, staging_root, tombstones_path
from cdc_ops.core.schema.tables import TableName
from cdc_ops.errors import StateError, TargetForeignError
from cdc_ops.lake.file_io import remove_folder
from cdc_ops.lake.log.head import owner_of, read_head
from cdc_ops.lake.moved_folder import move_folder
from cdc_ops.lake.table.owner import HandOver, hand_over
from cdc_ops.state.lease import Lease
from cdc_ops.state.lease_renewal import LeaseKeeper
from cdc_ops.steps.context import Context
from cdc_ops.steps.recover import follow_lake


@dataclass(frozen=True, slots=True, kw_only=True)
class Adopted:
    """A table that was taken over.

    Args:
        state: Its state under the new name.
        given_up: How many operations had been planned and not committed. Increments are planned anew, others have to be started again.
    """

    state: TableState
    given_up: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Adoption:
    """Which tables of a pipeline another one takes over.

    Args:
        old: The name of the pipeline that has no file any more.
        tables: Its tables that the other pipeline's file has.
        left: Those that it has not: they stay the old pipeline's.
    """

    old: str
    tables: tuple[TableConfig, ...]
    left: tuple[TableName, ...]


def plan_adoption(context: Context, old: str) -> Adoption:
    """Returns which of the ledger's tables of a pipeline the pipeline of a context takes over."""
    known = [row.state.table for row in context.store.overview(old)]
    named = {table: current_settings(context.pipeline, table) for table in known}
    configs = (
        TableConfig(pipeline=old, table=table, settings=settings, path=table_path(context.pipeline, table, settings))
        for table, settings in named.items()
        if settings is not None
    )
    return Adoption(old=old, tables=tuple(configs), left=tuple(table for table, settings in named.items() if settings is None))


def adopt_tables(context: Context, adoption: Adoption, request: RunRequest, spark: Callable[[], SparkSession]) -> Iterator[Adopted]:
    """Takes tables over, one after the other.

    Args:
        context: The ledger, and the pipeline that takes them.
        adoption: Which.
        request: Who does it.
        spark: Opens the session; called only if there is a Delta table.

    Raises:
        LeaseHeldError: a run holds a table.
        StateError: ledger and lake of a table do not agree; those before it are taken over.
        TargetForeignError: a Delta table is a third pipeline's.
        TargetNotDeltaError: below the new name there are other tombstones, another quarantine or another history.
    """
    for config in adoption.tables:
        own = replace(config, pipeline=context.pipeline.name)
        leases: list[Lease] = []
        try:
            for name in (config.pipeline, own.pipeline):
                leases.append(context.store.acquire(name, config.table, request.holder, ttl=context.lease_ttl, live=True, purpose="adopt"))
            with LeaseKeeper(context.store, leases, context.lease_ttl, lambda lease: None):
                yield _adopt(context, config, own, leases, request.run_id, spark)
        finally:
            for lease in leases:
                context.store.release(lease)
    context.store.adopt_rest(adoption.old, context.pipeline.name)


def _adopt(
    context: Context, config: TableConfig, own: TableConfig, leases: list[Lease], run_id: str, spark: Callable[[], SparkSession]
) -> Adopted:
    store, (old, new) = context.store, leases
    if store.table_state(own.pipeline, own.table).committed_op_seq:
        raise _has_its_own(own, config)
    drawn = store.open_numbers(config.pipeline, config.table)
    owner = owner_of(config.path)
    theirs, ours, nobodys = (config.pipeline, str(config.table)), (own.pipeline, str(own.table)), ("", "")
    if owner not in (theirs, ours, nobodys):
        raise _anothers(config, owner)
    if owner != ours:  # else an earlier try came as far
        _settle(context, old, config)
    state = store.table_state(config.pipeline, config.table)
    number = last_drawn(state, (one.op_seq for one in drawn))
    if owner == theirs:
        names = {"old": config.pipeline, "new": own.pipeline}
        hand_over(spark(), HandOver(path=config.path, table=config.table, number=number, run_id=run_id, **names))
    move_side_tables(replace(context.pipeline, name=config.pipeline), context.pipeline, config.table)
    adopted = _state_under(own, state, number)
    store.adopt(old, new, adopted)
    remove_folder(staging_root(replace(context.pipeline, name=config.pipeline), config.table))  # nobody reads what is landed there
    return Adopted(state=adopted, given_up=sum(one.op_seq > state.committed_op_seq for one in drawn))


def move_side_tables(old: Pipeline, new: Pipeline, table: TableName) -> None:
    """Moves what lies beside a Delta table below the pipeline's name: its tombstones, its quarantine, its event history.

    Raises:
        TargetNotDeltaError: below the new name there is another one.
    """
    for place in (tombstones_path, quarantine_path, history_root):
        move_folder(place(old, table), place(new, table))


def _settle(context: Context, lease: Lease, config: TableConfig) -> None:
    """Brings the ledger to the lake's state.

    Raises:
        StateError: they do not agree, and somebody has to decide which of them is right.
    """
    try:
        follow_lake(context, lease, config)
    except StateError as error:
        back = f"Put the old name back ('pipeline: {config.pipeline}' in the pipeline file) and follow this, then rename it again: "
        raise StateError(error.what, why=error.why, data=error.data, next=back + error.next) from error


def _state_under(own: TableConfig, state: TableState, number: int) -> TableState:
    """Returns a table's state under the new name: as it was, at the commit that took the table over.

    Args:
        own: The table, under the new name.
        state: Its state under the old one.
        number: The last number that was drawn for it.
    """
    head = read_head(own.path, own.pipeline, own.table)
    taken = (head.txn_version if head else None) or 0
    state = replace(state, pipeline=own.pipeline, op_seq=max(state.op_seq, number, taken))
    if head is None or head.created_by_us or not taken:
        return state
    committed_id = head.record.operation_id if head.record else state.operation_id
    return replace(state, committed_op_seq=taken, operation_id=committed_id, delta_version=head.version)


def _anothers(config: TableConfig, owner: tuple[str, str]) -> TargetForeignError:
    return TargetForeignError(
        f"The Delta table at {config.path} cannot be taken over from {config.pipeline}.",
        why=f"It belongs to table {owner[1]} of pipeline {owner[0]!r}.",
        data="The table was not changed.",
        next="Give the table the 'path' in the pipeline file that it had under the old name, or exclude it.",
    )


def _has_its_own(own: TableConfig, config: TableConfig) -> StateError:
    return StateError(
        f"Pipeline {own.pipeline} cannot take over {own.table} of {config.pipeline}.",
        why="It has rows of its own of that table: the ledger knows commits of both.",
        data="The table was not changed.",
        next=f"Leave the table to one of them: exclude it in the file of {own.pipeline}, or remove what {config.pipeline} knows:"
        f" cdc-ops forget {config.pipeline}",
    )
