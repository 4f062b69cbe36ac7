"""SCD type 2: what becomes of a table's versions when changes come, in whatever order they come. Runs in Spark, reads only.

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

from cdc_ops.core.logs import REST_IS_NULL
from cdc_ops.core.merging import FROM, GONE, REUSED, MergePlan, quoted
from cdc_ops.core.operations import OperationSpec
from cdc_ops.core.stored_as import END, START, TOUCHED
from cdc_ops.lake.keys import numbered_keys, same_key
from cdc_ops.lake.statements import INCOMPLETE
from cdc_ops.lake.tombstones import recalled

AT: Final = "__cdc_at"
"""Column of changes: their sequence."""

_ENDED, _STORED, _DELETED, _WRITTEN = range(4)
"""What wins where two events of a key have one sequence: the batch before the table, a row before an end."""

_SINCE: Final = "__cdc_since"
_DIGEST: Final = "struct<a: bigint, b: bigint>"
_EVENT: Final = ("key", "at", "rank", "image", "has", "mine")


def versions(spark: SparkSession, spec: OperationSpec, plan: MergePlan, changes: DataFrame) -> DataFrame:
    """Returns the versions that a statement has to write, each with the stored one whose place it takes.

    Args:
        spark: The session of `changes`.
        spec: The operation, whose table exists.
        plan: Its statement; its key ranges skip files, and its `delete_missing_where` names keys that end unless the batch has them.
        changes: Rows with the table's columns, their sequence as `AT`, and the columns that the plan names.

    Returns:
        The plan's columns, and `VERSION_MARKS`; nothing for a key whose versions stay as they are.
    """
    shape = _Shape.of(spec)
    table = spark.read.format("delta").load(spec.path)
    for one in plan.prune:
        table = table.where(f"{quoted(one.column)} BETWEEN {one.low} AND {one.high}")
    written = _written(shape, plan, changes)
    if plan.delete_missing_where:
        written = written.unionByName(_missing(shape, plan, changes, table, spec))
    known, touched = recalled(spark, spec), written.groupBy("key").agg(F.min("at").alias("since"))
    if known is not None and not known.where(F.col("key").isNull()).isEmpty():
        every = table.select(shape.key.alias("key")).distinct().unionByName(touched.select("key")).distinct()
        touched = every.withColumn("since", shape.at(F.lit(None)))
    events = reduce(DataFrame.unionByName, [written, _stored(shape, table, touched), *_remembered(shape, known, touched)])
    placed = _placed(events.repartition("key"))  # one exchange serves all that follows
    return _differing(shape, plan, _grouped(shape, _completed(shape, placed) if plan.present else placed))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shape:
    """How a table's versions look: its key and value columns with their types, which of them begin a version, the type of its sequence."""

    keys: tuple[str, ...]
    columns: tuple[tuple[str, str], ...]
    tracked: tuple[int, ...]
    sequence: str

    @classmethod
    def of(cls, spec: OperationSpec) -> "_Shape":
        stored, columns = spec.stored_as, tuple((column.name, column.delta_type) for column in spec.schema.columns)
        followed = {name.lower() for name in stored.tracked}
        tracked = tuple(index for index, (name, _) in enumerate(columns) if not followed or name.lower() in followed)
        return cls(keys=spec.keys, columns=columns, tracked=tracked, sequence=stored.sequence.type if stored.sequence else "timestamp")

    @property
    def key(self) -> Column:
        return F.struct(*(F.col(quoted(name)).alias(f"k{index}") for index, name in enumerate(self.keys)))

    @property
    def image(self) -> Column:
        return F.struct(*(F.col(quoted(name)).cast(kind).alias(f"c{index}") for index, (name, kind) in enumerate(self.columns)))

    @property
    def image_type(self) -> str:
        return "struct<" + ", ".join(f"c{index}: {kind}" for index, (_, kind) in enumerate(self.columns)) + ">"

    @property
    def at_type(self) -> str:
        return f"struct<known: boolean, sequence: {self.sequence}>"

    @property
    def mine_type(self) -> str:
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
        return [parts.get(name, F.lit(None).cast(kinds.get(name, "string"))).alias(name) for name in _EVENT]


def _written(shape: _Shape, plan: MergePlan, changes: DataFrame) -> DataFrame:
    gone = F.col(plan.deleted_flag) if plan.deleted_flag else F.lit(False)
    has = F.when(~gone, F.col(quoted(plan.present))) if plan.present else F.lit(None).cast("array<string>")
    rank = F.when(gone, _DELETED).otherwise(_WRITTEN)
    return changes.select(*shape.event(key=shape.key, at=shape.at(F.col(AT)), rank=rank, image=F.when(~gone, shape.image), has=has))


def _missing(shape: _Shape, plan: MergePlan, changes: DataFrame, table: DataFrame, spec: OperationSpec) -> DataFrame:
    """Deletes of the living keys that a condition names and the batch has not; what was read at the source tells no other time."""
    living = table.alias("t").where(F.col(END).isNull()).where(plan.delete_missing_where).select(shape.key.alias("key"))
    gone = living.join(changes.select(shape.key.alias("key")), "key", "left_anti")
    return gone.select(*shape.event(key=F.col("key"), at=shape.at(F.lit(spec.planned_at)), rank=F.lit(_DELETED)))


def _stored(shape: _Shape, table: DataFrame, touched: DataFrame) -> DataFrame:
    """The events that the versions of the keys that change stand for; the table is read once.

    Versions that ended before the first change of their key stay as they are, and are left out: a long history costs no more than a short.
    """
    numbered = numbered_keys([f"k{index}" for index in range(len(shape.keys))])
    keys = touched.select("key.*", F.col("since").alias(_SINCE)).select(*numbered, _SINCE)
    same = same_key([F.col(quoted(key)) for key in shape.keys])
    ends_later = F.col(END).isNull() | (shape.at(F.col(END)) >= F.col(_SINCE))
    rows = (
        table.join(keys, same)
        .where(ends_later)
        .select(
            shape.key.alias("key"),
            shape.image.alias("image"),
            F.col(START).alias("start"),
            F.col(END).alias("end"),
            F.col(TOUCHED).alias("touched"),
        )
    )

    def entry(sequence: Column, rank: int, *, first: bool) -> Column:
        return F.struct(sequence.alias("sequence"), F.lit(rank).alias("rank"), F.lit(first).alias("first"))

    begun = F.array(entry(F.col("start"), _STORED, first=True))
    later = F.transform(F.coalesce("touched", F.array().cast(f"array<{shape.sequence}>")), lambda one: entry(one, _STORED, first=False))
    ended = F.when(F.col("end").isNotNull(), F.array(entry(F.col("end"), _ENDED, first=False)))
    told = rows.select("*", F.explode(F.concat(begun, later, F.coalesce(ended, F.slice(begun, 2, 1)))).alias("one"))
    mine = F.struct(shape.at(F.col("start")), F.col("end"), F.col("touched"), shape.digest(range(len(shape.columns)))).cast(shape.mine_type)
    return told.select(
        *shape.event(
            key=F.col("key"),
            at=shape.at(F.col("one.sequence")),
            rank=F.col("one.rank"),
            image=F.when(F.col("one.rank") == _STORED, F.col("image")),
            mine=F.when(F.col("one.first"), mine),
        )
    )


def _remembered(shape: _Shape, known: DataFrame | None, touched: DataFrame) -> list[DataFrame]:
    if known is None:
        return []
    own = known.where(F.col("key").isNotNull()).join(touched, "key").where(shape.at(F.col("sequence")) >= F.col("since"))
    every = touched.select("key").crossJoin(F.broadcast(known.where(F.col("key").isNull()).select("sequence")))
    deletes = own.select("key", "sequence").unionByName(every)
    return [deletes.select(*shape.event(key=F.col("key"), at=shape.at(F.col("sequence")), rank=F.lit(_ENDED)))]


def _placed(events: DataFrame) -> DataFrame:
    """One event for each key and sequence; a stored version that begins there is known by it all the same."""
    won = F.struct("image", "has", "rank")
    placed = events.groupBy("key", "at").agg(
        F.max_by(won, F.struct("rank", F.xxhash64("image"))).alias("won"), F.first("mine", ignorenulls=True).alias("mine")
    )
    return placed.select("key", "at", "won.*", "mine")


def _completed(shape: _Shape, events: DataFrame) -> DataFrame:
    """Gives the columns that an event does not speak of the values from before it; a key that the table lacks ends the statement."""
    order = Window.partitionBy("key").orderBy("at")
    so_far = order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    values = []
    for index, (name, _) in enumerate(shape.columns):
        said = F.col("image").isNotNull() & (F.col("has").isNull() | F.array_contains("has", name))
        # An end says of every column that there is nothing: what comes after it begins anew.
        told = F.when(said | F.col("image").isNull(), F.struct(F.col("image")[f"c{index}"].alias("value")))
        value = F.last(told, ignorenulls=True).over(so_far)
        values.append(value["value"].alias(f"c{index}"))
    text = F.concat_ws(", ", *(F.col("key")[f"k{index}"].cast("string") for index in range(len(shape.keys))))
    failure = F.raise_error(F.concat(F.lit(INCOMPLETE), F.hex(text), F.lit(":"))).cast(shape.image_type)
    alone = F.lag("image").over(order).isNull() & F.col("has").isNotNull() & ~F.array_contains("has", REST_IS_NULL)
    image = F.when(F.col("image").isNotNull(), F.when(alone, failure).otherwise(F.struct(*values)))
    return events.select("key", "at", image.alias("image"), "rank", "mine")


def _grouped(shape: _Shape, events: DataFrame) -> DataFrame:
    """One row for each version, or end of one: `key`, `start`, `end`, `touched`, `image`, and the stored versions within it as `kept`.

    A version is a row of events between which no tracked column changed; its values are those of the last.
    """
    order = Window.partitionBy("key").orderBy("at")
    before = F.lag("tracked").over(order)
    begins = (F.col("tracked").isNull() | before.isNull() | (before != F.col("tracked"))).cast("int")
    told = events.withColumn("tracked", F.when(F.col("image").isNotNull(), shape.digest(shape.tracked))).withColumn("begins", begins)
    groups = (
        told.withColumn("number", F.sum("begins").over(order))
        .groupBy("key", "number")
        .agg(
            F.min("at").alias("start"),
            F.max_by(F.struct("image"), "at")["image"].alias("image"),
            F.array_sort(F.collect_list("at")).alias("places"),
            F.array_sort(F.collect_list("mine")).alias("kept"),
        )
    )
    later = F.slice("places", 2, F.greatest(F.size("places") - 1, F.lit(0)))
    end = F.lead("start").over(Window.partitionBy("key").orderBy("start"))["sequence"]
    return groups.select(
        "key", "start", end.alias("end"), F.transform(later, lambda one: one["sequence"]).alias("touched"), "image", "kept"
    )


def _differing(shape: _Shape, plan: MergePlan, groups: DataFrame) -> DataFrame:
    """The versions that are not stored as they are, and the stored ones that are none any more."""
    own = F.when(F.size("kept") > 0, F.col("kept")[0])
    touched = F.coalesce(own["touched"], F.array().cast(f"array<{shape.sequence}>"))
    same = (
        own.isNotNull()
        & (own["start"] == F.col("start"))
        & own["end"].eqNullSafe(F.col("end"))
        & (touched == F.col("touched"))
        & (own["digest"] == shape.digest(range(len(shape.columns))))
    )
    living = groups.where(F.col("image").isNotNull())
    parts = [F.col("image")[f"c{index}"].alias(name) for index, (name, _) in enumerate(shape.columns)]
    kept = living.where(~same).select(
        *parts,
        F.col("start.sequence").alias(START),
        F.col("end").alias(END),
        F.when(F.size("touched") > 0, F.col("touched")).alias(TOUCHED),
        own.isNotNull().alias(REUSED),
        own["start"]["sequence"].alias(FROM),
        F.lit(False).alias(GONE),
    )
    first = F.when(F.col("image").isNotNull(), 2).otherwise(1)
    lost = groups.where(F.size("kept") >= first).select("key", F.explode(F.slice("kept", first, F.size("kept"))).alias("mine"))
    keyed = {name.lower(): F.col("key")[f"k{index}"] for index, name in enumerate(shape.keys)}
    dropped = lost.select(
        *(keyed.get(name.lower(), F.lit(None)).cast(kind).alias(name) for name, kind in shape.columns),
        F.col("mine.start.sequence").alias(START),
        F.col("mine.end").alias(END),
        F.col("mine.touched").alias(TOUCHED),
        F.lit(True).alias(REUSED),
        F.col("mine.start.sequence").alias(FROM),
        F.lit(True).alias(GONE),
    )
    return kept.unionByName(dropped).select(*(quoted(name) for name in plan.batch_columns))
