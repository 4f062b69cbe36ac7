"""Reads event histories: their beginnings, their records up to a point, and the resulting rows. Runs in Spark, writes nothing."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from cdc_ops.core.events.event_history import Begin, HistoryCheckpoint, HistoryKind, Point, chosen_begin
from cdc_ops.core.events.format_spec import EventOperation
from cdc_ops.core.operation.merging.merge_plan import position_literal
from cdc_ops.core.schema.tables import Column, TableName, TableSchema
from cdc_ops.lake.file_io import open_filesystem
from cdc_ops.lake.history.rows import MICROS, Kept, later_states, placed
from cdc_ops.lake.history.write import read_checkpoint
from cdc_ops.lake.log.change_feed_log import instant_of
from cdc_ops.lake.log.delta_log import DeltaLog

NOBODY: Final = TableName(schema="", name="")


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """The history of one generation, from one of its beginnings on.

    Args:
        path: Its Delta table.
        begin: The beginning.
        rows: Its rows, `begin` rows left out.
        newest: No later beginning is known.
    """

    path: str
    begin: Begin
    rows: DataFrame
    newest: bool = True


def generations(root: str) -> tuple[str, ...]:
    """Returns the paths of the histories of all generations of a table, oldest first."""
    filesystem, inner = open_filesystem(root)
    try:
        names = (name.rstrip("/").rpartition("/")[2] for name in filesystem.ls(inner, detail=False))
    except (FileNotFoundError, NotADirectoryError):
        return ()
    return tuple(f"{root.rstrip('/')}/{name}" for name in sorted(names) if name.isdigit())


def find_history(spark: SparkSession, root: str, point: Point | None, table: str) -> History:
    """Finds the history that a state at a point is made from.

    Args:
        spark: A session.
        root: Folder of the table's histories.
        point: Which; None = now.
        table: Whose, for messages.

    Raises:
        HistoryUnavailableError: it begins later, or there is none.
    """
    known = {begin: path for path in generations(root) if DeltaLog(path).newest() is not None for begin in _begins(spark, path)}
    begin = chosen_begin(known, point, table)
    return open_history(spark, known[begin], begin, newest=begin == chosen_begin(known, None, table))


def open_history(spark: SparkSession, path: str, begin: Begin | None = None, *, newest: bool = True) -> History:
    """Returns a history from one of its beginnings on, the last one if none is named.

    Raises:
        HistoryUnavailableError: it has no beginning.
    """
    begin = begin or chosen_begin(_begins(spark, path), None, path)
    rows = spark.read.format("delta").load(path)
    told = (F.col("kind") != HistoryKind.BEGIN.value) & (F.col("op_seq") >= begin.op_seq)
    return History(path=path, begin=begin, rows=rows.where(told), newest=newest)


def with_pending(spark: SparkSession, table: Kept, history: History, point: Point | None = None) -> DataFrame:
    """Returns the rows of a history, and what was changed in the table without events since the last one, which it has not noted yet.

    Args:
        spark: A session.
        table: The table.
        history: Its history.
        point: Up to which point they are wanted; None = now.

    Raises:
        ChangesUnavailableError: what was changed is not told any more.
    """
    since, log = read_checkpoint(history.path), DeltaLog(table.path)
    until = log.newest()
    if since is None or until is None or _is_before(point, log, since):
        return history.rows
    states = later_states(spark, table, since, until)
    if states is None:
        return history.rows
    return history.rows.unionByName(placed(states, history.rows), allowMissingColumns=True)


def _is_before(point: Point | None, log: DeltaLog, since: HistoryCheckpoint) -> bool:
    """True for a time from before all that was changed since."""
    if point is None or point.at is None or since.version < 0:
        return False
    try:
        return point.at < instant_of(log.commit_info(since.version))
    except FileNotFoundError:
        return False


def until(history: History, rows: DataFrame, point: Point) -> DataFrame:
    """Returns the rows of a history that count at a point; those that it begins with always do."""
    first = (F.col("kind") == HistoryKind.STATE.value) & (F.col("table_version") == history.begin.version)
    if point.at is not None:
        return rows.where(first | (F.col("happened_at") <= F.lit(point.at)))
    place = F.slice("position", 1, len(point.place))
    return rows.where(first | (place <= F.expr(position_literal(point.place))))


def truncates(rows: DataFrame) -> tuple[tuple[int, ...], ...]:
    """Returns the places at which the table was emptied, ascending."""
    found = rows.where(F.col("op") == EventOperation.TRUNCATE).agg(F.array_sort(F.collect_set("position")).alias("places")).collect()[0]
    return tuple(tuple(place) for place in found["places"])


def history_schema(path: str, table: TableName = NOBODY) -> TableSchema:
    """Returns the columns of a history's images: all that the table ever had."""
    log = DeltaLog(path)
    stored = log.state(log.newest() or 0)
    columns = tuple(
        Column(name=name, source_type="", delta_type=kind, nullable=True, expression="") for name, kind in stored.fields("after")
    )
    return TableSchema(table=table, columns=columns, primary_key=tuple(name for name, _ in stored.fields("key")))


def _begins(spark: SparkSession, path: str) -> Iterator[Begin]:
    rows = spark.read.format("delta").load(path)
    text = F.date_format("happened_at", MICROS)
    found = rows.where(F.col("kind") == HistoryKind.BEGIN.value).select("op_seq", "position", "table_version", "present", text.alias("at"))
    for row in found.collect():
        yield Begin(
            op_seq=row["op_seq"],
            at=datetime.fromisoformat(row["at"]).replace(tzinfo=UTC),
            place=tuple(row["position"] or ()),
            version=row["table_version"],
            columns=tuple(row["present"]),
        )
