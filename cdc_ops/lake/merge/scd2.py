"""SCD type 2: computes a table's versions from changes in any order of arrival. Runs in Spark, reads only.

    stored versions of the keys that change --+
    deletes that are remembered --------------+-- one row an event, in order -- versions -- those that differ from the stored ones
    changes of the batch ---------------------+

A stored version stands for an event at its start, one at its end, and one for each later change that left its tracked columns as they were
(`TOUCHED`). So a change that comes late finds all that came before it, and the outcome is that of all changes in their order.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from cdc_ops.core.apply.metadata_columns import END, START, TOUCHED
from cdc_ops.core.operation.log_batch import REST_IS_NULL
from cdc_ops.core.operation.merging.merge_plan import FROM, GONE, REUSED, MergePlan
from cdc_ops.core.operation.operation import Operation
from cdc_ops.core.text import quoted
from cdc_ops.lake.log.delta_log import DeltaLog
from cdc_ops.lake.merge.deletes.tombstones import recalled
from cdc_ops.lake.merge.sql import INCOMPLETE
from cdc_ops.lake.spark.expressions import key_names, numbered_keys, same_key

AT: Final = "__cdc_at"
"""Column of changes: their sequence."""

_ENDED, _STORED, _DELETED, _WRITTEN = range(4)
"""What wins where two events of a key have one sequence: the batch before the table, a row before an end."""

_SINCE: Final = "__cdc_since"
_DIGEST: Final = "struct<a: bigint, b: bigint>"
_WHOLE: Final = (Window.unboundedPreceding, Window.unboundedFollowing)
_SO_FAR: Final = (Window.unboundedPreceding, Window.currentRow)
_EVENT: Final = ("at", "rank", "image", "has", "mine")


def versions(spark: SparkSession, operation: Operation, plan: MergePlan, changes: DataFrame) -> DataFrame:
    """Returns the versions that a statement writes, each with the stored version that it replaces.

    Args:
        spark: The session of `changes`.
        operation: The operation, whose table exists.
        plan: Its statement; its key ranges skip files, and its `delete_missing_where` names keys that end unless the batch has them.
        changes: Rows with the table's columns, their sequence as `AT`, and the columns that the plan names.

    Returns:
        The plan's columns, and `VERSION_MARKS`; nothing for a key whose versions stay as they are.
    """
    shape = _Shape.of(operation)
    # Of this version: computed once more, in the middle of the statement or after it, the versions are the same.
    table = spark.read.format("delta").option("versionAsOf", str(DeltaLog(operation.target.path).newest())).load(operation.target.path)
    for one in plan.prune:
        table = table.where(f"{quoted(one.column)} BETWEEN {one.low} AND {one.high}")
    written = _written(shape, plan, changes)
    if plan.delete_missing_where:
        written = written.unionByName(_missing(shape, plan, changes, table, operation))
    touched = written.groupBy(*shape.names).agg(F.min("at").alias(_SINCE))
    known = recalled(spark, operation)
    emptied = known is not None and not known.where(F.col("key").isNull()).isEmpty()
    if emptied:
        every = table.select(*shape.key).unionByName(touched.select(*shape.names)).distinct()
        touched = every.withColumn(_SINCE, shape.at(F.lit(None)))
    told = [written, _stored(shape, table, touched)]
    if known is not None:
        told.append(_remembered(shape, known, touched, emptied=emptied))
    placed = _placed(shape, reduce(DataFrame.unionByName, told).repartition(*shape.names))  # one exchange serves all that follows
    return _differing(shape, plan, _grouped(shape, _completed(shape, placed) if plan.present else placed))


def all_versions(operation: Operation, plan: MergePlan, changes: DataFrame) -> DataFrame:
    """Returns all versions that changes come to, where they are all that there are: of the table nothing is read.

    Args:
        operation, plan, changes: As for `versions`; the places of the plan's `truncates` end every key.
    """
    shape = _Shape.of(operation)
    written = _written(shape, plan, changes)
    told = [written]
    for place in plan.truncates:
        told.append(_ended(shape, written.select(*shape.names).distinct().withColumn("sequence", F.expr(place))))
    placed = _placed(shape, reduce(DataFrame.unionByName, told).repartition(*shape.names))
    return _differing(shape, plan, _grouped(shape, _completed(shape, placed)))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shape:
    """How a table's versions look: its key and value columns with their types, which of them begin a version, the type of its sequence."""

    keys: tuple[str, ...]
    columns: tuple[tuple[str, str], ...]
    tracked: tuple[int, ...]
    sequence: str

    @classmethod
    def of(cls, operation: Operation) -> "_Shape":
        """Returns the shape of the table that an operation writes; without a sequence of its own it is by time."""
        stored, columns = operation.apply.stored_as, tuple((column.name, column.delta_type) for column in operation.source.schema.columns)
        followed = {name.lower() for name in stored.tracked}
        tracked = tuple(index for index, (name, _) in enumerate(columns) if not followed or name.lower() in followed)
        return cls(
            keys=operation.apply.keys, columns=columns, tracked=tracked, sequence=stored.sequence.type if stored.sequence else "timestamp"
        )

    @property
    def names(self) -> tuple[str, ...]:
        """The key columns of an event."""
        return key_names(self.keys)

    @property
    def key(self) -> list[Column]:
        """The key of a row of table or batch, under `names`."""
        return numbered_keys(self.keys)

    @property
    def image(self) -> Column:
        """The values of a row of table or batch, as a struct whose fields are `c0`, `c1`, … in the order of `columns`."""
        return F.struct(*(F.col(quoted(name)).cast(kind).alias(f"c{index}") for index, (name, kind) in enumerate(self.columns)))

    @property
    def image_type(self) -> str:
        """The type of `image`, as Spark SQL DDL."""
        return "struct<" + ", ".join(f"c{index}: {kind}" for index, (_, kind) in enumerate(self.columns)) + ">"

    @property
    def at_type(self) -> str:
        """The type of a place in the order of versions: whether it is known, and which; unknown ones sort first."""
        return f"struct<known: boolean, sequence: {self.sequence}>"

    @property
    def mine_type(self) -> str:
        """The type of what is known of the version that a row stands in, as Spark SQL DDL."""
        return f"struct<start: {self.at_type}, end: {self.sequence}, touched: array<{self.sequence}>, digest: {_DIGEST}>"

    def digest(self, columns: Iterable[int]) -> Column:
        """128 bits of some columns of `image`."""
        values = [F.col("image")[f"c{index}"] for index in columns]
        return F.struct(F.xxhash64(*values).alias("a"), F.xxhash64(F.lit(1), *values).alias("b"))

    def at(self, sequence: Column) -> Column:
        """A sequence that is never NULL itself: the one from before all that is known sorts first."""
        return F.struct(sequence.isNotNull().alias("known"), sequence.alias("sequence")).cast(self.at_type)

    def event(self, **parts: Column) -> list[Column]:
        """The columns of an event; what is not given is NULL."""
        kinds = {"image": self.image_type, "has": "array<string>", "mine": self.mine_type}
        told = [parts.get(name, F.lit(None).cast(kinds.get(name, "string"))).alias(name) for name in _EVENT]
        return [*(F.col(name) for name in self.names), *told]


def _written(shape: _Shape, plan: MergePlan, changes: DataFrame) -> DataFrame:
    gone = F.col(plan.deleted_flag) if plan.deleted_flag else F.lit(False)
    has = F.when(~gone, F.col(quoted(plan.present))) if plan.present else F.lit(None).cast("array<string>")
    rank = F.when(gone, _DELETED).otherwise(_WRITTEN)
    keyed = changes.withColumns(dict(zip(shape.names, (F.col(quoted(key)) for key in shape.keys), strict=True)))
    return keyed.select(*shape.event(at=shape.at(F.col(AT)), rank=rank, image=F.when(~gone, shape.image), has=has))


def _missing(shape: _Shape, plan: MergePlan, changes: DataFrame, table: DataFrame, operation: Operation) -> DataFrame:
    """Deletes of the living keys that a condition names and the batch has not; what was read at the source tells no other time."""
    living = table.alias("t").where(F.col(END).isNull()).where(plan.delete_missing_where).select(*shape.key)
    gone = living.join(changes.select(*shape.key), list(shape.names), "left_anti")
    return gone.select(*shape.event(at=shape.at(F.lit(operation.plan.planned_at)), rank=F.lit(_DELETED)))


def _stored(shape: _Shape, table: DataFrame, touched: DataFrame) -> DataFrame:
    """The events that the versions of the keys that change stand for; the table is read once.

    Versions that ended before the first change of their key stay as they are, and are left out: a long history costs no more than a short.
    """
    same = same_key([F.col(quoted(key)) for key in shape.keys])
    ends_later = F.col(END).isNull() | (shape.at(F.col(END)) >= F.col(_SINCE))
    own = (F.col(START).alias("start"), F.col(END).alias("end"), F.col(TOUCHED).alias("touched"))
    rows = table.join(touched, same).where(ends_later).select(*shape.names, shape.image.alias("image"), *own)
    later = F.coalesce("touched", F.array().cast(f"array<{shape.sequence}>"))
    mine = F.struct(shape.at(F.col("start")), "end", "touched", shape.digest(range(len(shape.columns)))).cast(shape.mine_type)
    told = rows.select(
        *shape.names,
        "image",
        mine.alias("mine"),
        (F.size(later) + 1).alias("last"),
        F.posexplode(F.concat(F.array("start"), later, F.array("end"))).alias("nth", "one"),
    )
    ends = F.col("nth") == F.col("last")
    return told.where(~ends | F.col("one").isNotNull()).select(
        *shape.event(
            at=shape.at(F.col("one")),
            rank=F.when(ends, _ENDED).otherwise(_STORED),
            image=F.when(~ends, F.col("image")),
            mine=F.when(F.col("nth") == 0, F.col("mine")),
        )
    )


def _remembered(shape: _Shape, known: DataFrame, touched: DataFrame, *, emptied: bool) -> DataFrame:
    key = [F.col("key")[f"k{index}"].alias(name) for index, name in enumerate(shape.names)]
    keyed = known.where(F.col("key").isNotNull()).select(*key, "sequence")
    deletes = keyed.join(touched, list(shape.names)).where(shape.at(F.col("sequence")) >= F.col(_SINCE)).select(*shape.names, "sequence")
    if emptied:
        everywhere = known.where(F.col("key").isNull()).select("sequence")
        deletes = deletes.unionByName(touched.select(*shape.names).crossJoin(F.broadcast(everywhere)))
    return _ended(shape, deletes)


def _ended(shape: _Shape, keys: DataFrame) -> DataFrame:
    """Ends of keys, each at its `sequence`."""
    return keys.select(*shape.event(at=shape.at(F.col("sequence")), rank=F.lit(_ENDED)))


def _placed(shape: _Shape, events: DataFrame) -> DataFrame:
    """One event for each key and sequence; a stored version that begins there is known by it all the same.

    Windows, here and below: all of them go by the order that rows have then, and aggregates of such rows are not compiled.
    """
    best = Window.partitionBy(*shape.names, "at").orderBy(F.desc("rank"), F.desc("mark"))
    told = events.withColumn("mark", F.xxhash64("image")).withColumns(
        {"nth": F.row_number().over(best), "mine": F.first("mine", ignorenulls=True).over(best.rowsBetween(*_WHOLE))}
    )
    return told.where("nth = 1").drop("nth", "mark")


def _completed(shape: _Shape, events: DataFrame) -> DataFrame:
    """Gives the columns that an event does not speak of the values from before it; a key that the table lacks ends the statement."""
    order = Window.partitionBy(*shape.names).orderBy("at")
    so_far = order.rowsBetween(*_SO_FAR)
    values = []
    for index, (name, _) in enumerate(shape.columns):
        said = F.col("image").isNotNull() & (F.col("has").isNull() | F.array_contains("has", name))
        # An end removes the value of every column: a later change starts without values.
        told = F.when(said | F.col("image").isNull(), F.struct(F.col("image")[f"c{index}"].alias("value")))
        value = F.last(told, ignorenulls=True).over(so_far)
        values.append(value["value"].alias(f"c{index}"))
    text = F.concat_ws(", ", *(F.col(name).cast("string") for name in shape.names))
    failure = F.raise_error(F.concat(F.lit(INCOMPLETE), F.hex(text), F.lit(":"))).cast(shape.image_type)
    alone = F.lag("image").over(order).isNull() & F.col("has").isNotNull() & ~F.array_contains("has", REST_IS_NULL)
    return events.withColumn("image", F.when(F.col("image").isNotNull(), F.when(alone, failure).otherwise(F.struct(*values))))


def _grouped(shape: _Shape, events: DataFrame) -> DataFrame:
    """One row for each version, or end of one: key, `start`, `end`, `touched`, `image`, and the stored versions within it as `kept`.

    A version is a row of events between which no tracked column changed; its values are those of the last.
    """
    order = Window.partitionBy(*shape.names).orderBy("at")
    before = F.lag("tracked").over(order)
    begins = F.col("tracked").isNull() | before.isNull() | (before != F.col("tracked"))
    told = events.withColumn("tracked", F.when(F.col("image").isNotNull(), shape.digest(shape.tracked))).withColumn("begins", begins)
    numbered = told.withColumn("number", F.sum(F.col("begins").cast("int")).over(order.rowsBetween(*_SO_FAR)))
    within = Window.partitionBy(*shape.names, "number").orderBy("at")
    whole = within.rowsBetween(*_WHOLE)
    groups = numbered.select(
        *shape.names,
        "number",
        F.row_number().over(within).alias("nth"),
        F.col("at").alias("start"),
        F.last("image").over(whole).alias("image"),
        F.collect_list(F.when(~F.col("begins"), F.col("at.sequence"))).over(whole).alias("touched"),
        F.collect_list("mine").over(whole).alias("kept"),
    )
    end = F.lead("start").over(Window.partitionBy(*shape.names).orderBy("number"))["sequence"]
    return groups.where("nth = 1").withColumn("end", end)


def _differing(shape: _Shape, plan: MergePlan, groups: DataFrame) -> DataFrame:
    """The versions that are not stored as they are, and the stored ones that are none any more."""
    living, mine = F.col("image").isNotNull(), F.col("mine")
    own = F.when(living & (F.size("kept") > 0), F.col("kept")[0])
    lost = F.slice("kept", F.when(living, 2).otherwise(1), F.size("kept"))
    # One row for the version, then one for each that it replaces: what is computed above is computed once.
    found = groups.select("*", F.posexplode(F.concat(F.array(own), lost)).alias("place", "mine"))
    same = (
        mine.isNotNull()
        & (mine["start"] == F.col("start"))
        & mine["end"].eqNullSafe(F.col("end"))
        & (F.coalesce(mine["touched"], F.array().cast(f"array<{shape.sequence}>")) == F.col("touched"))
        & (mine["digest"] == shape.digest(range(len(shape.columns))))
    )
    gone = F.col("place") > 0
    keyed = {name.lower(): F.col(column) for name, column in zip(shape.keys, shape.names, strict=True)}
    values = [
        F.coalesce(F.col("image")[f"c{index}"], keyed.get(name.lower(), F.lit(None)).cast(kind)).alias(name)
        for index, (name, kind) in enumerate(shape.columns)
    ]
    rows = found.where(gone | (living & ~same)).select(
        *values,
        F.col("start.sequence").alias(START),
        F.col("end").alias(END),
        F.when(F.size("touched") > 0, F.col("touched")).alias(TOUCHED),
        mine.isNotNull().alias(REUSED),
        mine["start"]["sequence"].alias(FROM),
        gone.alias(GONE),
    )
    return rows.select(*(quoted(name) for name in plan.batch_columns))
