"""The changes of a table between two of its commits, for readers that follow it. Runs in Spark.

Delta's feed tells what a statement did to rows: a MERGE that wrote a row with the values that it had updated it, and one that replaced the
table deleted and inserted all of them. Those who follow a table want to know what became of its rows. So the images of a row are put
together by commit and key: rows that stay as they were are no changes, and a row that one statement deleted and inserted is an update.
"""

from datetime import datetime
from typing import TYPE_CHECKING, Final

from pyspark.errors import AnalysisException
from pyspark.sql import functions as F

from cdc_ops.core.apply.metadata_columns import DEFAULT_COLUMNS, START, TOUCHED
from cdc_ops.core.change_range import ChangeMode, parse_bound
from cdc_ops.core.text import quoted
from cdc_ops.errors import ChangesUnavailableError, RequestError
from cdc_ops.lake.log.change_feed_log import FeedRange, find_range
from cdc_ops.lake.spark.session import pinned, shared_view, sibling_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_TYPE, _VERSION, _TIME = "_change_type", "_commit_version", "_commit_timestamp"
_LEFT_OUT: Final = (_TYPE, _VERSION, _TIME)
_WIDENED: Final = "spark.databricks.delta.changeDataFeed.unsafeBatchReadOnIncompatibleSchemaChanges.enabled"
_BEFORE: Final = ("delete", "update_preimage")


def changes(
    spark: "SparkSession",
    table: str,
    *,
    begin: str | int | datetime,
    end: str | int | datetime | None = None,
    mode: ChangeMode | str = ChangeMode.DATA_BEFORE_AFTER,
) -> "DataFrame":
    """Returns the changes of a table in a range of commits: one row for each changed row and commit.

    Args:
        spark: A session with Delta.
        table: Path or URI of the Delta table.
        begin: What has been seen already: a Delta version, an aware instant, or `watermark:VALUE`; changes come after it.
        end: The last that is wanted, told in the same ways, included; None is the newest version.
        mode: What is told of each row, `op_key_only`, `data_before` or `data_before_after`.

    Returns:
        `op` (`i` insert, `u` update, `d` delete), `ts_ms` (the instant of the commit, UTC, as text `yyyyMMddHHmmssSSS`), `version` (its
        Delta version), `key` (a struct; of a table that keeps versions with their `__START_AT`), and by mode `before` and `after`: the
        row, NULL where there was or is none. In no order: sort by `version`. A changed key is a delete and an insert; a row that was
        written again as it was is no change.

    Raises:
        RequestError: the range is none, or the log does not reach back to an end that is no version.
        ChangesUnavailableError: the table did not record these changes, or they are gone.
    """
    chosen = _mode(mode)
    found = find_range(table, parse_bound(begin, "begin"), None if end is None else parse_bound(end, "end"))
    return read_changes(spark, table, found, chosen)


def read_changes(spark: "SparkSession", table: str, feed_range: FeedRange, mode: ChangeMode) -> "DataFrame":
    """Returns the changes of a range that was found to be there; see `changes`."""
    feed = raw_feed(spark, table, feed_range)
    own = feed_range.record.columns.own if feed_range.record is not None else DEFAULT_COLUMNS
    # Of our own columns, those that change with every event, also with one that leaves the row as it was.
    left_out = {name.lower() for name in (*_LEFT_OUT, own.sequence, TOUCHED, *(name for name, _ in own.commit_columns))}
    columns = [name for name in feed.columns if name.lower() not in left_out]
    keys = _keys(feed_range, columns, mode, table)
    row = F.struct(*(F.col(quoted(name)) for name in columns)).alias("row")
    changes = feed.select(F.col(_VERSION).alias("version"), F.col(_TYPE).isin(*_BEFORE).alias("old"), row)
    images = _paired(changes, keys) if keys else _counted(changes)
    key = F.struct(*(F.coalesce(F.col("before"), F.col("after"))[name].alias(name) for name in keys)) if keys else F.lit(None)
    op = F.when(F.col("before").isNull(), "i").when(F.col("after").isNull(), "d").otherwise("u")
    changed = images.where(~F.col("before").eqNullSafe(F.col("after"))).join(_times(spark, feed_range), "version")
    return changed.select(op.alias("op"), "ts_ms", "version", key.alias("key"), "before", "after").select(*mode.columns)


def _mode(mode: ChangeMode | str) -> ChangeMode:
    try:
        return ChangeMode(mode)
    except ValueError as error:
        names = ", ".join(ChangeMode)
        raise RequestError(f"{mode!r} is not a mode of changes.", data="Nothing was read.", next=f"Choose one of {names}.") from error


def raw_feed(spark: "SparkSession", table: str, feed_range: FeedRange) -> "DataFrame":
    """Returns Delta's own feed of a range that was found to be there: the table's columns, and `_change_type` and the commit's."""
    if feed_range.begin == feed_range.end:
        none = (F.lit("").alias(_TYPE), F.lit(0).cast("bigint").alias(_VERSION), F.current_timestamp().alias(_TIME))
        return spark.read.format("delta").load(table).where(F.lit(False)).select("*", *none)
    if not feed_range.widened:
        return _load(spark, table, feed_range)
    # The relation keeps the session that it was made in, with its settings; the caller's own is left as it is.
    private = sibling_session(spark)
    private.conf.set(_WIDENED, "true")
    with shared_view(_load(private, table, feed_range)) as view:
        return pinned(spark.table(view))


def _load(spark: "SparkSession", table: str, feed_range: FeedRange) -> "DataFrame":
    options = {"readChangeFeed": "true", "startingVersion": str(feed_range.begin + 1), "endingVersion": str(feed_range.end)}
    try:
        return spark.read.format("delta").options(**options).load(table)
    except AnalysisException as error:
        if "TIME_TRAVEL" not in str(error):
            raise
        raise ChangesUnavailableError(
            f"Delta no longer has the changes of {table} after version {feed_range.begin}.",
            why=str(error).splitlines()[0],
            data="Nothing was read; the table is unchanged.",
            next="Start later, or read the whole table and follow its changes from that version on. 'retention' of the table's"
            " 'maintenance' sets how long they are kept.",
        ) from error


def _keys(feed_range: FeedRange, columns: list[str], mode: ChangeMode, table: str) -> tuple[str, ...]:
    keys = feed_range.record.columns.keys if feed_range.record is not None else ()
    keys = tuple(key for key in (*keys, START) if keys and key.lower() in {name.lower() for name in columns})
    if not keys and mode is not ChangeMode.DATA_BEFORE_AFTER:
        raise RequestError(
            f"The rows of {table} have no key, which the mode {mode.value} needs.",
            why="No commit record in its log names key columns.",
            data="Nothing was read.",
            next=f"Choose the mode {ChangeMode.DATA_BEFORE_AFTER.value}.",
        )
    return keys


def _paired(changes: "DataFrame", keys: tuple[str, ...]) -> "DataFrame":
    """Puts the old and the new image of each key in a commit side by side; none is left out, even if a key has several."""
    old, row = F.col("old"), F.col("row")
    grouped = changes.groupBy("version", *(row[key].alias(f"__key_{number}") for number, key in enumerate(keys))).agg(
        F.collect_list(F.when(old, row)).alias("before"), F.collect_list(F.when(~old, row)).alias("after")
    )
    pair = F.explode(F.arrays_zip("before", "after")).alias("pair")
    return grouped.select("version", pair).select("version", "pair.before", "pair.after")


def _counted(changes: "DataFrame") -> "DataFrame":
    """Leaves, of rows without keys, those of which a commit has changed the number."""
    more = F.sum(F.when(F.col("old"), -1).otherwise(1))
    counted = changes.groupBy("version", "row").agg(more.alias("more")).where("more <> 0")
    each = counted.select("version", "row", "more", F.explode(F.sequence(F.lit(1), F.abs("more"))))
    images = (F.when(F.col("more") < 0, F.col("row")).alias("before"), F.when(F.col("more") > 0, F.col("row")).alias("after"))
    return each.select("version", *images)


def _times(spark: "SparkSession", feed_range: FeedRange) -> "DataFrame":
    import pyarrow as pa  # its tables need no Python on executors

    versions = pa.array([version for version, _ in feed_range.times], pa.int64())
    times = pa.array([at.strftime("%Y%m%d%H%M%S") + f"{at.microsecond // 1000:03d}" for _, at in feed_range.times], pa.string())
    return F.broadcast(spark.createDataFrame(pa.table({"version": versions, "ts_ms": times})))
