"""Binlogs of real servers come to the same by kernels with the reference decoder and by that alone: rows, what is landed, errors."""

import shutil
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from cdc_ops.archives.registry import open_archive
from cdc_ops.core.archive.watermarks import ArchiveWatermark
from cdc_ops.core.events.format_spec import FormatOptions
from cdc_ops.core.operation.log_batch import LogBatch
from cdc_ops.core.operation.operation import Operation
from cdc_ops.core.pipeline.archive_config import ArchiveConfig, OnUnknownTable
from cdc_ops.core.pipeline.connections import ConnectionUrl
from cdc_ops.core.pipeline.pipeline import SourceConfig, SourceKind
from cdc_ops.core.pipeline.tables.unknown_tables import KnownTables
from cdc_ops.core.schema.server_types.mysql_types import is_unsigned_bigint
from cdc_ops.core.schema.server_types.unsigned_bigints import WIDE
from cdc_ops.core.schema.tables import TableName, TableSchema
from cdc_ops.dev.servers import DatabaseServer
from cdc_ops.errors import BadRecordsError
from cdc_ops.events.scan import binlog, fast_binlog
from cdc_ops.events.scan.tables import TableScan
from cdc_ops.sources.base import open_source
from cdc_ops.steps.log.shared_scan import SharedScans
from tests.events.both_decoders import BothDecoders
from tests.events.scanned import Scans
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
from tests.spark.test_shared_reading import landed
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
        rules = ArchiveConfig.of(url=url, format="mysql-binlog", layout="binlog", min_file_age=timedelta(0))
        paths = [self.files[kind] for kind in kinds]
        with closing(open_archive(url, {})) as archive:
            listed = archive.stat(paths)
        log = LogBatch(
            archive=rules, url=url, files=tuple(listed[path] for path in paths), before=ArchiveWatermark(streams=()), **log_parts
        )
        base = make_operation(1, table=TableName(schema=DB, name=name))
        return with_fields(base, schema=self.schemas[name], log=log, staging=str(self.folder / "staging" / name))


@pytest.fixture(scope="module")
def binlogs(session: Session, tmp_path_factory: pytest.TempPathFactory) -> Binlogs:  # noqa: F811
    return Binlogs(session, tmp_path_factory.mktemp("binlogs"))


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        *(("wide", "plain"), ("narrow", "compressed"), ("t", "plain")),
        *(pytest.param(*case, marks=pytest.mark.long) for case in (("wide", "compressed"), ("narrow", "plain"))),
    ],
)
def test_rows_by_kernels_and_the_records_that_they_leave_are_the_feed_of_all_records(
    binlogs: Binlogs, name: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    both = BothDecoders(binlogs.folder, monkeypatch)
    mixed, exact = both.read(binlogs.files[kind], binlogs.schemas[name], make_operation(1).apply.keys)
    assert (mixed.facts, mixed.feed) == (exact.facts, exact.feed)
    assert (sorted({*mixed.changes} - {*exact.changes})[:2], sorted({*exact.changes} - {*mixed.changes})[:2]) == ([], [])
    assert mixed == exact
    left = exact.facts.events + exact.facts.bad - both.by_kernels
    expected = {"wide": (5, 20), "narrow": (2 * NARROW_ROWS, 30), "t": (0, 5)}[name]
    assert both.by_kernels >= expected[0], (both.by_kernels, left)
    assert left >= expected[1], (both.by_kernels, left)


@contextmanager
def small_files(size: int) -> Iterator[None]:
    """Files below so many bytes are read by the reference decoder alone."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(binlog, "SMALL", size)
        yield


def landed_by(spark: SparkSession, operation: Operation, way: str, readings: SharedScans | None = None) -> tuple[Any, ...]:
    """What an operation comes to by `kernels`, or the `reference` decoder; or its error."""
    own = with_fields(operation, staging=f"{operation.target.staging}-{way}")
    log: Any = operation.read
    policy = OnUnknownTable.QUARANTINE if log.batch.unknown == "set aside" else OnUnknownTable.IGNORE
    readings = readings or SharedScans(spark, (), "app", KnownTables(entries=(f"{DB}.narrow",), policy=policy))
    with small_files({"kernels": 0, "reference": 2**63}[way]):
        return landed(spark, own, readings)


@pytest.mark.parametrize("unknown", [pytest.param("elsewhere", marks=pytest.mark.long), "set aside"])
def test_an_operation_lands_the_same_by_both_decoders_whatever_is_done_about_unknown_tables(
    spark: SparkSession, binlogs: Binlogs, unknown: str
) -> None:
    operation = binlogs.operation("narrow", "plain", unknown=unknown, quarantine="somewhere")
    exact = landed_by(spark, operation, "reference")
    assert landed_by(spark, operation, "kernels") == exact
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
    found = landed_by(spark, operation, "reference")
    assert landed_by(spark, operation, "kernels") == found
    assert len(found[2]) >= bad if quarantine else issubclass(found[0], BadRecordsError), "images lack columns"


def test_tables_of_one_archive_are_decoded_together_and_come_to_what_they_come_to_alone(
    spark: SparkSession, binlogs: Binlogs, caplog: pytest.LogCaptureFixture
) -> None:
    operations = [binlogs.operation(name, "plain", quarantine="somewhere") for name in ("narrow", "t")]
    alone = [landed_by(spark, operation, "kernels") for operation in operations]
    together = [with_fields(one, staging=f"{one.target.staging}-together") for one in operations]
    own = [with_fields(one, staging=f"{one.target.staging}-kernels") for one in together]
    readings = SharedScans(spark, own, "app")
    assert [landed_by(spark, operation, "kernels", readings) for operation in together] == alone
    readings.close()
    assert caplog.messages == [f"{binlogs.folder}/archive: 1 files are read once for 2 tables"]


def test_a_table_of_which_most_rows_are_not_plain_is_left_and_its_neighbours_are_not(
    binlogs: Binlogs, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: dict[str, int] = {}
    add = TableScan.add_plain

    def counted(scan: TableScan, changes: Any, moments: Any) -> None:
        taken[scan.name[1]] = taken.get(scan.name[1], 0) + changes.num_rows
        add(scan, changes, moments)

    monkeypatch.setattr(TableScan, "add_plain", counted)
    monkeypatch.setattr(fast_binlog, "_MANY_LEFT", 10)
    scans = Scans(binlogs.folder, FormatOptions(name="mysql-binlog"))
    keys = make_operation(1).apply.keys
    with small_files(0):
        wide, narrow = scans.read(binlogs.files["plain"], *(scans.task(binlogs.schemas[name], keys) for name in ("wide", "narrow")))
    assert (wide.failure, narrow.failure) == ((), ())
    assert taken.keys() == {"narrow"}
    assert taken["narrow"] > NARROW_ROWS
    assert wide.found.events > 20
