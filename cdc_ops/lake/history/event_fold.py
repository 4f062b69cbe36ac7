"""Folds the events of a history, a Delta table, into one row per key; inside Spark.

    changed keys -> a delete and an insert      before anything is left out, so that the row of the old key goes
    TRUNCATE     -> a barrier                   older changes are dropped
    duplicates   -> one                         same key, same position, same content
    each column  -> its last value              of the events that have it; a whole row or a delete has all columns

`testing.folding` does the same in plain Python, event by event; tests compare the two. Events of archives are folded by `events.fold`.
"""

from collections.abc import Iterable
from operator import and_, or_
from typing import Final

from pyspark.sql import Column as Expr
from pyspark.sql import DataFrame, GroupedData
from pyspark.sql import functions as F
from pyspark.sql.types import DecimalType

from cdc_ops.core.balanced import balanced_reduce
from cdc_ops.core.events.format_spec import WHOLE_ROW, EventOperation, FormatSpec, RecordKind
from cdc_ops.core.operation.log_batch import REST_IS_NULL
from cdc_ops.core.schema.tables import Column, TableSchema

DELETED: Final = "deleted"
WHOLE: Final = "whole"
_LOW: Final = 10**18
_BUCKET: Final = "__bucket"


def barrier(feed: DataFrame) -> DataFrame:
    """Returns one row with the `position` of the last TRUNCATE, NULL if the feed has none.

    If there is a TRUNCATE, the batch deletes all rows of the lake before it applies the rows of `latest_per_key`.
    """
    truncates = (F.col("kind") == RecordKind.CHANGE) & (F.col("op") == EventOperation.TRUNCATE)
    return feed.where(truncates).agg(F.max("position").alias("position"))


def latest_per_key(feed: DataFrame, schema: TableSchema, *, truncated: bool = True, deletes: bool = True, nulls: bool = True) -> DataFrame:
    """Folds the changes of a feed per key, in the order of `position`.

    `bad` records are left out: a caller that goes on has written them to quarantine before. The result does not depend on the order of
    the feed's rows, nor on duplicates among them.

    Args:
        feed: The canonical feed of one table.
        schema: The table.
        truncated: False if the feed is known to have no TRUNCATE. The search for one reads the whole feed once more.
        deletes: False to ignore deletes and TRUNCATEs; an update that changes a key is then only an insert of the new key.
        nulls: False if the feed comes from `without_nulls`.

    Returns:
        One row per key:
            key       struct   the key
            deleted   boolean  the row is gone
            whole     boolean  the batch has the whole row: columns that are not `present` are NULL; otherwise they keep their values
            row       struct   the columns; NULL where not `present`
            present   array    the columns for which the batch has a value
            position  struct   of the last event
    """
    every = all_names(schema.columns)
    changes = _expanded(feed, deletes=deletes, every=every)
    if truncated and deletes:
        changes = _after_barrier(changes, feed)
    whole = F.col("event.op").isin(*WHOLE_ROW, EventOperation.DELETE)
    once = _once(changes).groupBy(_BUCKET, "key")
    common = [F.max("position").alias("position"), F.bool_or(whole).alias(WHOLE)]
    if not nulls:
        common.append(F.bool_or(F.array_contains("event.present", REST_IS_NULL)).alias("rest"))
    folded, values, present = _last_values(once, common, whole, schema)
    if not nulls:
        present = F.when(F.col("rest") & ~F.col(WHOLE), F.array_append(present, REST_IS_NULL)).otherwise(present)
    deleted = (F.col("op") == EventOperation.DELETE).alias(DELETED)
    return folded.select("key", deleted, WHOLE, F.struct(*values).alias("row"), present.alias("present"), "position")


def changes_per_key(feed: DataFrame, *, deletes: bool = True) -> DataFrame:
    """Returns every change of a feed, with key changes as a delete and an insert: the input of tables that keep all versions.

    TRUNCATEs are left out, and changes before them stay.

    Args:
        feed: The canonical feed of one table.
        deletes: False to ignore deletes.

    Returns:
        The columns of `latest_per_key`, one row per change, without duplicates.
    """
    changes = _once(_expanded(feed, deletes=deletes))
    return changes.select(
        "key",
        (F.col("event.op") == EventOperation.DELETE).alias(DELETED),
        F.col("event.op").isin(*WHOLE_ROW).alias(WHOLE),
        F.col("event.image").alias("row"),
        F.col("event.present").alias("present"),
        "position",
    )


def without_nulls(feed: DataFrame, schema: TableSchema, columns: tuple[str, ...]) -> DataFrame:
    """Returns a feed in which an update does not have the columns that are NULL in it (`ignore_null_updates`).

    `REST_IS_NULL` in `present` marks an event that had all columns: if the key has no row yet, it can be inserted. A value that was
    nullified because the stored type cannot hold it does not count as NULL, and an update that changes the key keeps its NULLs.

    Args:
        feed: The canonical feed of one table.
        schema: The table.
        columns: The columns whose NULLs are ignored.
    """
    known = [column.name for column in schema.columns if column.name in columns]
    silent = [F.when(F.col("after")[name].isNull() & ~F.array_contains("nulled", name), F.lit(name)) for name in known]
    nulls = F.array_intersect("present", F.array_compact(F.array(*silent)))
    said = F.array_except("present", nulls)
    named = F.when(F.size("present") == len(schema.columns), F.array_append(said, REST_IS_NULL)).otherwise(said)
    update = (F.col("op") == EventOperation.UPDATE) & F.col("previous_key").isNull()
    return feed.withColumn("present", F.when(update & (F.size(nulls) > 0), named).otherwise(F.col("present")))


def identity_of(rows: DataFrame, spec: FormatSpec) -> Expr:
    """Returns numbers that identify an event of a key: the same for each delivery of the event, different for other events of that key."""
    content = F.xxhash64("op", "previous_key", "after", "present")
    return F.concat(place_of(rows, [field.name for field in spec.order if field.of_delivery]), F.array(content))


def place_of(rows: DataFrame, without: Iterable[str] = ()) -> Expr:
    """Returns the fields of `position`, most significant first, as an array of bigint: one type for all formats.

    A decimal with more digits than a bigint becomes two numbers: the leading digits, and the last 18 digits.

    Args:
        rows: Rows with `position`.
        without: Fields of `position` to leave out.
    """
    numbers: list[Expr] = []
    for field in rows.select("position.*").schema.fields:
        if field.name in without:
            continue
        number = F.col("position")[field.name]
        if isinstance(field.dataType, DecimalType):
            head = F.call_function("div", number, F.lit(_LOW).cast("decimal(38,0)"))
            numbers += [F.when(number < 0, -1).otherwise(head), F.pmod(number, F.lit(_LOW).cast("decimal(38,0)"))]
        else:
            numbers.append(number)
    return F.array(*(number.cast("bigint") for number in numbers))


def _once(changes: DataFrame) -> DataFrame:
    """Returns one row per key and position: duplicates are dropped. Of two different events at one position always the same is taken.

    Rows are sorted by a hash of the key first, because Spark compares numbers faster than structs.
    """
    content = F.xxhash64("op", "image", "present")
    placed = changes.repartition(F.col("key")).select("*", content.alias("content"), F.xxhash64("key").alias(_BUCKET))
    return placed.groupBy(_BUCKET, "key", "position").agg(F.max_by(F.struct("op", "image", "present"), F.col("content")).alias("event"))


def _expanded(feed: DataFrame, *, deletes: bool, every: Expr | None = None) -> DataFrame:
    """Returns the changes of single rows. An update that changes the key becomes a delete of the old key and an insert of the new one.

    Args:
        feed: The canonical feed of one table.
        deletes: False if deletes are to be ignored.
        every: The names of all columns, if `present` is to be NULL for events that have all of them: then Spark copies less per row.
    """
    applied = (F.col("kind") == RecordKind.CHANGE) & ~F.col("op").isin(
        EventOperation.TRUNCATE, *(() if deletes else (EventOperation.DELETE,))
    )
    moved, left = F.col("previous_key").isNotNull(), F.col("left")
    # Once for a changed row; for a moved one also once for its old key. No filter: Spark would move it to where the feed is made, and
    # check each record twice.
    both = applied & moved & F.lit(deletes)
    places = F.when(both, F.array(F.lit(False), F.lit(True))).when(applied, F.array(F.lit(False)))
    rows = feed.select("*", F.explode(F.coalesce(places, F.array().cast("array<boolean>"))).alias("left"))
    deleted = left | (F.col("op") == EventOperation.DELETE)
    present = F.col("present") if every is None else F.when(F.col("present") != every, F.col("present"))
    return rows.select(
        F.when(left, F.col("previous_key")).otherwise(F.col("key")).alias("key"),
        F.when(left, EventOperation.DELETE.value).when(moved, EventOperation.CREATE.value).otherwise(F.col("op")).alias("op"),
        F.when(~deleted, F.col("after")).alias("image"),
        F.when(left, F.array().cast("array<string>")).otherwise(present).alias("present"),
        "position",
    )


def _after_barrier(changes: DataFrame, feed: DataFrame) -> DataFrame:
    last = F.broadcast(barrier(feed).select(F.col("position").alias("cut")))
    return changes.crossJoin(last).where(F.col("cut").isNull() | (F.col("position") > F.col("cut"))).drop("cut")


def _last_values(once: GroupedData, common: Iterable[Expr], whole: Expr, schema: TableSchema) -> tuple[DataFrame, list[Expr], Expr]:
    """Returns the fold of each column: its values, and the names of the columns that have one."""
    columns = [_last_value(column.name, whole).alias(f"c{index}") for index, column in enumerate(schema.columns)]
    folded = once.agg(F.max_by(F.col("event.op"), F.col("position")).alias("op"), *common, *columns)
    values = [F.col(f"c{index}")["value"].alias(column.name) for index, column in enumerate(schema.columns)]
    return folded, values, names_of([F.col(f"c{index}")["present"] for index in range(len(columns))], schema.columns)


def _last_value(name: str, whole: Expr) -> Expr:
    """Returns the last value that any event has for a column. A delete, and a whole row without the column, end the values before them."""
    has = _names(F.col("event"), name)
    said = F.struct(has.alias("present"), F.when(has, F.col("event.image")[name]).alias("value"))
    return F.max_by(said, F.when(has | whole, F.col("position")))


def _names(event: Expr, name: str) -> Expr:
    """True for an event that has a column."""
    return event["present"].isNull() | F.array_contains(event["present"], name)


def all_names(columns: Iterable[Column]) -> Expr:
    """Returns the names of columns as an array, in their order."""
    return F.array(*(F.lit(column.name) for column in columns))


def names_of(conditions: list[Expr], columns: Iterable[Column]) -> Expr:
    """Returns the names of the columns whose condition is true, in the order of the table: for nearly all rows, all columns or none."""
    names = [column.name for column in columns]
    none = F.array().cast("array<string>")
    if not names:
        return none
    some = F.array_compact(F.array(*(F.when(one, name) for one, name in zip(conditions, names, strict=True))))
    every = F.array(*map(F.lit, names))
    has_one = F.coalesce(balanced_reduce(or_, conditions, F.lit(False)), F.lit(False))
    return F.when(balanced_reduce(and_, conditions), every).when(~has_one, none).otherwise(some)
