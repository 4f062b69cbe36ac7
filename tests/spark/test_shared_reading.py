"""Operations whose records are in the files of one folder: read once, and each comes to what it comes to alone, whoever reads."""

import json
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from cdc_ops.archives.registry import open_archive
from cdc_ops.core.archive.watermarks import ArchiveWatermark, PartitionWatermark
from cdc_ops.core.operation.log_batch import LogBatch
from cdc_ops.core.operation.operation import Operation
from cdc_ops.core.operation.reads import ArchiveRead
from cdc_ops.core.operation.results import Manifest
from cdc_ops.core.pipeline.archive_config import ArchiveConfig, OnUnknownTable
from cdc_ops.core.pipeline.tables.unknown_tables import NONE_UNKNOWN, KnownTables, UnknownTable, UnknownTables
from cdc_ops.core.schema.tables import TableName
from cdc_ops.errors import ArchiveChangedError, ArchiveFileError, ArchiveGapError, CdcError, TiedEventsError, UnknownTablesError
from cdc_ops.events.scan.request import FileTasks
from cdc_ops.events.scan.scan import scan_file
from cdc_ops.steps.log import land_folds, scanned_files
from cdc_ops.steps.log.land_events import feed_folder, land_events
from cdc_ops.steps.log.shared_scan import SharedScans
from cdc_ops.steps.stage import executors
from tests.events.scanned import DEBEZIUM, event
from tests.operations import with_fields
from tests.state_values import make_operation
from tests.unit.test_events import column

STREAM = "all/0"
RULES = ArchiveConfig.of(format=DEBEZIUM.name, settings=tuple(DEBEZIUM.settings.items()), accept_losses=DEBEZIUM.accept_losses)


class Folder:
    """A folder with one topic in one partition, and operations that read it."""

    def __init__(self, root: Path) -> None:
        self.root, self.offset, self.paths = root, 0, list[str]()

    def write(self, *records: str) -> None:
        """Writes the next file."""
        name = f"all/partition=0/all+0+{self.offset:010}.json"
        (self.root / "archive" / name).parent.mkdir(parents=True, exist_ok=True)
        (self.root / "archive" / name).write_text("".join(f"{record}\n" for record in records), encoding="utf-8")
        self.offset += len(records)
        self.paths.append(name)

    def operation(self, name: str, *files: int, reached: int | None = None, **log_parts: Any) -> Operation:
        """An operation of a table that reads some of the files and has what lies below an offset."""
        url = str(self.root / "archive")
        with closing(open_archive(url, {})) as archive:
            listed = archive.stat(self.paths[index] for index in files)
        streams = () if reached is None else (PartitionWatermark(stream=STREAM, to=(reached,)),)
        log = LogBatch(
            archive=replace(RULES, url=url),
            url=url,
            files=tuple(listed[self.paths[index]] for index in files),
            before=ArchiveWatermark(streams=streams),
            quarantine="somewhere",
            **log_parts,
        )
        base = make_operation(1, table=TableName(schema="shop", name=name))
        columns = (column("id", "int"), column("c0", "varchar(20)"))
        schema = replace(base.source.schema, columns=columns)
        return with_fields(base, schema=schema, log=log, staging=str(self.root / "staging" / name))


def landed(spark: SparkSession, operation: Operation, readings: SharedScans, *, alone: bool = False) -> tuple[Any, ...]:
    """What an operation comes to: what its manifest says, its rows, and the bad records of its feed; or its error."""
    assert isinstance(operation.read, ArchiveRead)
    own = with_fields(operation, staging=f"{operation.target.staging}-alone") if alone else operation
    session, attempt = spark.newSession(), f"try-{uuid4().hex}"
    try:
        manifest = land_events(session, own, operation.read.batch, attempt, readings)
    except CdcError as error:
        return type(error), str(error)
    bad = []
    if list(Path(feed_folder(own, attempt)).glob("*.parquet")):
        feed = session.read.parquet(feed_folder(own, attempt)).where(F.col("raw").isNotNull())
        bad = sorted(tuple(row) for row in feed.select("file", "line", "reason", "raw").collect())
    rows = sorted(map(str, session.read.parquet(f"{own.target.staging}/{attempt}").collect()))
    return facts_of(manifest), rows, bad


def facts_of(manifest: Manifest) -> tuple[Any, ...]:
    assert manifest.log is not None
    return manifest.log, manifest.landed.rows, manifest.key_ranges, manifest.null_keys, manifest.nulled


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The paths of files that are opened."""
    seen: list[str] = []

    def noted(tasks: Any, wanted: FileTasks) -> Any:
        seen.append(wanted.path)
        return scan_file(tasks, wanted)

    monkeypatch.setattr("cdc_ops.steps.log.scanned_files.scan_file", noted)
    return seen


def by_tasks(patch: pytest.MonkeyPatch) -> None:
    """Lets tasks of Spark read and fold files, however small they are."""
    for module in (scanned_files, land_folds):
        patch.setattr(module, "_HERE", -1)
    patch.setattr(scanned_files, "_HERE_OF_MANY", -1)


def test_tables_of_a_folder_are_read_once_and_come_to_what_they_come_to_alone(
    spark: SparkSession, tmp_path: Path, opened: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    folder = Folder(tmp_path)
    folder.write(*(event(table, 10 * n, n) for n in (1, 2) for table in "abc"), "null", '{"op": "x"}', event("other", 25, 1))
    twice = event("b", 36, 3).replace('"c0": "x"', '"c0": "x", "c0": "y"')
    folder.write(event("a", 30, 1, "A"), event("b", 35, 2, op="d"), twice, "garbage", event("c", 40, 2, "C"))
    folder.write(event("a", 50, 3), event("b", 55, 2, "B"), event("c", 60, 3).replace('"id": 3', '"id": "three"'), event("d", 65, 1))
    operations = [
        # It has the first records of a file that was uploaded again, and looks after records of unknown tables.
        folder.operation("b", 0, 1, 2, reached=4, unknown="elsewhere"),
        folder.operation("c", 0, 2),  # what is behind its gap is counted, and not read
        folder.operation("gap", 2, reached=9),  # nothing of it lies before a gap
        folder.operation("changed", 0, 1),
    ]
    [*others, changed] = operations
    assert isinstance(changed.read, ArchiveRead)
    grown = tuple(replace(file, size=file.size + 1) for file in changed.read.batch.files)
    operations = [*others, with_fields(changed, log=replace(changed.read.batch, files=grown))]
    known = KnownTables(entries=("shop.[abc]", "shop.gap", "shop.changed", "shop.d?"), policy=OnUnknownTable.QUARANTINE)
    readings = SharedScans(spark, operations, "app", known)
    with ThreadPoolExecutor(2) as pool:
        together = list(pool.map(lambda one: landed(spark, one, readings), operations))
    assert sorted(opened) == folder.paths
    assert caplog.messages == [f"{tmp_path}/archive: 3 files are read once for 3 tables"]
    readings.close()
    with ThreadPoolExecutor(2) as pool:
        nobody = SharedScans(spark, (), "app", known)
        alone = list(pool.map(lambda one: landed(spark, one, nobody, alone=True), operations))
    assert together == alone
    assert [found[0] for found in together[-2:]] == [ArchiveGapError, ArchiveChangedError]
    assert [len(found[1]) for found in together[:2]] == [1, 2]
    assert [[line for _, line, _, _ in found[2]] for found in together[:2]] == [[7, 8, 2, 3, 3], [7]]
    unknown = UnknownTables(shown=(UnknownTable(name="shop.d", records=1), UnknownTable(name="shop.other", records=1)), tables=2, records=2)
    assert [found[0][0].unknown for found in together[:2]] == [unknown, NONE_UNKNOWN]
    assert [found[0][0].counts.quarantined for found in together[:2]] == [5, 1]
    assert together[0][2][1][2:] == ("the record is of table shop.other, which the pipeline file does not name", event("other", 25, 1))
    # What is landed already needs no reading; who is left over reads for himself.
    later = SharedScans(spark, operations[:2], "again")
    assert later.take(operations[0]) is None


def test_what_was_read_for_a_table_that_does_not_take_it_is_removed(spark: SparkSession, tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    folder.write(event("a", 10, 1), event("b", 20, 1))
    operations = [folder.operation(name, 0) for name in "ab"]
    readings = SharedScans(spark, operations, "app")
    taken = readings.take(operations[0])
    assert taken is not None
    left = tmp_path / "staging" / "b"
    assert list(left.rglob("part-changes-*"))
    readings.close()
    assert not list(left.rglob("part-changes-*"))
    assert list((tmp_path / "staging" / "a").rglob("part-changes-*"))  # whoever took it removes it


def fill(folder: Folder) -> Operation:
    """Two files with events of all kinds, lines that are none, and a TRUNCATE."""
    folder.write(*(event("a", 10 * n, n % 30) for n in range(1, 60)), "null", event("other", 25, 1), "garbage", '{"op": "x"}')
    moved = json.dumps({**json.loads(event("a", 903, 31, op="u")), "before": {"id": 3, "c0": "x"}})
    partial = json.dumps({**json.loads(event("a", 904, 4, op="u")), "after": {"id": 4}})
    folder.write(event("a", 900, 1, "one", op="u"), event("a", 902, 2, op="d"), moved, partial, "", event("a", 5, 32, "late"))
    return folder.operation("a", 0, 1)


def test_tasks_of_spark_land_what_this_process_lands(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = Folder(tmp_path)
    operation = fill(folder)
    truncate = json.dumps({**json.loads(event("a", 905, 0)), "op": "t", "before": None, "after": None})
    folder.write(truncate, event("a", 906, 7, "new"))
    nobody, emptied = SharedScans(spark, (), "app"), folder.operation("a", 0, 1, 2)
    here = [landed(spark, one, nobody) for one in (operation, with_fields(emptied, staging=str(tmp_path / "emptied")))]
    by_tasks(monkeypatch)
    assert [landed(spark, one, nobody, alone=True) for one in (operation, with_fields(emptied, staging=str(tmp_path / "emptied")))] == here
    assert [len(found[1]) for found in here] == [32, 1]
    assert [line for _, line, _, _ in here[0][2]] == [61, 62]


@pytest.mark.parametrize("tasks", [False, True])
def test_rows_that_a_task_lands_twice_count_once(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tasks: bool) -> None:
    operation, land, twice = fill(Folder(tmp_path)), land_folds._landed, list[int]()
    nobody = SharedScans(spark, (), "app")
    once = landed(spark, operation, nobody)
    if tasks:
        by_tasks(monkeypatch)

    def landed_again(*arguments: Any) -> Any:
        twice.append(len(land(*arguments)))  # as a task does whose executor dies before it has answered
        return land(*arguments)

    monkeypatch.setattr(land_folds, "_landed", landed_again)
    assert landed(spark, operation, nobody, alone=True) == once
    assert sum(twice) >= 1


@pytest.mark.parametrize("tasks", [False, True])
def test_two_events_at_one_place_that_differ_are_refused_and_duplicates_are_not(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tasks: bool
) -> None:
    folder = Folder(tmp_path)
    folder.write(event("a", 10, 1, "x"), event("a", 10, 1, "x"), event("a", 11, 2))
    folder.paths = ["plain.json"]  # without an offset of its own, which would order them
    archived = tmp_path / "archive" / "plain.json"
    nobody = SharedScans(spark, (), "app")
    if tasks:
        by_tasks(monkeypatch)
    archived.write_text("\n".join((event("a", 10, 1, "x"), event("a", 10, 1, "x"), event("a", 11, 2))))
    assert len(landed(spark, folder.operation("a", 0), nobody)[1]) == 2
    archived.write_text("\n".join((event("a", 10, 1, "x"), event("a", 10, 1, "y"), event("a", 11, 2))))
    error, told = landed(spark, folder.operation("a", 0), nobody, alone=True)
    assert error is TiedEventsError
    assert "Events of shop.a have no total order: key " in told


def test_executors_that_cannot_read_leave_all_to_this_process_and_the_run_says_so(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    operation = fill(Folder(tmp_path))
    nobody = SharedScans(spark, (), "app")
    expected = landed(spark, operation, nobody)
    by_tasks(monkeypatch)
    monkeypatch.setattr(executors, "why_not", lambda _: "of Spark's executors: no module named msgspec")
    assert landed(spark, operation, nobody, alone=True) == expected
    assert caplog.messages == [
        f"{tmp_path}/archive: this process reads all files, because Spark's executors cannot: of Spark's executors: no module named msgspec"
    ]


def test_unknown_tables_stop_those_whose_own_files_have_them(spark: SparkSession, tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    folder.write(event("a", 10, 1), event("b", 20, 1), event("Other", 30, 1), event("tmp_1", 40, 1), event("tmp_1", 50, 1))
    folder.write(event("a", 60, 2), event("b", 70, 2))
    operations = [folder.operation("a", 0, 1), folder.operation("b", 1, reached=5)]
    known = KnownTables(entries=("shop.a", "shop.b", "shop.other"), policy=OnUnknownTable.FAIL)
    readings = SharedScans(spark, operations, "app", known)
    stopped, goes_on = (landed(spark, one, readings) for one in operations)
    assert stopped[0] is UnknownTablesError
    assert "2 of shop.tmp_1, 1 of shop.Other (the pipeline file has 'shop.other'; upper and lower case count)" in stopped[1]
    assert goes_on[0][1] == 1


def test_a_file_that_cannot_be_read_stops_all_tables_of_its_folder_by_the_same_words(spark: SparkSession, tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    folder.write(event("a", 10, 1), event("b", 20, 1))
    name = folder.paths[0] + ".lz4"
    (tmp_path / "archive" / name).write_text("…")
    folder.paths[0] = name
    operations = [folder.operation("a", 0), folder.operation("b", 0)]
    readings = SharedScans(spark, operations, "app")
    first, second = (landed(spark, one, readings) for one in operations)
    assert first == second
    assert first[0] is ArchiveFileError
