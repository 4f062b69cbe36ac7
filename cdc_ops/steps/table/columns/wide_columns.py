"""Columns too large for BIGINT (`core.schema.server_types.unsigned_bigints`): an operation meets a larger value, gets the wide type.

    read into BIGINT --fails at a value above 2^63 - 1, and names its column--> the same operation with DECIMAL(20,0) --> read again

The frozen operation in the ledger stays as it is. How wide its columns are follows from what every try finds: the table's own columns, the
manifest of landed rows, and the values. So a try that dies anywhere is repeated with the same result. No Spark here.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TypeVar

from cdc_ops.config.expressions.sequence_by import order_names
from cdc_ops.core.operation.operation import Operation
from cdc_ops.core.pipeline.pipeline import TableConfig
from cdc_ops.core.schema.schema_evolution import ChangeKind, SchemaChange
from cdc_ops.core.schema.server_types.mysql_types import is_unsigned_bigint
from cdc_ops.core.schema.server_types.unsigned_bigints import (
    LARGEST,
    NARROW,
    WIDE,
    is_narrow,
    is_wide,
    schema_as_stored,
    too_large_column,
    widened,
    widened_schema,
)
from cdc_ops.core.schema.tables import Column, TableName, TableSchema
from cdc_ops.core.schema.type_widening import canonical_type, holds
from cdc_ops.errors import TooLargeValueError
from cdc_ops.lake.log.delta_log import DeltaLog

_WIDENING = "delta.enabletypewidening"

T = TypeVar("T")


def wide_from_the_start(config: TableConfig, schema: TableSchema) -> TableSchema:
    """Returns a schema in which columns are wide that cannot become so later.

    Such are columns of `sequence_by`, whose type is that of the table's own column of order too, and all of a table whose properties
    switch Delta's type widening off.
    """
    if any(name.lower() == _WIDENING and value.lower() == "false" for name, value in config.settings.storage.properties):
        return widened_schema(schema)
    return widened_schema(schema, order_names(config.settings.order.sequence_by, schema.names))


def retry_widened(operation: Operation, attempt: Callable[[Operation], T]) -> T:
    """Returns what an attempt returns; it is repeated with a wider column as long as it meets a value that is too large for one.

    Args:
        operation: The operation.
        attempt: Has no effect that counts if it fails.
    """
    while True:
        try:
            return attempt(operation)
        except TooLargeValueError as error:
            wider = with_wide_columns(operation, (error.column,))
            if wider == operation:
                raise
            operation = wider


def with_wide_columns(operation: Operation, names: Iterable[str]) -> Operation:
    """Returns an operation that reads the named columns of BIGINT UNSIGNED as wide ones; old keys are as wide as their keys."""
    wanted = {name.lower() for name in names}
    for key, old in zip(operation.apply.keys, operation.apply.previous_keys, strict=False):
        if wanted & {key.lower(), old.name.lower()}:
            wanted |= {key.lower(), old.name.lower()}
    source = replace(
        operation.source, schema=widened_schema(operation.source.schema, wanted), hidden=widened(operation.source.hidden, wanted)
    )
    return replace(operation, source=source, apply=replace(operation.apply, previous_keys=widened(operation.apply.previous_keys, wanted)))


def with_stored_width(operation: Operation, stored: Iterable[tuple[str, str]]) -> Operation:
    """Returns an operation whose columns are as wide as the table has them; `stored` has their names and types.

    A new generation is as wide as its values need.
    """
    if operation.apply.replaces_schema:
        return operation
    schema = schema_as_stored(operation.source.schema, stored)
    wide = (column.name for column in schema.columns if is_wide(column))
    return with_wide_columns(replace(operation, source=replace(operation.source, schema=schema)), wide)


def with_width_of_table(operation: Operation) -> Operation:
    """Returns an operation whose columns are as wide as its table has them now."""
    if not any(is_narrow(column) for column in operation.source.schema.columns):
        return operation
    log = DeltaLog(operation.target.path)
    version = log.newest()
    return operation if version is None else with_stored_width(operation, log.state(version).columns())


def with_widening(operation: Operation, stored: Iterable[tuple[str, str]]) -> Operation:
    """Returns an operation that alters its table first, where the table's columns are narrower than its own.

    Args:
        operation: The operation, with all of the columns that are to be wide.
        stored: Name and type of the table's columns.
    """
    if operation.apply.replaces_schema:
        return operation
    lake = _altered(stored, operation.apply.schema_changes)
    wide = (column for column in operation.source.schema.columns if is_wide(column))
    changes = tuple(_widening(column) for column in wide if lake.get(column.name.lower()) == NARROW)
    return replace(operation, apply=replace(operation.apply, schema_changes=(*operation.apply.schema_changes, *changes)))


def newly_wide(operation: Operation) -> tuple[str, ...]:
    """Returns the columns that an operation widens because of its values."""
    changes = (one for one in operation.apply.schema_changes if one.kind is ChangeKind.WIDENED and is_unsigned_bigint(one.declared))
    return tuple(change.column for change in changes if (change.before, change.after) == (NARROW, WIDE))


def too_large_value(table: TableName, failure: str) -> TooLargeValueError | None:
    """Returns the error that names the column, if the text of a failure is that of a value which a narrow column does not hold."""
    name = too_large_column(failure)
    if name is None:
        return None
    return TooLargeValueError(
        f"Column {name!r} of {table} has a value above {LARGEST:,}, which its BIGINT does not hold.",
        column=name,
        why="The column is BIGINT UNSIGNED at the source, and was stored as BIGINT until now.",
        data="Nothing of this batch was written; the watermark stays.",
        next="Run again: the column is widened to DECIMAL(20,0) and the same rows are read again.",
    )


def _widening(column: Column) -> SchemaChange:
    return SchemaChange(kind=ChangeKind.WIDENED, column=column.name, before=NARROW, after=column.delta_type, declared=column.source_type)


def _altered(stored: Iterable[tuple[str, str]], changes: Iterable[SchemaChange]) -> dict[str, str]:
    """Returns name, in lower case, and type of the columns that a table has after some changes."""
    lake = {name.lower(): canonical_type(kind) for name, kind in stored}
    for change in changes:
        if change.kind is ChangeKind.RENAMED and change.before.lower() in lake:
            lake[change.column.lower()] = lake.pop(change.before.lower())
        elif change.kind is ChangeKind.ADDED:
            lake.setdefault(change.column.lower(), canonical_type(change.after))
        elif change.kind is ChangeKind.WIDENED and not holds(lake.get(change.column.lower(), ""), change.after):
            lake[change.column.lower()] = canonical_type(change.after)
    return lake
