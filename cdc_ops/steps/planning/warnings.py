"""Warnings of a plan about commits by others, about keys, and about operations of earlier runs.

Warnings about cursor and archive come from elsewhere.
"""

from collections.abc import Iterable

from cdc_ops.core.operation.operation import Operation
from cdc_ops.core.operation.protocol.commit_record import LakeHead
from cdc_ops.core.operation.protocol.table_state import TableState
from cdc_ops.core.operation.reads import ArchiveRead
from cdc_ops.core.pipeline.pipeline import TableConfig
from cdc_ops.core.pipeline.table_settings import Method
from cdc_ops.core.schema.tables import Column
from cdc_ops.core.schema.value_policies import OnUnstorable
from cdc_ops.events.registry import format_spec, is_own_format
from cdc_ops.steps.planning.log import reads_differently
from cdc_ops.steps.table.source_table import SourceTable
from cdc_ops.steps.table.storage import can_fill_columns

SHOWN_CHANGES = 3
"""Commits by others that a warning names."""


def foreign_warnings(head: LakeHead | None) -> tuple[str, ...]:
    """Returns a warning about commits by others that changed rows of the table since the last commit of cdc-ops."""
    changes = [change for change in head.foreign_changes if not change.undoes_commits] if head else []
    if not changes:
        return ()
    listed = ", ".join(f"{change.operation} in Delta version {change.version}" for change in changes[:SHOWN_CHANGES])
    more = f" and {len(changes) - SHOWN_CHANGES} more" if len(changes) > SHOWN_CHANGES else ""
    return (
        f"others changed rows of the Delta table: {listed}{more}; increments do not notice that: cdc-ops verify finds the rows that differ,"
        " and a resync restores them",
    )


def key_warnings(source_table: SourceTable, state: TableState) -> tuple[str, ...]:
    """Returns a warning for each key column that the source compares loosely and the lake exactly, or that may have dates that are none.

    Only until the snapshot is complete, and not for `method: log`: an event that changes the spelling of a key names the old spelling too.
    """
    if state.progress.watermark is not None or source_table.config.settings.method is Method.LOG:
        return ()
    keys = [column for key in source_table.keys if (column := source_table.schema.column(key)) is not None]
    loose = tuple(
        f"Key column {column.name!r} of {source_table.config.table} is compared loosely at the source ({column.loose}), and"
        " exactly in the lake:"
        " an update that changes only the spelling of a key (case, accents, trailing spaces) leaves a second row with the old spelling."
        " 'cdc-ops verify' finds such rows, a resync with --mode full removes them."
        for column in keys
        if column.loose
    )
    return (*loose, *_refused_keys(source_table, keys))


def _refused_keys(source_table: SourceTable, keys: Iterable[Column]) -> tuple[str, ...]:
    """Returns a warning for each key column that holds dates or times, if a value that is none would stop the table."""
    if source_table.config.settings.types.zero_dates is not OnUnstorable.NULL:
        return ()
    return tuple(
        f"Key column {column.name!r} of {source_table.config.table} is a {column.source_type}: a key never becomes NULL, so a row with"
        " a zero, impossible or infinite date in it stops the table. 'zero_dates: string' stores such keys as text."
        for column in keys
        if column.delta_type.startswith(("date", "timestamp"))
    )


def event_key_warnings(source_table: SourceTable) -> tuple[str, ...]:
    """Returns a warning about `keys` outside the primary key if the archive's events do not show changes of such a key."""
    name = source_table.pipeline.archive.events.format
    if source_table.config.settings.method is not Method.LOG or not name or is_own_format(name):
        return ()
    hidden, primary = format_spec(name).marks.hidden_keys, source_table.schema.primary_key
    others = [key for key in source_table.source_keys if key.lower() not in {column.lower() for column in primary}]
    if not hidden or not others:
        return ()
    has = f"its primary key is ({', '.join(primary)})" if primary else "it has no primary key"
    they = "them" if len(others) > 1 else "it"
    reconcile = "" if source_table.pipeline.source.is_declared else "; 'cdc-ops reconcile' deletes such rows"
    return (
        f"Key column{'s' if len(others) > 1 else ''} {', '.join(map(repr, others))} of {source_table.config.table}: {has}, and"
        " events of format"
        f" {name!r} do not show changed keys of other columns ({hidden}). An update of {they} leaves the"
        f" row under its old key in the lake too. Use the primary key as 'keys'{reconcile}.",
    )


def corrected_settings(frozen: Iterable[Operation], unfinished: Iterable[Operation]) -> tuple[str, ...]:
    """Returns a warning for each operation that is now read with other settings of the archive than at its plan."""
    return tuple(
        f"the settings of the archive were changed; operation {after.op_seq} has landed nothing yet and is read with the new settings"
        for before, after in zip(frozen, unfinished, strict=True)
        if reads_differently(before, after)
    )


def added_columns(unfinished: Iterable[Operation], config: TableConfig, *, declared: bool) -> tuple[str, ...]:
    """Returns a warning for each column that operations of an archive have got since their plan."""
    logs = (operation for operation in unfinished if isinstance(operation.read, ArchiveRead))
    news = (
        change.meaning(
            config.pipeline, config.table, declared=declared, fills=can_fill_columns(operation.apply.stored_as, operation.apply.keys)
        )
        for operation in logs
        for change in operation.apply.schema_changes
    )
    return tuple(dict.fromkeys(news))
