"""Delta tables: created from an operation's schema, checked before each statement, measured after it."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

import delta.exceptions  # noqa: F401 - installs the conversion of Delta's conflict exceptions, all of which live in it
from pyspark.errors import AnalysisException, IllegalArgumentException, PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from cdc_ops.core.maintenance import TableStats
from cdc_ops.core.operation.operation import Operation, app_id
from cdc_ops.core.operation.protocol.commit_record import LakeHead
from cdc_ops.core.operation.protocol.ledger_and_lake import if_renamed
from cdc_ops.core.schema.server_types.unsigned_bigints import NARROW, WIDE
from cdc_ops.core.schema.type_widening import canonical_type
from cdc_ops.core.text import quoted
from cdc_ops.errors import ConfigError, LakeConflictError, TargetForeignError, TargetSchemaError
from cdc_ops.lake.log.bounds import EXACT_BOUNDS, has_exact_bounds
from cdc_ops.lake.log.data_files import read_rows, read_sizes
from cdc_ops.lake.log.delta_log import DeltaLog, LogState
from cdc_ops.lake.log.head import OWNER_PIPELINE, OWNER_TABLE, check_empty, read_head
from cdc_ops.lake.spark.session import idempotent_write, private_session
from cdc_ops.lake.sql_text import path_name, text_literal
from cdc_ops.lake.table.alter import (
    INDEXED,
    SPECIAL,
    alter_table,
    enable,
    follow_clustering,
    prepare_replacement,
    record_changes,
    retention_properties,
)
from cdc_ops.lake.table.bounds import correct_bounds
from cdc_ops.lake.table.columns import check_columns, column_list, has_statistics

_RESERVED: Final = {
    "delta.setTransactionRetentionDuration": "Delta would forget the operations that the table has, and a retry would apply them twice",
    "delta.appendOnly": "Delta could not write changed and deleted rows",
}
_CONFLICTS: Final = ("DELTA_CONCURRENT", "DELTA_METADATA_CHANGED", "DELTA_PROTOCOL_CHANGED")


@dataclass(frozen=True, slots=True, kw_only=True)
class EnsuredTable:
    """A table that stands ready for a statement.

    Args:
        partition_by: The columns that it is partitioned by, or will be if the operation replaces it.
        corrected: Of how many files the log's bounds were corrected (`lake.table.bounds`): a statement would leave files out by wrong
            ones, and insert a key a second time.
    """

    partition_by: tuple[str, ...]
    corrected: int = 0


def ensure_table(spark: SparkSession, operation: Operation) -> EnsuredTable:
    """Creates the table of an operation if it does not exist, and checks its owner and its columns, and that its bounds hide no row.

    Creation is a commit of its own, without rows and without transaction id. It names the owner in the table's properties, so that a first
    load that died right after it finds an empty table of its own and goes on (`LakeHead.created_by_us`).

    Raises:
        TargetNotDeltaError: the folder holds other files.
        TargetForeignError: the table is another pipeline's, or nobody's that we know.
        TargetSchemaError: its columns do not fit.
        ConfigError: a table property is set that would break the commit protocol.
    """
    log = DeltaLog(operation.target.path)
    version = log.newest()
    if version is None:
        check_empty(log)
        _create(spark, operation)
        log = DeltaLog(operation.target.path)
        version = log.newest() or 0
    state = log.state(version)
    owner = (state.property(OWNER_PIPELINE), state.property(OWNER_TABLE))
    if owner != (operation.pipeline, str(operation.table)):
        raise _foreign_error(operation, owner)
    _check_stored(operation, state)
    _follow(spark, operation, state)
    with translated_conflicts(f"the correction of bounds before operation {operation.op_seq} of {operation.table}"):
        corrected = 0 if has_exact_bounds(state) else correct_bounds(spark, operation.target.path)
    stored = tuple((state.metadata or {}).get("partitionColumns") or ())
    return EnsuredTable(partition_by=operation.target.partition_by if operation.apply.replaces_schema else stored, corrected=corrected)


def _check_stored(operation: Operation, state: LogState) -> None:
    """Refuses properties that somebody has set to the table itself, and that the pipeline file would not be allowed."""
    for name, why in _RESERVED.items():
        if state.property(name).lower() not in ("", "false"):
            unset = f"ALTER TABLE {path_name(operation.target.path)} UNSET TBLPROPERTIES ('{name}')"
            raise _reserved_property(operation, f"is set on {operation.target.path}", name, why, unset)


def _reserved_property(operation: Operation, where: str, name: str, why: str, remedy: str) -> ConfigError:
    return ConfigError(
        f"Table {operation.table}: cdc-ops does not allow the property {name}, which {where}.",
        why=f"{why}.",
        data="Nothing was read or written; the watermark stays.",
        next=remedy,
    )


def make_first_table(spark: SparkSession, operation: Operation) -> None:
    """Makes the table of a first batch. One that an earlier try left without a row becomes what this operation needs.

    What stopped that try is often settled by other columns, types, keys or partitions. The table takes the number before the operation's
    with it: a try of an operation that was given up can commit no more (`steps.plan` gives such a first load a new number).

    Raises:
        LakeConflictError: another writer committed meanwhile; nothing was written.
        CdcError: as for `ensure_table`.
    """
    path, log = operation.target.path, DeltaLog(operation.target.path)
    if log.newest() is None:
        ensure_table(spark, operation)
        return
    if (operation.before.watermark, operation.before.snapshot) != (None, None):
        return
    head = read_head(path, operation.pipeline, operation.table)
    if head is None or not head.created_by_us or _has_layout(operation, head):
        return
    prepare_replacement(spark, operation, log.state(head.version))
    conf = idempotent_write(app_id(operation.pipeline, operation.table), operation.op_seq - 1)
    with private_session(spark, conf) as session, translated_conflicts(f"the replacement of the empty table of {operation.table}"):
        columns = (F.lit(None).cast(kind).alias(name) for name, kind in _columns(operation))
        writer = session.range(0).select(*columns).write.format("delta").mode("overwrite").option("overwriteSchema", "true")
        writer.partitionBy(*operation.target.partition_by).save(path)
        enable(session, path, creation_properties(operation), log.state(log.newest() or 0))


def _has_layout(operation: Operation, head: LakeHead) -> bool:
    """True if an empty table has the columns and partitions of an operation; one that is too narrow is widened as any other is."""
    pairs = [
        (stored.lower() == wanted.lower(), canonical_type(kind), canonical_type(needed))
        for (stored, kind), (wanted, needed) in zip(head.columns, _columns(operation), strict=False)
    ]
    alike = all(named and (kind == needed or (kind, needed) == (NARROW, WIDE)) for named, kind, needed in pairs)
    return alike and len(head.columns) == len(_columns(operation)) and head.partition_by == operation.target.partition_by


def _follow(spark: SparkSession, operation: Operation, state: LogState) -> None:
    """Alters the table as the operation says, and checks that it takes its columns."""
    try:
        with translated_conflicts(f"the change of columns for operation {operation.op_seq} of {operation.table}"):
            record_changes(spark, operation, state)
            stored = alter_table(spark, operation, state)
            follow_clustering(spark, operation, stored)
    except (AnalysisException, IllegalArgumentException) as error:
        raise TargetSchemaError(
            f"The Delta table {operation.target.path} cannot follow the schema changes of {operation.table}:"
            f" {'; '.join(map(str, operation.apply.schema_changes))}.",
            why=str(error).splitlines()[0],
            data="Nothing was written; the watermark stays.",
            next="ALTER TABLE the Delta table by hand and run again, or set 'schema_changes: freeze', or exclude the columns.",
        ) from error
    if not operation.apply.replaces_schema:
        check_columns(operation.target.path, stored, operation.source.schema)


def creation_properties(operation: Operation) -> dict[str, str]:
    """Returns the properties of a new table: the package's defaults, the policy's over them, the owner's mark.

    Neither auto compaction nor optimized writes: the first adds a commit that carries our user metadata a second time, and the shuffle
    settings of the session already give small batches few files. OPTIMIZE has its own step.

    Raises:
        ConfigError: the policy sets a property that would break the commit protocol.
    """
    for name, why in _RESERVED.items():
        if any(name.lower() == key.lower() for key, _ in operation.target.properties):
            remedy = f"Remove {name} from 'properties' in the pipeline file."
            raise _reserved_property(operation, "'properties' sets", name, why, remedy)
    defaults = {"delta.enableDeletionVectors": "true", "delta.enableTypeWidening": "true"}
    if indexed := indexed_columns(operation):
        defaults[INDEXED] = column_list(indexed)
    if any(SPECIAL & set(column.name) for column in operation.source.schema.columns):
        defaults["delta.columnMapping.mode"] = "name"
    defaults |= dict(operation.target.properties)
    defaults |= retention_properties(defaults)
    return {**defaults, OWNER_PIPELINE: operation.pipeline, OWNER_TABLE: str(operation.table), **dict([EXACT_BOUNDS])}


def table_stats(path: str, version: int) -> TableStats:
    """Returns number and sizes of a table's files; the history of maintenance is not known here (`core.maintenance.carry_over`).

    The checksum of the version tells, or else the list of all files, as after a commit by a writer that leaves the checksum out.

    Args:
        path: The table.
        version: Its newest version.
    """
    log = DeltaLog(path)
    sizes, deleted = read_sizes(log, version)
    return TableStats(
        delta_version=version,
        files=sum(one.files for one in sizes),
        size_bytes=sum(one.bytes for one in sizes),
        sizes=sizes,
        rows=read_rows(log, version),
        deleted_rows=deleted,
    )


@contextmanager
def translated_conflicts(doing: str) -> Iterator[None]:
    """Turns Delta's conflict exceptions into ours.

    Raises:
        LakeConflictError: another writer committed to the table during a statement.
    """
    try:
        yield
    except PySparkException as error:
        if not type(error).__module__.startswith("delta.exceptions") and not any(code in str(error) for code in _CONFLICTS):
            raise
        raise LakeConflictError(
            f"Another writer committed to the Delta table during {doing}.",
            why=str(error).splitlines()[0],
            data="Nothing was written; the watermark stays.",
            next="Nothing to do: the next try reads the table's new state. If it happens again, DESCRIBE HISTORY shows the other writer.",
        ) from error


def _create(spark: SparkSession, operation: Operation) -> None:
    try:
        spark.sql(_create_statement(operation))
    except (AnalysisException, IllegalArgumentException) as error:
        raise _creation_error(operation, error) from error


def _columns(operation: Operation) -> list[tuple[str, str]]:
    marker = [(operation.apply.deleted_column, "boolean")] if operation.apply.deleted_column else []
    return [
        *((column.name, column.delta_type) for column in operation.source.schema.columns),
        *marker,
        *operation.apply.stored_as.columns(operation.apply.deleted_column),
    ]


def _create_statement(operation: Operation) -> str:
    columns = ", ".join(f"{quoted(name)} {kind}" for name, kind in _columns(operation))
    properties = ", ".join(
        f"{text_literal(name)} = {text_literal(value)}" for name, value in sorted(creation_properties(operation).items())
    )
    layout = "".join(
        f" {clause} ({', '.join(map(quoted, names))})"
        for clause, names in (("PARTITIONED BY", operation.target.partition_by), ("CLUSTER BY", operation.target.cluster_by))
        if names
    )
    return f"CREATE TABLE IF NOT EXISTS {path_name(operation.target.path)} ({columns}) USING delta{layout} TBLPROPERTIES ({properties})"


def indexed_columns(operation: Operation) -> list[str]:
    """Returns the columns of whose values a table keeps the bounds, by which readers leave files out, unless its properties say more."""
    keys, target = (*operation.apply.keys, *operation.source_keys), operation.target
    found = (operation.source.schema.column(name) for name in (*keys, *operation.source.cursor.column_names, *target.cluster_by))
    # Files of a partition have one value of its columns: Delta keeps no statistics of them.
    names = (one.name for one in found if one is not None and has_statistics(one.delta_type) and one.name not in target.partition_by)
    indexed = list(dict.fromkeys(names))
    # Who looks for what has come since a time reads few files by it.
    return indexed + [name for name in (operation.apply.stored_as.own.synced_at,) if indexed and name]


def _creation_error(operation: Operation, error: PySparkException) -> ConfigError:
    return ConfigError(
        f"The Delta table of {operation.table} cannot be created at {operation.target.path}.",
        why=str(error).splitlines()[0],
        data="Nothing was written; the watermark stays.",
        next="Correct 'properties' or the column selection of the table in the pipeline file.",
    )


def _foreign_error(operation: Operation, owner: tuple[str, str]) -> TargetForeignError:
    renamed = f"{if_renamed(owner[0], operation.pipeline)} Otherwise: " if owner[1] == str(operation.table) else ""
    whose = f"table {owner[1]} of pipeline {owner[0]!r}" if owner[0] else "another writer: it has no properties of cdc-ops"
    return TargetForeignError(
        f"The Delta table at {operation.target.path} belongs to {whose}.",
        why=f"It is the target of {operation.table} of pipeline {operation.pipeline!r}, and a table has only one writer.",
        data="Nothing was written; the table is unchanged.",
        next=f"{renamed}Set another 'path' for the table in the pipeline file, or move the existing Delta table away.",
    )
