"""Deleted rows that stay, at the plan: may a table keep them, what is altered for it, and what a full resync has to keep. No Spark here.

The way back from soft to hard is a full resync: rows that only the lake has would else stay for ever, and count as living.
"""

from dataclasses import replace

from cdc_ops.core.apply.deletes import Deletes, source_columns
from cdc_ops.core.operation.operation import Operation
from cdc_ops.core.operation.protocol.commit_record import LakeHead
from cdc_ops.core.operation.run_request import RunRequest
from cdc_ops.core.pipeline.pipeline import TableConfig
from cdc_ops.core.schema.collated_keys import compare_rules
from cdc_ops.core.schema.schema_evolution import COPY_ANEW, ChangeKind, SchemaChange, compare_columns, compare_keys
from cdc_ops.core.schema.tables import TableSchema
from cdc_ops.core.text import without_columns
from cdc_ops.errors import SchemaChangedError, SourceTableError
from cdc_ops.steps.table.source_table import SourceTable

_NOTHING = "Nothing was read or written; the watermark stays."


def check_deletes(source_table: SourceTable, head: LakeHead | None, request: RunRequest) -> None:
    """Checks that a table can treat deletes as its settings say.

    Raises:
        SourceTableError: deleted rows are to be kept, and it has no keys, or a column of its own with the name of the mark.
        SchemaChangedError: they are to be kept no longer, and the run does not replace the table.
    """
    _check_can_mark(source_table.config, source_table.schema, source_table.keys)
    _check_stays_soft(source_table, head, request)


def _check_can_mark(config: TableConfig, schema: TableSchema, keys: tuple[str, ...]) -> None:
    marker, deletes = config.settings.deleted_column, config.settings.apply.deletes
    if deletes is not Deletes.HARD and not keys:
        raise SourceTableError(
            f"Table {config.table} has no keys, so the lake cannot keep its deleted rows ('deletes: {deletes}').",
            why="Without a key, a deleted row looks like a changed row.",
            data=_NOTHING,
            next="Name the columns that identify a row: 'keys: [id]' in the pipeline file; or set 'deletes: hard'.",
        )
    if marker and schema.column(marker) is not None:
        raise SourceTableError(
            f"Table {config.table} has a column {marker!r} of its own, so cdc-ops cannot mark its deleted rows ('deletes: soft').",
            why=f"The column that marks deleted rows in the Delta table has the name {marker!r} too.",
            data=_NOTHING,
            next=f"Exclude the column: '{without_columns([marker])}' in the pipeline file; or set 'deletes: hard'.",
        )


def _check_stays_soft(source_table: SourceTable, head: LakeHead | None, request: RunRequest) -> None:
    marker = stored_deleted_column(head, source_table.schema, source_table.config.settings.storage.metadata_columns.deleted)
    if not marker or source_table.config.settings.apply.deletes is Deletes.SOFT or request.replaces_table:
        return
    where = f"--pipeline {source_table.config.pipeline} --table {source_table.config.table}"
    raise SchemaChangedError(
        f"Table {source_table.config.table} keeps deleted rows in the lake, marked in its column {marker}, and its settings say"
        f" 'deletes: {source_table.config.settings.apply.deletes}'.",
        why="Deleted rows would count as existing rows, and would stay for ever.",
        data=_NOTHING,
        next=f"cdc-ops resync {where} --mode full   # reads all rows again, and removes the marked rows and the column\n"
        "        or restore 'deletes: soft' in the pipeline file",
    )


def stored_deleted_column(head: LakeHead | None, schema: TableSchema, marker: str) -> str:
    """Returns the column by which a Delta table marks deleted rows, "" if it does not; `marker` is what the settings call it."""
    if head is None:
        return ""
    stored = {name.lower() for name, _ in head.columns}
    if head.record is not None:
        recorded = head.record.columns.deleted_column
        return recorded if recorded.lower() in stored else ""
    # Its records are pruned: a column of that name that the source has not is the mark.
    return marker if marker.lower() in stored and schema.column(marker) is None else ""


def deleted_column_changes(deleted_column: str, head: LakeHead | None) -> tuple[SchemaChange, ...]:
    """Returns what is altered in a table that has no mark yet."""
    if not deleted_column or head is None or deleted_column.lower() in {name.lower() for name, _ in head.columns}:
        return ()
    return (SchemaChange(kind=ChangeKind.ADDED, column=deleted_column, after="boolean", declared="deletes: soft"),)


def with_stored_deletes(operation: Operation, head: LakeHead | None) -> Operation:
    """Returns an operation that treats deletes as the table does that it finds: one frozen before the setting changed marks too."""
    marker = head.record.columns.deleted_column if head and head.record else ""
    if operation.apply.replaces_schema or operation.apply.deleted_column or not marker:
        return operation
    return replace(operation, apply=replace(operation.apply, deleted_column=marker))


def replacing_schema(source_table: SourceTable, head: LakeHead | None) -> TableSchema:
    """Returns the columns of a new generation: the source's, in types that hold also what is kept of deleted rows.

    Raises:
        SchemaChangedError: other keys, or a column whose kept values do not fit its new type.
    """
    marker, deletes = source_table.config.settings.deleted_column, source_table.config.settings.apply.deletes
    if deletes is Deletes.HARD or head is None:
        return source_table.schema
    changes = compare_columns(
        source_columns(head.columns, marker, (source_table.config.settings.storage.metadata_columns, head.own)), source_table.schema
    )
    keys = (
        compare_keys(head.record.columns.keys, source_table.keys) + compare_rules(head.record.columns.key_rules, source_table.schema)
        if head.record
        else ()
    )
    refused = tuple(c for c in (*changes, *keys) if c.kind in (ChangeKind.RETYPED, ChangeKind.KEYS))
    if refused:
        raise SchemaChangedError(
            f"A new generation of {source_table.config.table} cannot keep its deleted rows: {'; '.join(map(str, refused))}.",
            why="They do not fit the new columns or keys, and cdc-ops casts or drops nothing without a decision.",
            data=_NOTHING,
            next="To drop the deleted rows: set 'deletes: hard' in the pipeline file, the full resync again, then"
            f" 'deletes: {deletes}'."
            f" Or {COPY_ANEW}.",
        )
    types = {c.column: c.after if c.kind is ChangeKind.WIDENED else c.before for c in changes if c.kind in _STORED_OTHERWISE}
    columns = (replace(column, delta_type=types.get(column.name, column.delta_type)) for column in source_table.schema.columns)
    return replace(source_table.schema, columns=tuple(columns))


_STORED_OTHERWISE = (ChangeKind.WIDENED, ChangeKind.NARROWED)
