"""What the rows of a history come to: the last state of each key, or each change of it. Runs in Spark.

Spark brings the rows of a key together, and `events.fold` folds them in its tasks: the rules are those of archived events. A small history
is folded in this process; so is any whose rows executors cannot fold, because their Python has no cdc-ops of this version.

    rows of the history -> by the hash of their key -> events.fold.history -> rows as they are landed

A task has the rows of its keys in memory. There are so many tasks that each has some tens of megabytes of the history's files, which become
some hundreds in memory. All rows of one key are in one task: a key with millions of events needs that much there.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, BooleanType, LongType, StringType, StructType

from cdc_ops.core.apply.deletes import DELETE_MARK
from cdc_ops.core.apply.metadata_columns import SEQUENCE
from cdc_ops.core.events.event_history import HistoryKind
from cdc_ops.core.events.format_spec import RecordKind
from cdc_ops.core.operation.log_batch import PRESENT
from cdc_ops.core.schema.tables import Column as TableColumn
from cdc_ops.events.fold.history import CONTENT, RANK, fold_history, fold_partition, last_truncate
from cdc_ops.events.fold.rules import OLD_SIDE, WHOLE, FoldRules
from cdc_ops.lake.history.read import truncates
from cdc_ops.lake.log.delta_log import DeltaLog
from cdc_ops.lake.spark.expressions import leave_out, stored_value
from cdc_ops.steps.stage import executors

_HERE: Final = 4 * 2**20
"""Histories of so many bytes are folded in this process."""
_BUCKET_BYTES: Final = 32 * 2**20
_MOST_BUCKETS: Final = 4096
_SIDE_BY_SIDE: Final = 8
"""So many tasks fold what is more than a few megabytes."""


def fold_rows(
    rows: DataFrame, rules: FoldRules, tables: Sequence[str], leaving_out: str = "", emptied: Sequence[tuple[int, ...]] | None = None
) -> DataFrame:
    """Folds rows of a history.

    Args:
        rows: As `lake.history.rows` has them; of all rows of a key those that count.
        rules: What is wanted of them; without a barrier, which is found here, and without an order, because their places are numbers.
        tables: The Delta tables that they are from; their bytes tell how many tasks are needed.
        leaving_out: Condition of events that are as if they had not been sent, "" = none is.
        emptied: The places of the TRUNCATEs among them, if they are known.

    Returns:
        The columns of the schema, DELETE_MARK, PRESENT and SEQUENCE, which is NULL for a row that is older than any event. WHOLE too for
        states that are kept, and RANK but for a table that keeps versions.
    """
    spark, size = rows.sparkSession, sum(map(stored_bytes, tables))
    feed = _feed(rows, rules, leaving_out)
    kinds = _columns(feed, rules)
    if executors.do_the_work(spark, size, least=_HERE, instead=f"{', '.join(tables)}: this process folds the event history"):
        if rules.deletes and not rules.versions:
            rules = replace(rules, barrier=max(truncates(rows) if emptied is None else emptied, default=None))
        buckets = max(min(_SIDE_BY_SIDE, size // _HERE), min(_MOST_BUCKETS, -(-size // _BUCKET_BYTES)))
        return _by_key(feed, buckets).mapInArrow(partial(fold_partition, rules=rules), kinds)
    found = feed.toArrow()
    return spark.createDataFrame(fold_history(found, replace(rules, barrier=last_truncate(found))), kinds)


def stored_bytes(path: str) -> int:
    """Returns the bytes of a Delta table's files, 0 if there is none."""
    log = DeltaLog(path)
    version = log.newest()
    if version is None:
        return 0
    size = log.size(version)
    return size[1] if size is not None else sum(add["size"] for add in log.adds(version))


def _feed(rows: DataFrame, rules: FoldRules, leaving_out: str) -> DataFrame:
    """Returns what is folded of rows; names of columns that the schema does not have are no news."""
    counting = rows.where(F.col("kind").isin(HistoryKind.STATE.value, RecordKind.CHANGE.value))
    if leaving_out:
        counting = leave_out(counting, leaving_out)
    every = F.array(*map(F.lit, rules.schema.names)).cast("array<string>")
    keys = (F.struct(*(F.col(name)[key].alias(key) for key in rules.keys)) for name in ("key", "previous_key"))
    key, previous = (F.when(F.col(name).isNotNull(), found).alias(name) for name, found in zip(("key", "previous_key"), keys, strict=True))
    return counting.select(
        *("kind", "op", "op_seq", "position", "table_version"),
        F.coalesce(F.try_element_at("identity", F.lit(-1)), F.lit(0)).alias(CONTENT),
        *(key, previous, "after"),
        F.when(F.col("present") != every, F.array_intersect("present", every)).alias("present"),
        *(("nulled",) if rules.nulls_ignored else ()),
    )


def _by_key(feed: DataFrame, buckets: int) -> DataFrame:
    """Brings the rows of a key together. An event that changes the key goes to both keys; the fold takes its side for each."""
    is_moved = F.col("previous_key").isNotNull()
    sides = F.when(is_moved, F.array(F.lit(False), F.lit(True))).otherwise(F.array(F.lit(False)))
    sided = feed.select("*", F.explode(sides).alias(OLD_SIDE))
    return sided.repartition(buckets, F.when(F.col(OLD_SIDE), F.col("previous_key")).otherwise(F.col("key")))


def _columns(feed: DataFrame, rules: FoldRules) -> StructType:
    """Returns the columns of folded rows."""
    row, key = feed.schema["after"].dataType, feed.schema["key"].dataType
    assert isinstance(row, StructType)
    assert isinstance(key, StructType)
    kinds = StructType()
    for name in rules.schema.names:
        kinds = kinds.add(name, (key if name in rules.keys else row)[name].dataType)
    kinds = kinds.add(DELETE_MARK, BooleanType()).add(PRESENT, ArrayType(StringType())).add(SEQUENCE, ArrayType(LongType()))
    if rules.states:
        kinds = kinds.add(WHOLE, BooleanType())
    return kinds if rules.versions else kinds.add(RANK, LongType())


def of_today(rows: DataFrame, columns: Sequence[TableColumn], keys: Sequence[str]) -> DataFrame:
    """Returns rows of a history with keys and images of columns that a table has today; of a column that it did not have NULL."""
    stored = {name.lower(): name for name in rows.select("after.*").columns}

    def image(struct: str, wanted: Sequence[TableColumn]) -> Column:
        values = (
            stored_value(one, F.col(struct)[stored[one.name.lower()]] if one.name.lower() in stored else F.lit(None)).alias(one.name)
            for one in wanted
        )
        return F.when(F.col(struct).isNotNull(), F.struct(*values))

    of_key = [column for key in keys for column in columns if column.name == key]
    return rows.withColumns({"after": image("after", columns), **{name: image(name, of_key) for name in ("key", "previous_key")}})
