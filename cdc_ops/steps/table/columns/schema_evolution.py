"""The source's schema against the lake's, at the plan and around each read. No Spark here.

What a policy lets through goes into a plan's facts; a frozen operation that is not landed is brought to the columns that the source has
now; a read whose columns are no longer those that were planned is refused.
"""

from dataclasses import replace

from cdc_ops.config.expressions.sequence_by import order_names
from cdc_ops.config.expressions.spark_conditions import named_columns
from cdc_ops.core.apply.deletes import source_columns
from cdc_ops.core.approvals import Asked, asks
from cdc_ops.core.approvals import Decision as Asks
from cdc_ops.core.operation.operation import Operation
from cdc_ops.core.operation.protocol.commit_record import LakeHead
from cdc_ops.core.operation.reads import ArchiveRead
from cdc_ops.core.operation.run_request import ResyncMode, RunRequest
from cdc_ops.core.schema.collated_keys import alike, compare_rules
from cdc_ops.core.schema.schema_evolution import (
    COPY_ANEW,
    Decision,
    Recorded,
    SchemaSettings,
    compare_columns,
    compare_keys,
    decide,
    drift,
    keeps_position,
    only_columns,
    reads_alike,
)
from cdc_ops.core.schema.schema_evolution import SchemaPolicy as Policy
from cdc_ops.core.schema.server_types.unsigned_bigints import schema_as_stored
from cdc_ops.core.schema.tables import TableSchema
from cdc_ops.core.text import did_you_mean
from cdc_ops.errors import RequestError, SchemaChangedError, SourceTableError
from cdc_ops.sources.base import Source
from cdc_ops.steps.table.columns.collated_keys import with_collated_keys
from cdc_ops.steps.table.soft_deletes import check_deletes, deleted_column_changes, replacing_schema
from cdc_ops.steps.table.source_table import SourceTable
from cdc_ops.steps.table.storage import can_fill_columns, check_request, check_reserved_names, metadata_column_changes


def apply_schema_policy(source_table: SourceTable, head: LakeHead | None, request: RunRequest) -> SourceTable:
    """Compares the source's columns with the lake's and applies the table's policy.

    A full resync takes the source's columns as they are: it makes a new generation, whatever the policy says of following.

    Args:
        source_table: What the source says.
        head: What the lake says; None if there is no table yet.
        request: The run.

    Raises:
        SchemaChangedError: the policy does not follow.
        RequestError: the run names columns that the table does not have.
    """
    source_table = _with_width_of_table(with_collated_keys(source_table, head, request), head, request)
    _check_cursor(source_table, head)
    check_deletes(source_table, head, request)
    check_request(source_table.stored_as, source_table.config, head, request)
    if request.mode is ResyncMode.FULL:
        check_reserved_names(source_table.config, source_table.schema, head)
        return replace(source_table, fingerprint=source_table.schema.fingerprint, schema=replacing_schema(source_table, head))
    filled = request.columns if request.since is None else ()  # of a range, other rows keep NULL
    try:
        decision = _decision(source_table, head, filled)
    except SchemaChangedError as error:
        raise _asking(error, source_table) from None
    check_reserved_names(source_table.config, decision.schema, head)
    _check_columns(source_table, decision.schema, request.columns)
    marker = source_table.config.settings.deleted_column
    declared = source_table.pipeline.source.is_declared
    marks = (*deleted_column_changes(marker, head), *metadata_column_changes(source_table.stored_as, marker, head, declared=declared))
    place = (source_table.config.pipeline, source_table.config.table)
    notes = (*decision.notes, *(change.meaning(*place, declared=declared, filled=change.column in filled) for change in marks))
    return replace(
        source_table,
        schema=decision.schema,
        changes=(*decision.alter, *marks),
        fingerprint=source_table.schema.fingerprint,
        warnings=source_table.warnings + notes,
        notes=notes,
        stored=tuple(name for name, _ in head.columns if source_table.schema.column(name) is None) if head else (),
    )


def rebase_on_current_columns(operation: Operation, source_table: SourceTable, head: LakeHead | None, request: RunRequest) -> Operation:
    """Brings a frozen operation to the columns that the source has now, if it could not be read any more as it was frozen.

    So is one that reads an archive and lacks columns that were added: files that have changed meanwhile are frozen again, and their events
    may speak of these.

    Number, identity, window and slices stay: it is the same operation, whose rows are read with other columns.

    Args:
        operation: The frozen operation, not landed.
        source_table: What the source says now, before any policy.
        head: What the lake says.
        request: The run; before a full resync an operation goes without the columns that the policy does not follow.

    Returns:
        The operation itself, if it can be read as it is.

    Raises:
        SchemaChangedError: the policy does not follow, or the operation's window is on columns that are gone.
    """
    source_table = replace(source_table, schema=alike(source_table.schema, operation.source.schema), keys=operation.apply.keys)
    readable = not drift(operation.source.schema, source_table.schema)
    if readable and (
        not isinstance(operation.read, ArchiveRead)
        or all(operation.source.schema.column(column.name) for column in source_table.schema.columns)
    ):
        return operation
    needed = (*operation.apply.keys, *operation.source_keys, *operation.source.cursor.column_names)
    if missing := [name for name in needed if source_table.schema.column(name) is None]:
        raise _unreadable(operation, missing)
    if operation.apply.replaces_schema:
        return replace(
            operation,
            source=replace(operation.source, schema=replacing_schema(source_table, head), fingerprint=source_table.schema.fingerprint),
        )
    try:
        decision = _decision(source_table, head)
    except SchemaChangedError as error:
        if readable:
            return operation
        if request.mode is not ResyncMode.FULL:
            raise _asking(error, source_table) from None
        return _without_changed(operation, source_table.schema, needed)
    own = metadata_column_changes(
        operation.apply.stored_as, operation.apply.deleted_column, head, declared=source_table.pipeline.source.is_declared
    )
    marks = (*deleted_column_changes(operation.apply.deleted_column, head), *own)
    decision = replace(decision, alter=(*decision.alter, *marks))
    return _with_columns(operation, decision, needed, source_table.config.settings.order.previous_key)


def _with_columns(operation: Operation, decision: Decision, needed: tuple[str, ...], previous_key: tuple[str, ...]) -> Operation:
    fingerprint = decision.source.fingerprint
    if not operation.apply.update_only:
        before = operation.apply.previous_keys if all(decision.schema.column(name) for name in previous_key) else ()
        return replace(
            operation,
            source=replace(operation.source, schema=decision.schema, fingerprint=fingerprint),
            apply=replace(operation.apply, schema_changes=decision.alter, previous_keys=before),
        )
    left = tuple(
        name for name in operation.apply.update_only if decision.schema.column(name) is not None or name == operation.apply.deleted_column
    )
    if not left:
        raise _unreadable(operation, operation.apply.update_only)
    return replace(
        operation,
        source=replace(operation.source, schema=only_columns(decision.schema, (*needed, *left)), fingerprint=fingerprint),
        apply=replace(operation.apply, schema_changes=decision.alter, update_only=left),
    )


def _without_changed(operation: Operation, now: TableSchema, needed: tuple[str, ...]) -> Operation:
    kept = [column.name for column in operation.source.schema.columns if (found := now.column(column.name)) and reads_alike(column, found)]
    if lost := [name for name in needed if name.lower() not in {column.lower() for column in kept}]:
        raise _unreadable(operation, lost)
    return replace(operation, source=replace(operation.source, schema=only_columns(operation.source.schema, kept)))


def check_columns_unchanged(source: Source, operation: Operation) -> None:
    """Refuses to read an operation whose columns have changed at the source since they were frozen.

    Called right before the rows are read, and again before they are declared landed: values that were read by a stale plan would be cast to
    types that they do not fit.

    Raises:
        SchemaChangedError: a column is gone, or is declared or read differently.
    """
    try:
        read = operation.full_schema
        names = [column.name for column in read.columns if not column.normalises]
        now = alike(source.schema(operation.table, columns=names, types=operation.source.schema.types), read)
    except SourceTableError as error:
        raise _changed(operation, error.what) from error
    if found := drift(read, now):
        raise _changed(operation, "; ".join(found) + ".")


def _with_width_of_table(source_table: SourceTable, head: LakeHead | None, request: RunRequest) -> SourceTable:
    """Returns a table with columns as wide as the lake has them; a new generation is as wide as its values need."""
    if head is None or request.mode is ResyncMode.FULL:
        return source_table
    return replace(source_table, schema=schema_as_stored(source_table.schema, head.columns))


def _decision(source_table: SourceTable, head: LakeHead | None, filled: tuple[str, ...] = ()) -> Decision:
    settings = source_table.config.settings
    if head is not None:
        source_table = replace(source_table, schema=schema_as_stored(source_table.schema, head.columns))
    if head is None:
        return Decision(schema=source_table.schema, source=source_table.schema)
    asked = SchemaSettings(
        pipeline=source_table.config.pipeline,
        policy=settings.values.schema_changes,
        renamed=settings.values.renamed,
        declared=source_table.pipeline.source.is_declared,
        fills=can_fill_columns(source_table.stored_as, source_table.keys) and not source_table.reads_changes,
        filled=filled,
    )
    renamed = asked.renamed if asked.policy is not Policy.FREEZE else ()  # to rename a column is not to go on with the old ones
    changes = compare_columns(
        source_columns(head.columns, settings.deleted_column, (settings.storage.metadata_columns, head.own)), source_table.schema, renamed
    )
    record = head.record
    recorded = Recorded(keys=record.columns.keys, fingerprint=record.columns.schema_fingerprint) if record else Recorded()
    changes += compare_keys(recorded.keys, source_table.keys, changes)
    changes += compare_rules(record.columns.key_rules if record else (), source_table.schema)
    conditions = named_columns((settings.apply.apply_as_deletes, settings.apply.apply_as_truncates), source_table.schema.names)
    needed = (
        *source_table.keys,
        *source_table.cursor.column_names,
        *settings.order.previous_key,
        *order_names(settings.order.sequence_by, source_table.schema.names),
        *conditions,
    )
    return decide(asked, source_table.schema, changes, recorded, needed)


def _asking(error: SchemaChangedError, source_table: SourceTable) -> SchemaChangedError:
    """Adds to an error that a full resync would follow the change, where there is a source to read and no history to lose."""
    if source_table.pipeline.source.is_declared or source_table.stored_as.keeps_versions:
        return error
    return error.asking(asks(Asked(decision=Asks.COLUMNS)))


def _check_columns(source_table: SourceTable, schema: TableSchema, columns: tuple[str, ...]) -> None:
    keys = {key.lower() for key in source_table.keys}
    for name in columns:
        if name and name == source_table.config.settings.deleted_column:
            continue
        if schema.column(name) is None or name.lower() in keys:
            others = [column.name for column in schema.columns if column.name.lower() not in keys]
            raise RequestError(
                f"Table {source_table.config.table} has no column {name!r} that a backfill can fill.",
                why="It is a key column." if name.lower() in keys else did_you_mean(name, others),
                data="Nothing was read or written; the watermark stays.",
                next="Name columns that the pipeline copies and that are not keys.",
            )


def _check_cursor(source_table: SourceTable, head: LakeHead | None) -> None:
    """A watermark is a value of the cursor's column and type: of another one it would be another position, and rows could be lost."""
    _check_lead(source_table, head)
    stored = {name.lower(): kind for name, kind in head.columns} if head else {}
    for name in source_table.cursor.column_names:
        column = source_table.schema.column(name)
        before = stored.get(name.lower())
        if column is None or before is None:
            continue
        if not keeps_position(before, column.delta_type):
            raise SchemaChangedError(
                f"The cursor column {name} of {source_table.config.table} is now {column.source_type}, and is stored as {before}.",
                why="The watermark is a value of the old type. As a value of the new type it could skip rows.",
                data="Nothing was read or written; the watermark stays.",
                next=f"Change the type back, or {COPY_ANEW}: it starts with a snapshot.",
            )


def _check_lead(source_table: SourceTable, head: LakeHead | None) -> None:
    before = head.record.columns.cursor if head and head.record else None
    if before is None or not source_table.cursor.columns:
        return
    lead, renamed = (
        source_table.cursor.lead.name.lower(),
        {old.lower(): new.lower() for old, new in source_table.config.settings.values.renamed},
    )
    if before and lead in (before[0].lower(), renamed.get(before[0].lower())):
        return
    was = f"it was {before[0]}" if before else "there was none: every run compared the whole table"
    raise SchemaChangedError(
        f"The cursor of {source_table.config.table} is now {source_table.cursor.lead.name}; at the last commit {was}.",
        why="The watermark is a value of the old cursor; rows below it in the order of the new cursor would never be read.",
        data="Nothing was read or written; the watermark stays.",
        next=f"Restore the old 'cursor', or {COPY_ANEW}: it starts with a snapshot.",
    )


def _changed(operation: Operation, why: str) -> SchemaChangedError:
    return SchemaChangedError(
        f"Table {operation.table} was altered at the source after operation {operation.op_seq} ({operation.kind}) was planned.",
        why=why,
        data="Nothing was landed or written; the operation stays frozen with its window, and the watermark stays.",
        next=f"cdc-ops run --pipeline {operation.pipeline} --table {operation.table}   # reads the same window with the current"
        " columns; so does the"
        " next scheduled run",
    )


def _unreadable(operation: Operation, missing: list[str] | tuple[str, ...]) -> SchemaChangedError:
    return SchemaChangedError(
        f"Operation {operation.op_seq} ({operation.kind}) of {operation.table} is frozen and can no longer be read:"
        f" {', '.join(missing)} is gone,"
        " or is another column at the source.",
        why="Its window and its slices are conditions on the columns that the table had at the plan.",
        data="Nothing was read or written; the watermark stays.",
        next="Restore the old column names until the operation is committed, and then change them again.",
    )
