"""From which columns of what was read each column of a Delta table comes, by the operation that wrote it. Pure.

An operation says it exactly: it has the columns that are read and the expression of each, the keys of its MERGE, what orders changes and
what deletes. Nothing is concluded from SQL, so nothing is missing where Spark's plan of a MERGE hides it.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from cdc_ops.core.apply.apply_spec import ApplyMode
from cdc_ops.core.apply.metadata_columns import END, START, TOUCHED
from cdc_ops.core.apply.scd import Sequence
from cdc_ops.core.lineage.datasets import ColumnName, DatasetName, Dependency, Field, Flow
from cdc_ops.core.operation.operation import Operation
from cdc_ops.core.operation.reads import KeysRead, ReplayRead, WindowRead
from cdc_ops.core.schema.tables import Column

IDENTITY: Final = Flow(type="DIRECT", subtype="IDENTITY")
_QUOTES: Final = ("`", '"')

Named = Callable[[str, Iterable[str]], tuple[str, ...]]
"""Finds the columns that a condition of the pipeline file names, among all columns of the table."""


def read_fields(operation: Operation) -> tuple[Field, ...]:
    """Returns the columns that an operation reads of its source, with the types that the source declares."""
    columns = (column for column in operation.full_schema.columns if not column.normalises)
    return tuple(Field(name=column.name, type=column.source_type) for column in columns)


def planned_fields(operation: Operation) -> tuple[Field, ...]:
    """Returns the columns that a table has by what an operation writes, with the types in which they are stored."""
    own = own_columns(operation)
    mark = ((operation.apply.deleted_column, "boolean"),) if operation.apply.deleted_column else ()
    stored = operation.apply.stored_as.columns(operation.apply.deleted_column)
    return (
        *(Field(name=column.name, type=column.delta_type) for column in operation.source.schema.columns),
        *(Field(name=name, type=kind, description=own.get(name.lower(), "")) for name, kind in (*mark, *stored)),
    )


def stored_fields(operation: Operation, columns: Iterable[tuple[str, str]]) -> tuple[Field, ...]:
    """Returns the columns that a table has by its log, and says which of them nothing is written to any more.

    Args:
        operation: The last one that wrote the table.
        columns: Name and type of each stored column.
    """
    own, written = own_columns(operation), {name.lower() for name in operation.source.schema.names}

    def description(name: str) -> str:
        kept = "" if name.lower() in written else "not among the columns that are read from the source; the lake keeps its values"
        return own.get(name.lower(), kept)

    return tuple(Field(name=name, type=kind, description=description(name)) for name, kind in columns)


def own_columns(operation: Operation) -> dict[str, str]:
    """Returns, by their names in lower case, what the columns say that cdc-ops adds to a table."""
    stored, mark = operation.apply.stored_as, operation.apply.deleted_column
    own, added = stored.own, {name.lower() for name in (mark, *(name for name, _ in stored.columns(mark))) if name}
    said = {
        own.op: "what the last commit that wrote the row did to it: i, u, d or r",
        own.synced_at: "time by the source's clock at which the operation that last wrote the row was planned",
        own.operation: "number of the operation that last wrote the row",
        mark: "true in rows that are deleted at the source",
        own.deleted_at: "time by the source's clock at which the operation that marked the row as deleted was planned",
        own.sequence: "place of the row's last change in the order of changes",
        START: "sequence from which on the version holds",
        END: "sequence up to which the version holds, NULL in the current one",
        TOUCHED: "sequences of later changes that left the tracked columns as they were",
    }
    return {name.lower(): text for name, text in said.items() if name.lower() in added}


def column_lineage(operation: Operation, origin: DatasetName, named: Named) -> dict[str, tuple[Dependency, ...]]:
    """Returns, by the name of each column that an operation writes, the columns that its values come from.

    Columns without an entry come from no column: the time of a commit, the position of an event.

    Args:
        operation: The operation.
        origin: What the columns are read from.
        named: See `Named`.
    """
    only = {name.lower() for name in operation.apply.update_only}
    written = (column for column in operation.source.schema.columns if not only or column.name.lower() in only)
    found: dict[str, tuple[Dependency, ...]] = {
        column.name: (_dependency(operation, origin, column.normalises or column.name, _flow(column)),) for column in written
    }
    if not only:
        found |= dict(_order_lineage(operation, origin))
        found |= dict(_delete_lineage(operation, origin, named))
    return found


def row_lineage(operation: Operation, origin: DatasetName, named: Named, previous_key: Iterable[str] = ()) -> tuple[Dependency, ...]:
    """Returns the columns that decide which rows an operation writes, deletes or leaves.

    Args:
        operation, origin, named: As for `column_lineage`.
        previous_key: Columns that hold a row's key from before its last change.
    """
    return tuple(_dependency(operation, origin, name, flow) for name, flow in _deciding(operation, named, tuple(previous_key)))


def _deciding(operation: Operation, named: Named, previous_key: tuple[str, ...]) -> Iterator[tuple[str, Flow]]:
    apply = operation.apply
    if apply.mode is ApplyMode.MERGE:
        yield from ((name, Flow(type="INDIRECT", subtype="JOIN", description="key of the MERGE")) for name in operation.source_keys)
        if operation.reads_before:
            yield from ((name, Flow(type="INDIRECT", subtype="JOIN", description="the row's old key")) for name in previous_key)
    if isinstance(operation.read, WindowRead):
        cursor = Flow(type="INDIRECT", subtype="FILTER", description="cursor of the window")
        yield from ((name, cursor) for name in operation.source.cursor.column_names)
    if isinstance(operation.read, KeysRead):
        yield from ((name, Flow(type="INDIRECT", subtype="FILTER", description="keys that are read")) for name in operation.source_keys)
    if sequence := _sequence_of_columns(operation):
        order = Flow(type="INDIRECT", subtype="WINDOW", description="order of the changes of a row")
        yield from ((name, order) for name in sequence.read_columns)
    conditions = ("" if apply.deleted_column else apply.delete_where, apply.truncate_where)
    for text in filter(None, conditions):
        names = named(text, operation.full_schema.names)
        yield from ((name, Flow(type="INDIRECT", subtype="FILTER", description=text)) for name in names)


def _order_lineage(operation: Operation, origin: DatasetName) -> Iterator[tuple[str, tuple[Dependency, ...]]]:
    """Yields what the columns are made from that keep the order of changes, where that is columns of the row."""
    sequence = _sequence_of_columns(operation)
    if sequence is None:
        return
    alone = len(sequence.columns) == 1 and not sequence.sql and not operation.apply.stored_as.keeps_versions
    flow = IDENTITY if alone else Flow(type="DIRECT", subtype="TRANSFORMATION", description=", ".join(sequence.parts))
    made = tuple(_dependency(operation, origin, name, flow) for name in sequence.read_columns)
    yield from ((name, made) for name, _ in operation.apply.stored_as.order_columns)


def _delete_lineage(operation: Operation, origin: DatasetName, named: Named) -> Iterator[tuple[str, tuple[Dependency, ...]]]:
    """Yields what the mark of deleted rows is made from, where a condition on the row says it."""
    apply = operation.apply
    if apply.deleted_column and apply.delete_where:
        flow = Flow(type="INDIRECT", subtype="CONDITIONAL", description=apply.delete_where)
        names = named(apply.delete_where, operation.full_schema.names)
        yield apply.deleted_column, tuple(_dependency(operation, origin, name, flow) for name in names)


def _sequence_of_columns(operation: Operation) -> Sequence | None:
    sequence = operation.apply.stored_as.sequence
    return sequence if sequence is not None and sequence.columns else None


def _flow(column: Column) -> Flow:
    """How a column's values come about: as they are, or in another type; the same for events as for rows that are queried."""
    if column.normalises:
        return Flow(type="DIRECT", subtype="TRANSFORMATION", description=column.expression)
    kept = f"{column.source_type} as {column.delta_type}".strip()
    if column.lossy:
        return Flow(type="DIRECT", subtype="TRANSFORMATION", description=f"{kept}; what that cannot hold becomes NULL")
    if column.expression in ("", column.name, *_quoted(column.name)):
        return IDENTITY
    return Flow(type="DIRECT", subtype="TRANSFORMATION", description=kept)


def _quoted(name: str) -> Iterator[str]:
    """A column's name alone, as the sources quote it."""
    yield from (f"{sign}{name.replace(sign, sign * 2)}{sign}" for sign in _QUOTES)


def _dependency(operation: Operation, origin: DatasetName, name: str, flow: Flow) -> Dependency:
    """In a history of events the columns of a row are fields of a struct."""
    inside = f"after.{name}" if isinstance(operation.read, ReplayRead) else name
    return Dependency(column=ColumnName(dataset=origin, column=inside), flow=flow)
