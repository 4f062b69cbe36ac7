"""extract of the log method: archived events of one frozen operation, folded to one row per key and landed. Runs in Spark.

    files -> count their lines -> prove that none is missing -> records -> feed (landed as Parquet) -> last state of each key (landed)

The feed is landed once and read twice, so that JSON is parsed once: what is bad in it, and what it empties, is known before it is folded.
"""

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final

from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from cdc_ops.archives.base import Archive
from cdc_ops.archives.registry import open_archive
from cdc_ops.core.archive.file_names import KafkaName, parse_name
from cdc_ops.core.archive.files import FrozenFiles
from cdc_ops.core.cursor.cursors import parse_datetime
from cdc_ops.core.events.ddl_changes import Renaming, Statement
from cdc_ops.core.events.format_spec import EventOperation, RecordKind
from cdc_ops.core.operation.log_batch import LogBatch, LogBatchResult
from cdc_ops.core.operation.operation import Operation
from cdc_ops.core.operation.reads import ArchiveRead
from cdc_ops.core.operation.results import Manifest
from cdc_ops.core.phases import RunPhase
from cdc_ops.core.pipeline.archive_config import Decoder
from cdc_ops.core.pipeline.unknown_tables import NONE_UNKNOWN
from cdc_ops.core.schema.declared_tables import next_step
from cdc_ops.core.schema.tables import Column as TableColumn
from cdc_ops.core.schema.tables import TableName
from cdc_ops.core.schema.value_policies import NulledValues, NullifiedValues
from cdc_ops.errors import BadRecordsError, ConfigError, RequestError
from cdc_ops.formats.feed.canonical import canonical_feed, records_of
from cdc_ops.formats.feed.fold import place_of, speaks_of_part
from cdc_ops.formats.feed.renames import with_names_from_before, with_names_of_now
from cdc_ops.formats.files.local_rows import local_rows
from cdc_ops.formats.registry import open_format
from cdc_ops.lake.quarantine.write import records_again
from cdc_ops.lake.spark.conf import archive_conf
from cdc_ops.lake.spark.session import pinned, set_missing
from cdc_ops.lake.staging.manifests import feed_name, landed_files
from cdc_ops.lake.staging.shared_folder import write_seen
from cdc_ops.steps.archive.frozen_files import after_reading, check_unchanged
from cdc_ops.steps.log.binlog_order import last_binlog, transactions_after
from cdc_ops.steps.log.column_drift import AlteredTable, news_columns, statement_of, statements_of
from cdc_ops.steps.log.event_files import CountedFiles, chosen_format, covers_of_files, open_alone, placed_names, unread
from cdc_ops.steps.log.event_order import check_order, instant, moment, order_columns
from cdc_ops.steps.log.folded_rows import FoldedCounts, Folding, land_folded
from cdc_ops.steps.log.plain.lane import PlainEvents
from cdc_ops.steps.log.plain.lanes import LandedLanes, together
from cdc_ops.steps.log.plain.opening import nobody, open_plain
from cdc_ops.steps.log.shared_scan import SharedScans
from cdc_ops.steps.log.unknown_tables import UnknownTableFilter, watch_of
from cdc_ops.steps.reporting.stopwatch import measured

_KEPT: Final = (
    *("kind", "op", "key", "previous_key", "after", "present", "nulled", "unmapped", "position", "source_time", "reason", "file", "line"),
)
_NOTED: Final = ("before", "snapshot", "transaction", "ddl")
"""What else a table's event history has of an event."""
_SHOWN: Final = 5


def land_events(
    spark: SparkSession, operation: Operation, log: LogBatch, attempt: str, readings: SharedScans | None = None, reread: str = ""
) -> Manifest:
    """Reads the files of an operation and lands what their events come to: one row per key, or for SCD type 2 one row per change of a key.

    Args:
        spark: A session of its own.
        operation: The frozen operation.
        log: What it reads.
        attempt: Folder name of this try, unique.
        readings: Of the job that it belongs to; None = it reads its files for itself.
        reread: Why this is done although it had been landed before, "" if it had not.

    Raises:
        ArchiveChangedError: a file has changed since it was frozen; the next run freezes the files again.
        ArchiveGapError: something is missing before all of the files.
        BadRecordsError: records cannot be read exactly.
        TiedEventsError: two events at one place say different things.
        ConfigError: the format would lose data by a setting that nobody has accepted.
        UnknownTablesError: records are of tables that the pipeline file does not speak of, and the policy is to fail.
    """
    set_missing(spark, archive_conf(log.url, dict(log.archive.options)))
    frozen, names = FrozenFiles(files=log.files), placed_names(log)
    with closing(open_archive(log.url, dict(log.archive.options))) as archive:
        opened, plain = _opened(spark, operation, log, attempt, archive, readings)
        transactions = transactions_after(log, opened.files)
        covers = covers_of_files(opened.files, log, operation.table)
        proven = after_reading(log, covers, table=str(operation.table))
        watch = watch_of(log, readings.known if readings else None)
        envelopes = _envelopes(spark, operation, log, opened, proven.merged)
        mine = watch.marked(envelopes, operation.table) if watch else records_of(envelopes, operation.table)
        if plain is not None and plain.takes_all(operation, proven.merged):
            feed, rows_of_files, altered = spark.range(0).toDF("none"), list[Row](), _altered(operation, log, ())
        else:
            feed, rows_of_files, altered = _feed_by_names_of_now(spark, mine, operation, log, (feed_folder(operation, attempt), watch))
        left = _seen(rows_of_files, operation)
        if plain is not None and _is_for_exact_way(plain, altered, left, watch):
            plain.remove()
            exactly = replace(log, archive=replace(log.archive, decoder=Decoder.EXACT))
            return land_events(spark, operation, exactly, f"{attempt}x", readings, reread)
        rows_of_files = together(rows_of_files, plain.looks(proven.merged)) if plain else rows_of_files
        seen = _seen(rows_of_files, operation)
        if seen.bad and not log.quarantine:
            raise _bad_records(feed, operation.table, seen.bad)
        newest, behind = (log.before.newest, 0) if log.again else check_order(rows_of_files, operation, log, names)
        reading = LogBatchResult.of(
            watermark=replace(
                proven.watermark,
                newest=newest,
                gtids=transactions(proven.merged),
                last_binlog=last_binlog(log, opened.files, proven.merged),
            ),
            covers=covers,
            merged=proven.merged,
            gaps=proven.gaps,
            blank=_blank_lines(opened, log, proven.merged),
            events=seen.events,
            truncates=() if operation.apply.stored_as.ignores_deletes else seen.truncates,
            behind=behind,
            ordered=open_format(log.archive.events.format).spec.one_order,
            quarantined=seen.bad + (seen.unknown if log.again or (watch and watch.keeps_raw) else 0),
            unknown=watch.check_unknown(feed, seen.unknown, operation.table) if watch else NONE_UNKNOWN,
            last_change=seen.last_change,
            lowest=seen.lowest,
            columns=altered.news(rows_of_files, seen.truncates, seen.lowest),
        )
        looked = _Looked(
            seen=seen,
            reading=reading,
            check=lambda: check_unchanged(archive, frozen),
            reread=reread,
            say=readings.say if readings else nobody,
        )
        lanes = LandedLanes(operation=operation, feed=feed, events=left.events, plain=plain, merged=proven.merged)
        return _land_rows(spark, operation, attempt, lanes, looked)


def _opened(
    spark: SparkSession, operation: Operation, log: LogBatch, attempt: str, archive: Archive, readings: SharedScans | None
) -> tuple[CountedFiles, PlainEvents | None]:
    """Opens the files: by the fast lane where it takes them, those that a shared scan has read, or by themselves."""
    if (together := _opened_together(spark, operation, log, attempt, archive, readings)) is not None:
        return together
    with measured(RunPhase.COUNTING):
        if log.archive.decoder is Decoder.AUTO:
            check_unchanged(archive, FrozenFiles(files=log.files))
        plain = open_plain(spark, operation, log, attempt, *((readings.say, readings.known) if readings else ()))
        return (plain.counted(log), plain) if plain else (open_alone(spark, log, archive), None)


def _opened_together(
    spark: SparkSession, operation: Operation, log: LogBatch, attempt: str, archive: Archive, readings: SharedScans | None
) -> tuple[CountedFiles, PlainEvents | None] | None:
    """Opens files that were read together with other tables of the job; None if the operation has no neighbours."""
    if readings is None:
        return None
    if log.archive.decoder is Decoder.AUTO and open_format(log.archive.events.format).spec.is_binlog:
        if (plain := readings.plain_of(spark, operation)) is not None:
            check_unchanged(archive, FrozenFiles(files=log.files))
            return plain.counted(log), plain
        if readings.was_decoded(operation):
            return None
    shared = readings.part_of(spark, operation)
    return None if shared is None else (shared, None)


def _land_rows(spark: SparkSession, operation: Operation, attempt: str, lanes: LandedLanes, looked: "_Looked") -> Manifest:
    """Folds what was read and lands what it comes to."""
    seen = looked.seen

    def finished(manifest: Manifest, counts: FoldedCounts) -> Manifest:
        reading = looked.reading.changed(partial=counts.partial, deletes=counts.deletes)
        feed_files = landed_files(operation.target.staging, feed_name(attempt)) if reads_feed(operation, reading) else ()
        return manifest.changed(
            log=reading,
            nulled=seen.nulled,
            feed_files=len(feed_files),
            feed_bytes=sum(file.bytes for file in feed_files),
            reread=looked.reread,
        )

    with measured(RunPhase.FOLD):
        folding = Folding(truncated=bool(seen.truncates), partial=bool(seen.partial), check=looked.check, finish=finished, say=looked.say)
        manifest = land_folded(spark, operation, attempt, lanes, folding)
    lanes.remove()
    return manifest


def _is_for_exact_way(plain: PlainEvents, altered: AlteredTable, left: "_Seen", watch: UnknownTableFilter | None) -> bool:
    """True if the exact way has to read all records, because of what it has seen in those that the fast lane left to it."""
    if altered.renamings:  # events from before have columns by other names: each is to be looked at
        return True
    # What is set aside is kept by its number in the file.
    return not plain.numbers_records and bool(left.bad or (left.unknown and watch is not None and watch.keeps_raw))


def _envelopes(spark: SparkSession, operation: Operation, log: LogBatch, opened: CountedFiles, merged: tuple[str, ...]) -> DataFrame:
    """Returns the envelopes that an operation wants: of its files before the first gap, or of what is in quarantine."""
    if log.again:
        return open_format(log.archive.events.format).envelopes(_records_again(spark, operation, log), chosen_format(log))
    return opened.envelopes(lambda found: unread(found, opened.read, log, merged))


def _blank_lines(opened: CountedFiles, log: LogBatch, merged: tuple[str, ...]) -> int:
    """Returns how many lines of the files that are merged are empty, 0 for formats in which that may be the end of a delete."""
    tombstones = open_format(log.archive.events.format).spec.writes_tombstones
    return 0 if tombstones else sum(file.blank for file in opened.files if file.path in set(merged))


def feed_folder(operation: Operation, attempt: str) -> str:
    """Returns where the feed of a try is landed, beside its rows."""
    return f"{operation.target.staging.rstrip('/')}/{feed_name(attempt)}"


def reads_feed(operation: Operation, reading: LogBatchResult) -> bool:
    """True if the merge of landed events reads their feed too: for the event history, and for what is or was in quarantine."""
    match operation.read:
        case ArchiveRead(batch=batch):
            return bool(reading.counts.quarantined or batch.again or batch.history)
        case _:
            return False


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seen:
    """What a feed holds: changes, what is bad or unknown, updates of some columns, TRUNCATEs, newest change, first place, lost values."""

    events: int
    bad: int
    unknown: int
    partial: int
    truncates: tuple[tuple[int, ...], ...]
    last_change: datetime | None
    lowest: tuple[int, ...]
    nulled: NullifiedValues


@dataclass(frozen=True, slots=True, kw_only=True)
class _Looked:
    """What a look at a landed feed showed, before it is folded; the check of its files; why it was read again; who is told."""

    seen: _Seen
    reading: LogBatchResult
    check: Callable[[], None]
    reread: str
    say: Callable[[str], None]


def _records_again(spark: SparkSession, operation: Operation, log: LogBatch) -> DataFrame:
    """Returns the records in quarantine, with the offsets that they have by their files' names.

    Raises:
        RequestError: nobody could tell whether a record is older than its row.
    """
    if not open_format(log.archive.events.format).spec.one_order:
        raise RequestError(
            f"What is in quarantine of {operation.table} cannot be replayed: {log.archive.events.format} has an order within a"
            " partition only.",
            why="A record that was set aside may be older than its row, and would set it back.",
            data="Nothing was written; the watermark stays.",
            next=next_step(
                f"reconcile --pipeline {operation.pipeline} --table {operation.table}",
                "compares the table with its source",
                declared=bool(log.declared),
                first="The next event of the whole row brings it right.",
            ),
        )
    rows = records_again(spark, operation, log.quarantine)
    parsed = {
        row["file"]: parse_name(log.archive.files.layout, row["file"], log.archive.files.template)
        for row in rows.select("file").distinct().collect()
    }
    found = [(file, name.partition, name.start_offset) for file, name in parsed.items() if isinstance(name, KafkaName)]
    places = local_rows(spark, found, {"file": "string", "partition": "int", "first": "bigint"})
    offset = (F.col("first") + F.col("line")).alias("offset")
    return rows.join(F.broadcast(places), "file", "left").select("value", "file", "line", "partition", offset)


def _feed_by_names_of_now(
    spark: SparkSession, mine: DataFrame, operation: Operation, log: LogBatch, place: tuple[str, UnknownTableFilter | None]
) -> tuple[DataFrame, list[Row], AlteredTable]:
    """Lands the feed of a table and looks at it; once more, if statements in it say that events from before have columns by other names.

    What statements say follows from the frozen files and columns alone, so that each try reads the same.

    Returns:
        The landed feed, what was seen of each of its files, and what its statements did.
    """
    form, schema = open_format(log.archive.events.format).spec, operation.full_schema
    named = with_names_of_now(mine, log.renamed, schema)

    def looked_at(renamings: tuple[Renaming, ...]) -> tuple[DataFrame, list[Row], AlteredTable]:
        feed = _landed_feed(spark, with_names_from_before(named, renamings, form), operation, log, place)
        looks = (*_seen_columns(feed, operation), *news_columns(feed, schema, form, log), *order_columns(feed, log, placed_names(log)))
        rows = feed.groupBy("file").agg(*looks).collect()
        table = _altered(operation, log, statements_of(rows, operation.table, form))
        return feed, rows, table

    found = looked_at(())
    renamings = found[2].renamings
    return looked_at(renamings) if renamings else found


def _altered(operation: Operation, log: LogBatch, said: tuple[Statement, ...]) -> AlteredTable:
    """Returns what statements did to the table."""
    return AlteredTable(
        schema=operation.full_schema,
        spec=open_format(log.archive.events.format).spec,
        statements=said,
        renamed=log.renamed,
        declared=bool(log.declared),
        stored=log.stored,
        begins=operation.before.watermark is None and not log.before.streams,
        read_at=_read_at(operation, log),
        keeps_versions=operation.apply.stored_as.keeps_versions,
    )


def _read_at(operation: Operation, log: LogBatch) -> datetime | None:
    """Returns when the rows of a table were read at the source of which this is the first batch of events; None for all other batches.

    The watermark is that instant then (`steps.planning.reconcile.observed_bound`), or an earlier one.
    """
    watermark = operation.before.watermark
    if watermark is None or log.before.newest:
        return None
    try:
        return parse_datetime(watermark.parts[0]).replace(tzinfo=UTC)
    except ConfigError:  # of a listing that had nothing
        return None


def _landed_feed(
    spark: SparkSession, named: DataFrame, operation: Operation, log: LogBatch, place: tuple[str, UnknownTableFilter | None]
) -> DataFrame:
    """Lands the feed of a table: what the fold needs of it, and what is bad."""
    (folder, watch), form = place, open_format(log.archive.events.format)
    feed = canonical_feed(form, named, operation.full_schema, operation.apply.keys, chosen_format(log), before=bool(log.history))
    bad = F.col("kind").isin(RecordKind.BAD, *((RecordKind.UNKNOWN,) if watch and watch.keeps_raw else ()))
    names = (*_KEPT, *(_NOTED if log.history else ()), *(("table",) if watch else ()))
    kept = [*(F.col(name) for name in names), statement_of(operation.table)]
    write_seen(feed.select(*kept, F.when(bad, F.col("raw")).alias("raw")), folder)
    return pinned(spark.read.schema(feed.select(*kept, "raw").schema).parquet(folder))


def _seen_columns(feed: DataFrame, operation: Operation) -> tuple[Column, ...]:
    """Returns what `_seen` needs of each file: aggregates of the landed feed."""
    change = F.col("kind") == RecordKind.CHANGE
    place = F.when(change, place_of(feed))
    lost = [F.count_if(F.array_contains("nulled", column.name)).alias(f"n{index}") for index, column in enumerate(_lossy(operation))]
    return (
        F.count_if(change).alias("events"),
        F.count_if(F.col("kind") == RecordKind.BAD).alias("bad"),
        F.count_if(F.col("kind") == RecordKind.UNKNOWN).alias("unknown"),
        F.count_if(speaks_of_part(operation.full_schema)).alias("part"),
        F.collect_set(F.when(F.col("op") == EventOperation.TRUNCATE, place)).alias("truncates"),
        moment(F.max(F.when(change, F.col("source_time")))).alias("last"),
        F.min(place).alias("lowest"),
        *lost,
    )


def _seen(rows: Sequence[Row], operation: Operation) -> _Seen:
    """Adds up what was seen of each file."""
    nulled = ((column, sum(row[f"n{index}"] for row in rows)) for index, column in enumerate(_lossy(operation)))
    return _Seen(
        events=sum(row["events"] for row in rows),
        bad=sum(row["bad"] for row in rows),
        unknown=sum(row["unknown"] for row in rows),
        partial=sum(row["part"] for row in rows),
        truncates=tuple(sorted({tuple(place) for row in rows for place in row["truncates"]})),
        last_change=max((at for row in rows if (at := instant(row["last"])) is not None), default=None),
        lowest=min((tuple(row["lowest"]) for row in rows if row["lowest"]), default=()),
        nulled=NullifiedValues(columns=tuple(NulledValues(column=c.name, source_type=c.source_type, values=n) for c, n in nulled if n)),
    )


def _lossy(operation: Operation) -> list[TableColumn]:
    return [column for column in operation.source.schema.columns if column.lossy]


def _bad_records(feed: DataFrame, table: TableName, bad: int) -> BadRecordsError:
    first = feed.where(F.col("kind") == RecordKind.BAD).select("file", "line", "reason").orderBy("file", "line").limit(_SHOWN).collect()
    shown = "; ".join(f"{row['file']} line {row['line'] + 1}: {row['reason']}" for row in first)
    return BadRecordsError(
        f"{bad:,} records of the archive of {table} cannot be read exactly: {shown}.",
        why="They were written under other settings than 'archive.settings' states, are damaged or of another format, or hold values that"
        " their columns do not have.",
        data="Nothing of this batch was written; the watermark stays.",
        next="Correct the format and its settings, or repair the files; cdc-ops reads them again. To go on without these records, set"
        " 'bad_records: quarantine': they are set aside, and their rows stay as they were.",
    )
