"""Merge plans: how a landed batch enters its table in exactly one statement, decided before Spark runs it."""

import re
from dataclasses import dataclass
from typing import Final

from cdc_ops.core.apply.apply_spec import ApplyMode
from cdc_ops.core.apply.deletes import DELETE_MARK
from cdc_ops.core.apply.metadata_columns import END, START, TOUCHED
from cdc_ops.core.apply.scd import SequenceKind
from cdc_ops.core.operation.log_batch import PRESENT, LogBatchResult
from cdc_ops.core.operation.merging.metadata_values import NO_METADATA_VALUES, MetadataValues, metadata_values_of
from cdc_ops.core.operation.operation import Operation, OperationKind
from cdc_ops.core.operation.reads import CompareRead, WindowRead
from cdc_ops.core.operation.results import KeyRange, Manifest
from cdc_ops.core.schema.server_types.unsigned_bigints import LARGEST, WIDE
from cdc_ops.core.text import quoted
from cdc_ops.errors import NullKeyError

_DIGITS: Final = re.compile(r"\d{19,20}", re.ASCII)
_HEX: Final = re.compile(r"(?:0x|\\x)?((?:[0-9a-f]{2})*)", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class MergePlan:
    """One statement on one table.

    Args:
        mode: append, merge or overwrite.
        keys: Columns of the join; compared null-safe is not needed because NULL keys are refused.
        columns: Columns to write, in order, `deleted_column` included.
        prune: Ranges of the batch's own keys as literals: Delta skips files by literals in the condition only, never by the join itself.
        delete_missing_where: Condition on the target for rows that have vanished from the batch.
        update_only: Columns to set in rows that are there; nothing is inserted then.
        deleted_flag: Column of the batch that is true for rows to be deleted ("" = none has to be); it is not stored.
        deleted_column: Column of the table that marks deleted rows; "" = they are deleted.
        present: Column of the batch that names the columns which a row has values of, NULL if of all; "" = every row has all. It is not
            stored.
        sequence: Column of batch and table by which a row of the batch that is older than the table's is left out; "" = none is.
        deletes: The batch may have rows that are deleted, told by change events or by `apply_as_deletes`.
        truncates: Places in the order of changes at which the table was emptied, ascending, as Spark SQL literals.
        versions: The batch is what becomes of the table's versions (`lake.merge.scd2`), not one row a key.
        metadata: What is written into the columns that say which commit last wrote a row.
    """

    mode: ApplyMode
    keys: tuple[str, ...]
    columns: tuple[str, ...]
    prune: tuple[KeyRange, ...] = ()
    delete_missing_where: str = ""
    update_only: tuple[str, ...] = ()
    deleted_flag: str = ""
    deleted_column: str = ""
    present: str = ""
    sequence: str = ""
    deletes: bool = False
    truncates: tuple[str, ...] = ()
    versions: bool = False
    metadata: MetadataValues = NO_METADATA_VALUES

    @property
    def batch_columns(self) -> tuple[str, ...]:
        """What the statement needs of the batch."""
        # A MERGE says by itself which commit it is.
        metadata = self.metadata.names if self.mode is not ApplyMode.MERGE else ()
        if self.versions:
            return (*self.columns, *VERSION_MARKS, *metadata)
        return (*self.columns, *(name for name in (self.deleted_flag, self.present) if name), *metadata)

    @property
    def condition(self) -> str:
        """The ON condition of the MERGE: key equality plus the pruning literals, target `t`, source `s`."""
        equal = [f"t.{quoted(key)} = s.{quoted(key)}" for key in self.keys]
        ranges = [f"t.{quoted(r.column)} BETWEEN {r.low} AND {r.high}" for r in self.prune]
        return " AND ".join(equal + ranges)


REUSED: Final = "__cdc_reused"
"""Column of a batch of versions: it changes a version that the table has."""
FROM: Final = "__cdc_from"
"""Column of a batch of versions: the start of that version as it is."""
GONE: Final = "__cdc_gone"
"""Column of a batch of versions: that version has become part of another."""
VERSION_MARKS: Final = (REUSED, FROM, GONE)


def plan_merge(operation: Operation, manifest: Manifest | None) -> MergePlan:
    """Decides the statement for an operation.

    Args:
        operation: The frozen operation.
        manifest: What was landed; None for operations that land nowhere.

    Raises:
        NullKeyError: the batch has rows without a key; a MERGE would insert them again each time.
    """
    if manifest and manifest.null_keys and not manifest.quarantined:
        raise null_keys_error(operation, manifest.null_keys)
    reading = manifest.log if manifest else None
    missing = _emptied(operation, reading) if reading and reading.truncates else operation.apply.delete_missing_where
    if operation.apply.stored_as.ignores_deletes:
        missing = ""
    conditional = (
        bool(operation.apply.delete_where) and not operation.apply.deleted_column and not operation.apply.stored_as.ignores_deletes
    )
    marker = (operation.apply.deleted_column,) if operation.apply.deleted_column else ()
    return MergePlan(
        mode=operation.apply.mode,
        keys=operation.apply.keys,
        columns=(
            *(column.name for column in operation.source.schema.columns),
            *marker,
            *_own_columns(operation, events=reading is not None),
        ),
        prune=manifest.key_ranges if manifest and not missing else (),
        delete_missing_where=missing,
        update_only=operation.apply.update_only,
        # With soft deletes such rows are written like all others, with their mark.
        deleted_flag=DELETE_MARK if operation.apply.mode is ApplyMode.MERGE and (reading or conditional) else "",
        deleted_column=operation.apply.deleted_column,
        present=PRESENT
        if (reading and reading.counts.partial) or (folds_nulls(operation) and operation.apply.mode is ApplyMode.MERGE)
        else "",
        sequence=operation.apply.stored_as.own.sequence
        if _is_guarded(operation, events=reading is not None) and (reading is None or reading.ordered)
        else "",
        deletes=reading.counts.deletes > 0 or bool(operation.apply.delete_where) if reading else bool(operation.apply.delete_where),
        truncates=tuple(position_literal(place) for place in reading.truncates) if reading else (),
        metadata=metadata_values_of(operation),
    )


def null_keys_error(operation: Operation, rows: int) -> NullKeyError:
    """Says that so many rows have no key."""
    aside = (
        " Or set 'bad_records: quarantine'." if operation.apply.stored_as.sequence and operation.apply.stored_as.sequence.columns else ""
    )
    return NullKeyError(
        f"{rows} rows of {operation.table} have NULL in key columns {', '.join(operation.source_keys)}.",
        why="A NULL never equals a NULL, so every run would insert these rows again.",
        data="Nothing of this batch was written; the watermark stays.",
        next=f"Choose 'keys' that are NOT NULL at the source, or repair the rows there; they are read again.{aside}",
    )


def folds_nulls(operation: Operation) -> bool:
    """True if the rows that are read are changes, in which a NULL may leave what is there (`PRESENT`)."""
    sequence = operation.apply.stored_as.sequence
    asked = not isinstance(operation.read, CompareRead) and not operation.apply.update_only
    changes = sequence is not None and sequence.kind is SequenceKind.COLUMNS and asked
    return changes and bool(operation.apply.stored_as.nulls_ignored)


def _own_columns(operation: Operation, *, events: bool) -> tuple[str, ...]:
    """Returns the columns besides the source's that a statement writes; a row that was read without a sequence keeps the one it has."""
    stored = operation.apply.stored_as
    if stored.sequence is None or operation.apply.update_only:
        return ()
    if stored.keeps_versions:
        return (START, END, TOUCHED)
    known = events or stored.sequence.kind is SequenceKind.COLUMNS or operation.apply.mode is ApplyMode.OVERWRITE
    return (stored.own.sequence,) if known else ()


def _is_guarded(operation: Operation, *, events: bool) -> bool:
    """True if what is older than the table's row is left out: of changes that were told, not of rows that were read to be compared."""
    stored = operation.apply.stored_as
    if stored.sequence is None or stored.keeps_versions or operation.apply.mode is not ApplyMode.MERGE or operation.apply.update_only:
        return False
    told = operation.kind in _TELLING or (operation.kind is OperationKind.RESYNC and isinstance(operation.read, WindowRead))
    return events or (stored.sequence.kind is SequenceKind.COLUMNS and told and not isinstance(operation.read, CompareRead))


_TELLING: Final = (OperationKind.INCREMENT, OperationKind.BACKFILL, OperationKind.SNAPSHOT_CHUNK)


def _emptied(operation: Operation, reading: LogBatchResult) -> str:
    """Returns the condition of the rows that TRUNCATEs have removed; versions end by `lake.merge.scd2`."""
    if operation.apply.stored_as.keeps_versions:
        return ""
    if operation.apply.stored_as.sequence is None or not reading.ordered:
        return "true"
    return older_than(operation.apply.stored_as.own.sequence, position_literal(reading.truncates[-1]))


def older_than(sequence: str, place: str) -> str:
    """Returns the condition of the rows of a table whose column `sequence` is older than a place, a Spark SQL literal."""
    return f"t.{quoted(sequence)} IS NULL OR t.{quoted(sequence)} < {place}"


def position_literal(position: tuple[int, ...]) -> str:
    """Returns the Spark SQL literal of an event's place."""
    return "array(" + ", ".join(f"{number}L" for number in position) + ")"


def spark_literal(delta_type: str, text: str) -> str:
    """Returns a Spark SQL literal of the given type; the text is quoted, so it cannot become SQL.

    A whole number that no BIGINT holds is a decimal: a bound may lie above all values of a column.

    >>> spark_literal("bigint", "9223372036854775807"), spark_literal("bigint", "9223372036854775808")
    ("CAST('9223372036854775807' AS bigint)", "CAST('9223372036854775808' AS decimal(20,0))")
    """
    if delta_type == "bigint" and _DIGITS.fullmatch(text) and int(text) > LARGEST:
        delta_type = WIDE
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"CAST('{escaped}' AS {delta_type})"


def keys_condition(keys: tuple[str, ...], types: tuple[str, ...], rows: tuple[tuple[str, ...], ...]) -> str:
    """Returns a condition on the target `t` that is true for exactly the given keys.

    Args:
        keys: Key columns.
        types: Their Delta types.
        rows: Values as text, one tuple per row.
    """
    if len(keys) == 1:
        values = ", ".join(_key_literal(types[0], row[0]) for row in rows)
        return f"t.{quoted(keys[0])} IN ({values})"
    branches = []
    for row in rows:
        parts = zip(keys, types, row, strict=True)
        branches.append(" AND ".join(f"t.{quoted(key)} = {_key_literal(kind, text)}" for key, kind, text in parts))
    return "(" + " OR ".join(f"({branch})" for branch in branches) + ")"


def _key_literal(kind: str, text: str) -> str:
    """Returns a key value that somebody gave; bytes are given as hexadecimal digits, as the sources take them too."""
    digits = _HEX.fullmatch(text) if kind == "binary" else None
    return f"X'{digits[1]}'" if digits else spark_literal(kind, text)
