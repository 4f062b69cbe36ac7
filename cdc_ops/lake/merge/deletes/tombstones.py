"""Tombstones: recorded deletes of a table, so that a late change does not restore a deleted row. Runs in Spark.

They are written before the statement that deletes, once an operation. One whose operation never commits does no harm: that the key was
deleted at that place is true all the same, and the next try reads the same event. A row without a key is a TRUNCATE, of all keys.

A key's type may become wider, as its column's may, and a new generation may have another key or another order. An append changes no type:
the tombstones are rewritten then.
"""

from collections.abc import Iterable
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from cdc_ops.core.apply.scd import POSITION_TYPE
from cdc_ops.core.operation.operation import Operation, app_id
from cdc_ops.core.schema.type_widening import canonical_type, common_type
from cdc_ops.core.text import quoted
from cdc_ops.lake.log.delta_log import DeltaLog
from cdc_ops.lake.spark.session import idempotent_write, private_session, shared_view
from cdc_ops.lake.sql_text import path_name
from cdc_ops.lake.table.alter import MOMENT, NTZ
from cdc_ops.lake.table.create import translated_conflicts

_AT: Final = "__cdc_deleted_at"
COMPACTED: Final = 32
"""After this number of versions the table is rewritten with one row per key, without expired rows."""


def remember(spark: SparkSession, operation: Operation, deleted: DataFrame, sequence: str, truncates: Iterable[str] = ()) -> None:
    """Records deletes of an operation; repeating it changes nothing.

    Args:
        spark: The session of `deleted`.
        operation: The operation.
        deleted: The deletes, with the columns of the keys.
        sequence: Their column with their place.
        truncates: Places where all rows went, as Spark SQL literals.

    Raises:
        LakeConflictError: another process changes that table.
    """
    path = operation.apply.stored_as.tombstones
    log = DeltaLog(path)
    version = log.newest()
    noted, wanted = _noted_types(log, version), _wanted_types(operation)
    kinds = _common_types(noted, wanted)
    rows = _typed(deleted.select(_key(operation).alias("key"), F.col(quoted(sequence)).alias("sequence")), kinds or wanted)
    for place in truncates:
        rows = rows.unionByName(_emptied(spark, rows, place))
    told = {
        "generation": F.lit(operation.generation),
        "op_seq": F.lit(operation.op_seq).cast("bigint"),
        "noted_at": F.lit(operation.plan.planned_at),
    }
    rows = rows.withColumns(told)
    rewritten = version is not None and ((version + 1) % COMPACTED == 0 or kinds != noted)
    if rewritten and MOMENT in "".join(kinds or wanted) and MOMENT not in "".join(noted):
        spark.sql(f"ALTER TABLE {path_name(path)} SET TBLPROPERTIES ('{NTZ}' = 'supported')")
    conf = idempotent_write(f"{app_id(operation.pipeline, operation.table)}/tombstones", operation.op_seq)
    with shared_view(rows) as view, private_session(spark, conf) as session:
        new = session.table(view)
        if rewritten:
            new = _latest(_known(session, operation, kinds).unionByName(new) if kinds else new)
        with translated_conflicts(f"the tombstones of {operation.table}"):
            writer = new.coalesce(1).write.format("delta")
            (writer.mode("overwrite").option("overwriteSchema", "true") if rewritten else writer.mode("append")).save(path)


def are_remembered(operation: Operation) -> bool:
    """True if deletes of the table may be remembered: by earlier operations, or by an earlier try of this one."""
    path = operation.apply.stored_as.tombstones
    return bool(path) and DeltaLog(path).newest() is not None


def recalled(spark: SparkSession, operation: Operation) -> DataFrame | None:
    """Returns the deletes that are remembered: `key`, NULL for all keys, and `sequence`; None if there are none."""
    path = operation.apply.stored_as.tombstones
    log = DeltaLog(path) if path else None
    version = log.newest() if log else None
    if log is None or version is None:
        return None
    kinds = _common_types(_noted_types(log, version), _wanted_types(operation))
    return _known(spark, operation, kinds).select("key", "sequence") if kinds else None


def without_deleted(spark: SparkSession, operation: Operation, batch: DataFrame, sequence: str, deleted: str) -> DataFrame:
    """Drops the rows of a batch that are older than a delete of their key.

    Args:
        spark: The session of `batch`.
        operation: The operation.
        batch: The rows.
        sequence: Its column with their place.
        deleted: Its column that marks deletes, which stay; "" if there is none.
    """
    known = recalled(spark, operation)
    if known is None:
        return batch
    keyed = F.col("key").isNotNull()
    last = known.where(keyed).groupBy(F.col("key").alias("__cdc_buried")).agg(F.max("sequence").alias(_AT))
    emptied = known.where(~keyed).agg(F.max("sequence").alias("__cdc_emptied"))
    key = _key(operation).cast(known.schema["key"].dataType)
    joined = batch.withColumn("__cdc_key", key).join(last, F.col("__cdc_key") == F.col("__cdc_buried"), "left")
    joined = joined.crossJoin(F.broadcast(emptied))
    place = F.col(quoted(sequence))
    older = F.coalesce(F.greatest(_AT, "__cdc_emptied") > place, F.lit(False))
    kept = ~older | F.col(quoted(deleted)) if deleted else ~older
    return joined.where(kept).select(*(F.col(quoted(name)) for name in batch.columns))


def _latest(rows: DataFrame) -> DataFrame:
    return rows.groupBy("key", "sequence").agg(
        F.max("generation").alias("generation"), F.max("op_seq").alias("op_seq"), F.max("noted_at").alias("noted_at")
    )


def _counts(operation: Operation) -> Column:
    """Tombstones of an earlier generation say nothing of the rows of this one."""
    since = operation.plan.planned_at - operation.apply.stored_as.tombstone_retention
    return (F.col("generation") == operation.generation) & (F.col("noted_at") >= F.lit(since))


def _noted_types(log: DeltaLog, version: int | None) -> tuple[str, ...]:
    """Returns the types of the keys in the tombstones, and of their places; () if there are none."""
    if version is None:
        return ()
    state = log.state(version)
    return (*(canonical_type(kind) for _, kind in state.fields("key")), canonical_type(dict(state.columns())["sequence"]))


def _wanted_types(operation: Operation) -> tuple[str, ...]:
    """Returns the types of an operation's keys, and of the places of its events."""
    stored = {column.name.lower(): canonical_type(column.delta_type) for column in operation.full_schema.columns}
    sequence = operation.apply.stored_as.sequence
    return (*(stored[key.lower()] for key in operation.apply.keys), canonical_type(sequence.type if sequence else POSITION_TYPE))


def _common_types(noted: tuple[str, ...], wanted: tuple[str, ...]) -> tuple[str, ...]:
    """Returns the types that hold what is noted and what an operation has, () if these are other keys or places.

    Within a generation keys are only widened, so other ones are those of an earlier generation, which do not count.
    """
    common = [common_type(one, other) for one, other in zip(noted, wanted, strict=False)]
    return tuple(kind for kind in common if kind) if len(noted) == len(wanted) and all(common) else ()


def _known(spark: SparkSession, operation: Operation, kinds: tuple[str, ...]) -> DataFrame:
    """Returns the tombstones that count, with keys and places of some types."""
    return _typed(spark.read.format("delta").load(operation.apply.stored_as.tombstones).where(_counts(operation)), kinds)


def _typed(rows: DataFrame, kinds: tuple[str, ...]) -> DataFrame:
    *keys, sequence = kinds
    key = f"struct<{', '.join(f'k{index}: {kind}' for index, kind in enumerate(keys))}>"
    return rows.withColumns({"key": F.col("key").cast(key), "sequence": F.col("sequence").cast(sequence)})


def _key(operation: Operation) -> Column:
    return F.struct(*(F.col(quoted(key)).alias(f"k{index}") for index, key in enumerate(operation.apply.keys)))


def _emptied(spark: SparkSession, like: DataFrame, place: str) -> DataFrame:
    return spark.range(1).select(F.lit(None).cast(like.schema["key"].dataType).alias("key"), F.expr(place).alias("sequence"))
