"""Pipelines over binlogs of real servers come to the same by both decoders: the feed, what an operation lands, and its errors."""

import json
import shutil
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from cdc_ops.formats.feed.canonical import canonical_feed, records_of
from cdc_ops.formats.registry import open_format
from cdc_ops.steps.log.plain import binlog_scan, opening
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from cdc_ops.archives.registry import open_archive
from cdc_ops.core.archive.offsets import ArchiveWatermark
from cdc_ops.core.operation.log_batch import LogBatch
from cdc_ops.core.operation.operation import Operation
from cdc_ops.core.pipeline.archive_config import ArchiveConfig, Decoder, OnUnknownTable
from cdc_ops.core.pipeline.connections import ConnectionUrl
from cdc_ops.core.pipeline.pipeline import SourceConfig, SourceKind
from cdc_ops.core.pipeline.unknown_tables import KnownTables
from cdc_ops.core.schema.mysql_types import is_unsigned_bigint
from cdc_ops.core.schema.tables import TableName, TableSchema
from cdc_ops.core.schema.unsigned_bigints import WIDE
from cdc_ops.decode.kernel_folder import FIRST_TIME
from cdc_ops.dev.servers import DatabaseServer
from cdc_ops.errors import BadRecordsError, CdcError
from cdc_ops.lake.spark.session import sibling_session
from cdc_ops.sources.base import open_source
from cdc_ops.steps.log.event_files import chosen_format, open_alone
from cdc_ops.steps.log.land_events import feed_folder, land_events
from cdc_ops.steps.log.shared_scan import SharedScans
from tests.integration.test_binlog_decoder import (
    DB,
    NARROW_ROWS,
    Session,
    fill_narrow,
    fill_partly_undone,
    fill_wide,
    session,  # noqa: F401
)
from tests.operations import with_fields
from tests.spark.test_shared_reading import facts_of
from tests.state_values import make_operation


def wide(schema: TableSchema) -> TableSchema:
    """The columns as they are stored once a large BIGINT UNSIGNED has come."""
    columns = (replace(column, delta_type=WIDE) if is_unsigned_bigint(column.source_type) else column for column in schema.columns)
    return replace(schema, columns=tuple(columns))


def fill_pair(session: Session) -> None:  # noqa: F811
    """A table of which both images of an update with MINIMAL name all columns between them, and neither does alone."""
    session.run("CREATE TABLE pair (id INT PRIMARY KEY, v VARCHAR(20))", "INSERT INTO pair VALUES (1, 'a'), (2, 'b'), (3, 'c')")
    session.run("SET binlog_row_image = MINIMAL", "UPDATE pair SET v = 'part' WHERE id = 1", "SET binlog_row_image = FULL")


class Binlogs:
    """An archive with one closed file of each kind, and the tables that are in them."""

    def __init__(self, session: Session, folder: Path) -> None:  # noqa: F811
        self.folder = folder
        (folder / "archive").mkdir()
        self.files: dict[str, str] = {}
        self.schemas: dict[str, TableSchema] = {}
        for kind, names in (("plain", ("wide", "narrow", "t", "pair")), ("compressed", ("wide", "narrow"))):
            self.files[kind] = self._copied(session, kind)
            self._read_schemas(session.server, names)

    def _read_schemas(self, server: DatabaseServer, names: tuple[str, ...]) -> None:
        server.create_database(DB)  # it is there; the user may read it then
        url = ConnectionUrl.from_parts("mysql", server.host, server.port, server.user, server.password, DB).render()
        with closing(open_source(SourceConfig(kind=SourceKind(server.name.lower()), connection="x"), url)) as source:
            self.schemas |= {name: wide(source.schema(TableName(schema=DB, name=name))) for name in names}

    def _copied(self, session: Session, kind: str) -> str:  # noqa: F811
        scope = "GLOBAL log_bin_compress" if session.server.name == "MariaDB" else "SESSION binlog_transaction_compression"
        session.run(f"DROP DATABASE IF EXISTS {DB}", f"CREATE DATABASE {DB} CHARACTER SET utf8mb4", f"USE {DB}")
        session.run(f"SET {scope} = {'ON' if kind == 'compressed' else 'OFF'}")
        session.begin_file()
        fill_wide(session)
        fill_narrow(session)
        if kind == "plain":
            fill_partly_undone(session)
            fill_pair(session)
        session.run("UPDATE narrow SET id = -id WHERE id < 40", "UPDATE narrow SET i = 'once' WHERE id = 101")
        file = session.end_file()
        session.run(f"SET {scope} = OFF")
        shutil.copyfile(file, self.folder / "archive" / file.name)
        return file.name

    def operation(self, name: str, *kinds: str, **log_parts: Any) -> Operation:
        url = str(self.folder / "archive")
        rules = ArchiveConfig.of(url=url, format="mysql-binlog", layout="binlog", min_file_age=timedelta(0), decoder=Decoder.AUTO)
        paths = [self.files[kind] for kind in kinds]
        with closing(open_archive(url, {})) as archive:
            listed = archive.stat(paths)
        log = LogBatch(
            archive=rules, url=url, files=tuple(listed[path] for path in paths), before=ArchiveWatermark(streams=()), **log_parts
        )
        base = make_operation(1, table=TableName(schema=DB, name=name))
        return with_fields(base, schema=self.schemas[name], log=log, staging=str(self.folder / "staging" / name))


def log_of(operation: Operation, decoder: Decoder = Decoder.AUTO) -> LogBatch:
    log: Any = operation.read
    return replace(log.batch, archive=replace(log.batch.archive, decoder=decoder))


@pytest.fixture(scope="module")
def binlogs(session: Session, tmp_path_factory: pytest.TempPathFactory) -> Binlogs:  # noqa: F811
    return Binlogs(session, tmp_path_factory.mktemp("binlogs"))


def shown(feed: DataFrame) -> list[str]:
    """What a feed says of each record, whatever its number is."""
    names = ("kind", "op", "key", "previous_key", "after", "present", "nulled", "unmapped", "position", "reason", "ddl")
    return sorted(json.dumps(row.asDict(recursive=True), default=repr, sort_keys=True) for row in feed.select(*names).collect())


def assert_same(found: list[str], expected: list[str]) -> None:
    """Compares what may be thousands of texts, and shows the first that differ."""
    assert len(expected) > 5
    assert (sorted(set(found) - set(expected))[:2], sorted(set(expected) - set(found))[:2]) == ([], [])
    assert found == expected


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        *(("wide", "plain"), ("narrow", "compressed"), ("t", "plain")),
        *(pytest.param(*case, marks=pytest.mark.long) for case in (("wide", "compressed"), ("narrow", "plain"))),
    ],
)
def test_rows_by_kernels_and_the_records_that_they_leave_are_the_feed_of_all_records(
    spark: SparkSession, binlogs: Binlogs, name: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opening, "folds_in_workers", lambda _: False)  # each row comes out then, not only the last of its key
    operation = binlogs.operation(name, kind)
    log, spec = log_of(operation), open_format("mysql-binlog")
    keys, own = operation.apply.keys, sibling_session(spark)

    def feed(envelopes: DataFrame) -> DataFrame:
        return canonical_feed(spec, records_of(envelopes, operation.table), operation.full_schema, keys, chosen_format(log), before=False)

    with closing(open_archive(log.url, {})) as archive:
        exact = feed(open_alone(own, log_of(operation, Decoder.EXACT), archive).envelopes(lambda found: found))
    lane = opening.open_plain(own, operation, log, "look", print)
    assert lane is not None
    left = feed(lane.counted(log).envelopes(lambda found: found))
    both = left.unionByName(lane.feed(lane.scans, exact))
    assert_same(shown(both), shown(exact))
    plain, marked = lane.events(lane.scans), lane.marked(lane.scans)
    assert plain + marked == exact.count()
    expected = {"wide": (5, 20), "narrow": (2 * NARROW_ROWS, 30), "t": (0, 10)}[name]
    assert plain >= expected[0], (plain, marked)
    assert marked >= expected[1], (plain, marked)


def landed(spark: SparkSession, operation: Operation, decoder: Decoder, readings: SharedScans | None = None) -> tuple[Any, ...]:
    """What an operation comes to by a decoder; or its error."""
    log = log_of(operation, decoder)
    own = with_fields(operation, log=log, staging=f"{operation.target.staging}-{decoder}")
    policy = OnUnknownTable.QUARANTINE if log.unknown == "set aside" else OnUnknownTable.IGNORE
    readings = readings or SharedScans(spark, (), "app", print, KnownTables(entries=(f"{DB}.narrow",), policy=policy))
    at_once = sibling_session(spark)
    try:
        manifest = land_events(at_once, own, log, "try", readings)
    except CdcError as error:
        return type(error), str(error)
    bad = []
    if Path(feed_folder(own, manifest.attempt)).exists():
        feed = at_once.read.parquet(feed_folder(own, manifest.attempt)).where(F.col("raw").isNotNull())
        bad = sorted(tuple(row) for row in feed.select("file", "line", "reason", "raw").collect())
    rows = sorted(map(str, at_once.read.parquet(f"{own.target.staging}/{manifest.attempt}").collect()))
    return facts_of(manifest), rows, bad


@pytest.mark.parametrize("unknown", [pytest.param("elsewhere", marks=pytest.mark.long), "set aside"])
def test_an_operation_lands_the_same_by_both_decoders_whatever_is_done_about_unknown_tables(
    spark: SparkSession, binlogs: Binlogs, unknown: str
) -> None:
    operation = binlogs.operation("narrow", "plain", unknown=unknown, quarantine="somewhere")
    exact = landed(spark, operation, Decoder.EXACT)
    assert landed(spark, operation, Decoder.AUTO) == exact
    facts, rows, _ = exact
    assert len(rows) > NARROW_ROWS
    assert bool(facts[0].unknown.tables) == bool(unknown)


@pytest.mark.parametrize(
    ("name", "bad", "quarantine"), [("wide", 2, ""), pytest.param("wide", 2, "somewhere", marks=pytest.mark.long), ("pair", 1, "somewhere")]
)
def test_rows_that_cannot_be_read_are_told_and_set_aside_alike_by_both_decoders(
    spark: SparkSession, binlogs: Binlogs, name: str, bad: int, quarantine: str
) -> None:
    operation = binlogs.operation(name, "plain", quarantine=quarantine)
    found = landed(spark, operation, Decoder.EXACT)
    assert landed(spark, operation, Decoder.AUTO) == found
    assert len(found[2]) >= bad if quarantine else issubclass(found[0], BadRecordsError), "images lack columns"


def test_tables_of_one_archive_are_decoded_together_and_come_to_what_they_come_to_alone(spark: SparkSession, binlogs: Binlogs) -> None:
    operations = [binlogs.operation(name, "plain", quarantine="somewhere") for name in ("narrow", "t")]
    alone = [landed(spark, operation, Decoder.AUTO) for operation in operations]
    together = [with_fields(one, staging=f"{one.target.staging}-together") for one in operations]
    said: list[str] = []
    own = [with_fields(one, log=log_of(one), staging=f"{one.target.staging}-auto") for one in together]
    readings = SharedScans(spark, own, "app", said.append)
    assert [landed(spark, operation, Decoder.AUTO, readings) for operation in together] == alone
    readings.close()
    assert [line for line in said if line != FIRST_TIME] == [f"{log_of(own[0]).url}: 1 files are decoded once for 2 tables"]


def test_a_table_of_which_most_rows_are_not_plain_is_left_and_its_neighbours_are_not(
    binlogs: Binlogs, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(binlog_scan, "_MANY_LEFT", 10)
    operations = [with_fields(binlogs.operation(name, "plain"), staging=str(tmp_path / name)) for name in ("wide", "narrow")]
    requests = [opening.LaneRequest(operation=one, log=log_of(one), attempt="try") for one in operations]
    tasks = [opening._task(request, None) for request in requests]
    for name in ("wide", "narrow"):
        (tmp_path / name / "try-plain").mkdir(parents=True)
    wanted = [file for number, request in enumerate(requests) for file in opening._files(request.log, number)]
    wide_scan, narrow_scan = binlog_scan.scan_binlog(tasks, wanted)
    assert wide_scan.failure.startswith("most of its rows have values that the decoder does not take")
    assert (wide_scan.plain, list((tmp_path / "wide" / "try-plain").iterdir())) == ((), [])
    assert narrow_scan.failure == ""
    assert narrow_scan.seen.events > NARROW_ROWS
