"""The log method from end to end: archived change events of real formats -> Delta, with the archive's watermark in each commit."""

import itertools
import json
from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from cdc_ops.core.archive.file_names import Layout
from cdc_ops.core.operation.job import JobSpec, StepResult
from cdc_ops.core.operation.operation import Operation
from cdc_ops.core.operation.results import Outcome
from cdc_ops.core.operation.run_request import ResyncMode, RunKind
from cdc_ops.core.pipeline.archive_config import ArchiveConfig, InitialLoad, OnBadRecord, OnGap
from cdc_ops.core.pipeline.table_settings import Method
from cdc_ops.core.pipeline.tables.paths import quarantine_path, quarantine_root
from cdc_ops.dev.servers import MariaDBServer
from cdc_ops.errors import ArchiveError, ArchiveGapError, BadRecordsError, IncompleteRowError, JobLostError, StateError
from cdc_ops.lake.quarantine.read import quarantined_tables, read_quarantine
from cdc_ops.state.sql import open_store
from cdc_ops.steps.discovery import discover
from cdc_ops.steps.recover import rebuild_table
from cdc_ops.steps.runs.run import RunReport
from tests.operations import with_fields
from tests.stores import place
from tests.world import World, request

ITEMS = "CREATE TABLE items (id INT PRIMARY KEY, name VARCHAR(20), price DECIMAL(8,2))"


class Sink:
    """Writes files as Kafka Connect's S3 sink names them, one topic per table, one partition."""

    def __init__(self, root: Path, database: str, table: str) -> None:
        self.topic = f"{database}.{table}"
        self.folder = place(root) / self.topic / "partition=0"
        self.folder.mkdir(parents=True, exist_ok=True)
        self.offset = 0

    def write(self, *records: Mapping[str, Any] | str) -> Any:
        """Writes the next file."""
        path = self.path(self.offset)
        lines = (record if isinstance(record, str) else json.dumps(record) for record in records)
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        self.offset += len(records)
        return path

    def path(self, offset: int) -> Any:
        """Where the file that begins with an offset is."""
        return self.folder / f"{self.topic}+0+{offset:010}.json"


def change(op: str, pos: int, *, before: Any = None, after: Any = None, table: str = "items", database: str) -> dict[str, Any]:
    """A record of Debezium's, without schemas."""
    source = {"db": database, "table": table, "file": "bin.000003", "pos": pos, "row": 0, "ts_ms": 1700000000000 + pos, "snapshot": "false"}
    return {"op": op, "before": before, "after": after, "source": source, "ts_ms": 1700000000000 + pos}


def log_world(server: MariaDBServer, folder: Path, spark: SparkSession, kind: str = "debezium-mysql", **archive: Any) -> World:
    """A world whose tables are fed from an archive in `folder/archive`, a folder per table."""
    world = World(server, folder, spark)
    world.configure(method=Method.LOG, cursor=())
    settings = {
        "decimal.handling.mode": "string",
        "skipped.operations": "none",
        "event.converting.failure.handling.mode": "fail",
        "enable.time.adjuster": "false",
        "converter.replace.null.with.default": "false",
        "schemas.enable": "false",
        "time.precision.mode": "adaptive_time_microseconds",
        "binary.handling.mode": "bytes",
    }
    config = ArchiveConfig.of(
        url=str(place(folder) / "archive" / "{schema}.{table}"),
        format=kind,
        settings=tuple(sorted(settings.items())) if kind == "debezium-mysql" else (),
        accept_losses=("schemas.enable=false",) if kind == "debezium-mysql" else (),
        min_file_age=timedelta(0),
        **archive,
    )
    world.pipeline = replace(world.pipeline, archive=config)
    return world


def only_error(report: RunReport) -> Exception:
    [failure] = report.failures
    return failure.error


def open_gaps(world: World) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """What `cdc-ops gap list` shows."""
    with closing(open_store(world.ledger)) as store:
        return [(record.gap.low, record.gap.high) for record in store.archive_gaps("shop")]


def counts(report: RunReport) -> tuple[int, int, int]:
    assert not report.failures, [str(failure.error) for failure in report.failures]
    [run] = report.runs
    return run.result.counts.inserted, run.result.counts.updated, run.result.counts.deleted


def test_the_worked_example_of_dts_ends_as_documented_in_one_merge(mariadb: MariaDBServer, spark: SparkSession, tmp_path: Path) -> None:
    world = log_world(mariadb, tmp_path, spark, "dts-json", time_zone="+08:00")
    world.sql("CREATE TABLE sales (id BIGINT PRIMARY KEY, date DATE, name VARCHAR(32), sales DOUBLE)")

    def event(number: int, kind: str, before: Any, after: Any) -> dict[str, Any]:
        return {
            "recordID": number,
            "source": json.dumps({"sourceType": "MySQL", "version": "0.0.0.0"}),
            "dbTable": f"{world.database}.sales",
            "recordType": kind,
            "recordTimestamp": "2019-11-14 10:00:00",
            "extraTags": "{}",
            "fields": json.dumps(["id", "date", "name", "sales"]),
            "beforeImages": json.dumps(before or {}),
            "afterImages": json.dumps(after or {}),
        }

    def row(number: int, date: str, name: str, sales: str) -> dict[str, str]:
        return {"id": str(number), "date": date, "name": name, "sales": sales}

    one, two = row(1, "2019-11-11", "Robert", "323.0"), row(2, "2019-11-11", "Lee", "500.0")
    first = [one, two, row(3, "2019-11-12", "Robert", "136.0"), row(4, "2019-11-13", "Lee", "211.0")]
    sink = Sink(tmp_path / "archive", world.database, "sales")
    sink.write(*(event(number, "INIT", None, image) for number, image in enumerate(first, 1)))
    sink.write(
        event(5, "DELETE", one, None),
        event(6, "UPDATE", two, {**two, "sales": "150.0"}),
        event(7, "UPDATE", {**two, "sales": "150.0"}, {**two, "sales": "175.0"}),
        event(8, "INSERT", None, row(5, "2019-11-14", "Robert", "233.0")),
    )
    assert counts(world.run()) == (4, 0, 0)
    expected = [(2, "Lee", 175.0), (3, "Robert", 136.0), (4, "Lee", 211.0), (5, "Robert", 233.0)]
    assert world.lake("sales", "id, name, sales") == expected
    assert world.data_commits("sales") == [1]


def test_a_full_load_of_aws_dms_and_its_changes_end_as_the_table_is(mariadb: MariaDBServer, spark: SparkSession, tmp_path: Path) -> None:
    world = log_world(mariadb, tmp_path, spark, "aws-dms-csv", layout=Layout.AWS_DMS)
    settings = {"AR_H_CHANGE_SEQ": "seq", "add-before-image-columns": "pk-only", "AddColumnName": "true", "CsvNullValue": "\\N"}
    settings |= {"DataErrorPolicy": "SUSPEND_TABLE", "DataTruncationErrorPolicy": "SUSPEND_TABLE"}
    archive = world.pipeline.archive.changed(settings=tuple(settings.items()), accept_losses=("truncate=dropped",))
    world.pipeline = replace(world.pipeline, archive=archive)
    world.sql(ITEMS)
    folder = place(tmp_path) / "archive" / f"{world.database}.items"

    def write(name: str, text: str) -> None:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")

    write("LOAD00000001.csv", "id,name,price,seq,BI_id\n1,a,1.50,,\n2,b,2.50,,\n3,c,\\N,,\n")
    write("2024/01/01/20240101-120000000.csv", "Op,id,name,price,seq,BI_id\nU,1,two,2.00,2,1\nU,1,one,1.00,1,1\nD,2,\\N,\\N,3,\n")
    write("2024/01/02/20240102-120000000.csv", 'Op,id,name,price,seq,BI_id\nU,30,"x\ny",9.00,4,3\nI,4,,4.00,5,\n')
    assert counts(world.run()) == (3, 0, 0)
    assert world.lake("items", "id, name, CAST(price AS STRING)") == [(1, "two", "2.00"), (4, "", "4.00"), (30, "x\ny", "9.00")]


def test_events_are_followed_from_run_to_run_and_read_once(mariadb: MariaDBServer, spark: SparkSession, tmp_path: Path) -> None:
    world = log_world(mariadb, tmp_path, spark)
    world.sql(ITEMS)
    sink, db = Sink(tmp_path / "archive", world.database, "items"), world.database
    a, b, c = ({"id": n, "name": name, "price": f"{n}.50"} for n, name in ((1, "a"), (2, "b"), (3, "c")))
    sink.write(*(change("r", 100 + n, after=image, database=db) for n, image in enumerate((a, b, c))))
    report = world.run()
    assert counts(report) == (3, 0, 0)
    before, behind = ["plan", "listing", "counting", "landing", "fold"], ["merge", "statistics", "commit"]
    assert [item.phase.value for item in report.runs[0].timing.phases] == [*before, *behind]
    jobs = world.jobs
    report = world.run()
    assert counts(report) == (0, 0, 0)
    assert (world.jobs, world.data_commits("items")) == (jobs, [1])  # nothing new: no Spark, no commit
    moved = {**c, "id": 30}
    sink.write(
        change("u", 200, before=a, after={**a, "name": "A"}, database=db),
        change("d", 210, before=b, database=db),
        "null",  # the tombstone behind it
        change("d", 220, before=c, database=db),
        change("c", 220, after=moved, database=db) | {"source": {**change("c", 220, database=db)["source"], "row": 1}},
    )
    report = world.run()
    assert counts(report) == (1, 1, 2)
    assert [item.phase.value for item in report.runs[0].timing.phases] == [*before, *behind]  # a small batch: tasks have changed the rows
    assert world.lake("items", "id, name") == [(1, "A"), (30, "c")]
    sink.write(change("t", 300, database=db), change("c", 310, after={**a, "name": "anew"}, database=db))
    world.run()
    assert world.lake("items", "id, name, price") == [(1, "anew", a_price := world.lake("items", "price")[0][0])]
    assert str(a_price) == "1.50"
    state = world.state("items")
    assert state.progress.archive is not None
    assert state.progress.archive.position_of(f"{sink.topic}/0") == (sink.offset,)
    assert state.progress.fresh_at is not None
    assert state.progress.fresh_at.timestamp() == pytest.approx(1700000000.31)


def test_a_gap_stops_its_table_and_no_other_until_it_is_signed_off(mariadb: MariaDBServer, spark: SparkSession, tmp_path: Path) -> None:
    world = log_world(mariadb, tmp_path, spark)
    world.sql(ITEMS, ITEMS.replace("items", "others"))
    sink, db = Sink(tmp_path / "archive", world.database, "items"), world.database
    other = Sink(tmp_path / "archive", world.database, "others")
    sink.write(change("c", 100, after={"id": 1, "name": "a", "price": "1.00"}, database=db))
    lost = sink.write(change("c", 200, after={"id": 2, "name": "b", "price": "2.00"}, database=db))
    sink.write(change("c", 300, after={"id": 3, "name": "c", "price": "3.00"}, database=db))
    text = lost.read_text()
    lost.unlink()
    other.write(change("c", 100, after={"id": 9, "name": "x", "price": "9.00"}, table="others", database=db))
    met = world.run()
    assert not met.failures
    assert [run.waits_for_somebody for run in met.runs] == [True, False]  # which each run that meets a gap says itself
    assert any(f"{sink.topic}/0: 1 up to, not including, 2" in text for text in met.warnings)
    assert open_gaps(world) == [((1,), (2,))]
    assert (world.lake("items", "id"), world.lake("others", "id")) == ([(1,)], [(9,)])  # what lies before the gap is merged
    other.write(change("u", 200, after={"id": 9, "name": "y", "price": "9.00"}, table="others", database=db))
    error = only_error(world.run())
    assert isinstance(error, ArchiveGapError)
    assert f"{sink.topic}/0: 1 up to, not including, 2" in str(error)
    assert world.lake("others", "id, name") == [(9, "y")]
    store = open_store(world.ledger)
    [gap] = store.archive_gaps("shop")
    store.accept_gap("shop", gap.gap_id, who="somebody", why="the bucket was cleared")
    store.close()
    assert not world.run().failures
    assert open_gaps(world) == []
    assert world.lake("items", "id") == [(1,), (3,)]
    state = world.state("items")
    assert state.progress.archive is not None
    assert [item.why for item in state.progress.archive.accepted] == ["the bucket was cleared"]
    # The file comes after all: it lies below the watermark that somebody has signed.
    lost.write_text(text)
    assert not world.run().failures
    assert world.lake("items", "id") == [(1,), (3,)]


def test_a_gap_is_healed_by_a_comparison_with_the_source(mariadb: MariaDBServer, spark: SparkSession, tmp_path: Path) -> None:
    world = log_world(mariadb, tmp_path, spark, on_gap=OnGap.RECONCILE)
    world.configure(max_delete_ratio=1.0)
    world.sql(ITEMS)
    sink, db = Sink(tmp_path / "archive", world.database, "items"), world.database
    row = {n: {"id": n, "name": "first", "price": "1.00"} for n in range(1, 5)}
    sink.write(*(change("c", 100 + n, after=row[n], database=db) for n in (1, 2, 3)))
    lost = sink.write(
        change("u", 200, after=row[1] | {"name": "lost"}, database=db),
        change("d", 210, before=row[2], database=db),
        change("c", 220, after=row[4], database=db),
    )
    lost.unlink()
    sink.write(change("u", 300, after=row[3] | {"name": "behind"}, database=db))
    world.sql("INSERT INTO items VALUES (1, 'lost', 1.00), (3, 'behind', 1.00), (4, 'first', 1.00)")
    met = world.run()
    assert counts(met) == (3, 0, 0)  # what lies before the gap
    assert f"{sink.topic}/0: 3 up to, not including, 6" in met.runs[0].messages.alert
    assert not met.runs[0].waits_for_somebody
    assert open_gaps(world) == [((3,), (6,))]
    report = world.run()
    assert counts(report) == (1, 2, 1)
    assert f"{sink.topic}/0: 3 up to, not including, 6" in report.runs[0].messages.alert
    assert open_gaps(world) == []  # the comparison stands for it
    state = world.state("items").progress.archive
    assert state is not None
    assert [(one.who, one.low, one.high) for one in state.accepted] == [("on_gap: reconcile", (3,), (6,))]
    assert counts(world.run()) == (0, 1, 0)  # the event behind it
    assert world.lake("items", "id, name") == world.source("items", "id, name")
    # A gap behind which nothing differs is passed too, and a lost ledger knows it.
    sink.write(change("u", 400, after=row[1] | {"name": "lost"}, database=db)).unlink()
    sink.write(change("u", 500, after=row[1] | {"name": "lost"}, database=db))
    assert counts(world.run()) == (0, 0, 0)
    assert world.data_commits("items") == [1, 2, 3, 4]
    assert counts(world.run()) == (0, 1, 0)
    assert not world.run().failures


def test_what_cannot_be_read_exactly_stops_the_table_and_is_named(mariadb: MariaDBServer, spark: SparkSession, tmp_path: Path) -> None:
    world = log_world(mariadb, tmp_path, spark)
    world.sql(ITEMS)
    sink, db = Sink(tmp_path / "archive", world.database, "items"), world.database
    good = change("c", 100, after={"id": 1, "name": "a", "price": "1.00"}, database=db)
    path = sink.write(good, '{"op": "c", "after": {"id"', change("c", 300, after={"id": 3, "name": "c", "price": "1.005"}, database=db))
    error = only_error(world.run())
    assert isinstance(error, BadRecordsError)
    assert "2 records" in str(error)
    assert f"{path.name} line 2" in str(error)
    assert "'price'" in str(error)
    sink.offset = 0
    sink.write(good, good, good)  # repaired: the same events three times
    world.run()
    assert world.lake("items", "id") == [(1,)]


def test_with_a_quarantine_the_rest_is_merged_and_what_was_set_aside_is_there_as_it_came(
    mariadb: MariaDBServer, spark: SparkSession, tmp_path: Path
) -> None:
    world = log_world(mariadb, tmp_path, spark, bad_records=OnBadRecord.QUARANTINE)
    world.configure(renamed=(("label", "name"),))
    world.sql(ITEMS)
    sink, db = Sink(tmp_path / "archive", world.database, "items"), world.database
    good, bad = change("c", 100, after={"id": 1, "name": "a", "price": "1.00"}, database=db), '{"op": "c", "after": {"id"'
    path = sink.write(good, bad)

    def runs_twice_and_leaves_no_report(job: JobSpec) -> StepResult:
        result = [world.execute(job), world.execute(job)][0]
        return replace(result, tables=())

    report = world.run(execute_with=runs_twice_and_leaves_no_report)
    [run] = report.runs
    assert (report.failures, run.result.counts.quarantined) == ((), 1)
    assert "1 record is in quarantine" in run.messages.message
    assert any("quarantine list" in text for text in report.warnings)
    assert world.lake("items", "id") == [(1,)]
    place = quarantine_path(world.pipeline, world.name("items"))
    [record] = read_quarantine(place)
    assert (record.file.rpartition("/")[2], record.line, record.raw, record.op_seq) == (path.name, 1, bad.encode(), 1)
    assert "JSON" in record.reason
    assert spark.read.format("delta").load(place).count() == 1
    assert quarantined_tables(quarantine_root(world.pipeline)) == (world.name("items"),)
    sink.write(
        change("u", 150, after={"id": 1, "name": "old", "price": "1.005"}, database=db),
        change("u", 200, after={"id": 1, "name": "b", "price": "1.00"}, database=db),
        change("c", 300, after={"id": 3, "label": "c", "price": "1.005"}, database=db),
    )
    assert counts(world.run()) == (0, 1, 0)
    assert len(read_quarantine(place)) == 3
    world.sql("ALTER TABLE items MODIFY price DECIMAL(9,3)")
    sink.write(change("u", 250, after={"id": 1, "name": "b", "price": "1.00"}, database=db))
    assert counts(world.run()) == (0, 1, 0)

    def comes_under_a_number_that_is_taken_and_then_under_its_own(job: JobSpec) -> StepResult:
        others = (
            with_fields(operation, op_seq=3, operation_id="another", staging=f"{operation.target.staging}-another")
            for operation in job.operations
        )
        [told] = world.execute(replace(job, operations=tuple(others))).tables
        assert [one.outcome for one in told.operations] == [Outcome.NUMBER_TAKEN]
        assert len(read_quarantine(place)) == 3, "nothing of it was merged"
        return world.execute(job)

    # What could be read by now is merged in its order; what is bad still, stays.
    for expected, executed in (((1, 0, 0), comes_under_a_number_that_is_taken_and_then_under_its_own), ((0, 0, 0), None)):
        report = world.resync(ResyncMode.QUARANTINE, execute_with=executed)
        assert (counts(report), report.runs[0].result.counts.quarantined) == (expected, 1)
        assert [one.raw for one in read_quarantine(place)] == [bad.encode()]
    assert [(key, name, str(price)) for key, name, price in world.lake("items", "id, name, price")] == [
        (1, "b", "1.000"),
        (3, "c", "1.005"),
    ]
    sink.write(change("u", 400, after={"id": 1, "name": "last", "price": "1.00"}, database=db))
    assert counts(world.run()) == (0, 1, 0)


def test_columns_that_an_event_does_not_speak_of_keep_their_values(mariadb: MariaDBServer, spark: SparkSession, tmp_path: Path) -> None:
    world = log_world(mariadb, tmp_path, spark)
    world.sql(ITEMS)
    sink, db = Sink(tmp_path / "archive", world.database, "items"), world.database
    sink.write(*(change("c", 100 + n, after={"id": n, "name": "a", "price": "1.00"}, database=db) for n in (1, 2)))
    assert counts(world.run()) == (2, 0, 0)
    sink.write(change("u", 200, after={"id": 1, "name": "b"}, database=db), change("u", 201, after={"id": 2, "price": "2.00"}, database=db))
    assert counts(world.run()) == (0, 2, 0)
    found = world.lake("items", "id, name, price")
    assert [(number, name, str(price)) for number, name, price in found] == [(1, "b", "1.00"), (2, "a", "2.00")]
    sink.write(change("u", 300, after={"id": 7, "name": "z"}, database=db))
    error = only_error(world.run())
    assert isinstance(error, IncompleteRowError)
    assert "`id` = 7" in str(error)
    day = datetime(2026, 1, 1, tzinfo=UTC)
    refused = only_error(world.run(kind=RunKind.BACKFILL, since=day, until=day + timedelta(days=1)))
    assert "its changes come from events, which have no cursor" in str(refused)


def test_a_lost_ledger_and_files_that_come_twice_change_nothing(mariadb: MariaDBServer, spark: SparkSession, tmp_path: Path) -> None:
    world = log_world(mariadb, tmp_path, spark)
    world.sql(ITEMS)
    sink, db = Sink(tmp_path / "archive", world.database, "items"), world.database
    for pos, name in ((100, "a"), (200, "b"), (300, "c")):
        sink.write(change("c" if pos == 100 else "u", pos, after={"id": 1, "name": name, "price": "1.00"}, database=db))
    world.run()
    assert world.lake("items", "name") == [("c",)]
    (tmp_path / "ledger.db").unlink()
    report = world.run()
    assert "state rebuild" in str(only_error(report))
    context, source = world.context(), world._connect(world.pipeline.source)
    [config] = discover(world.pipeline, source, request())
    rebuild_table(context, request(), config)
    source.close()
    context.store.close()
    # An old event again, in a longer file than before, as a sink that restarted writes it.
    first = sink.path(0)
    first.write_text(first.read_text() + sink.path(1).read_text())
    sink.write(change("c", 400, after={"id": 2, "name": "new", "price": "1.00"}, database=db))
    report = world.run()
    assert not report.failures, [str(failure.error) for failure in report.failures]
    assert world.lake("items", "id, name") == [(1, "c"), (2, "new")]


@pytest.mark.long
def test_reconcile_and_resync_work_on_a_table_that_follows_a_log(mariadb: MariaDBServer, spark: SparkSession, tmp_path: Path) -> None:
    world = log_world(mariadb, tmp_path, spark)
    world.sql(ITEMS, "INSERT INTO items VALUES (1, 'a', 1.00), (2, 'b', 2.00)")
    sink, db = Sink(tmp_path / "archive", world.database, "items"), world.database
    sink.write(change("c", 100, after={"id": 1, "name": "a", "price": "1.00"}, database=db))
    world.run()
    reached = world.state("items").progress.archive
    report = world.run(kind=RunKind.RECONCILE)
    assert counts(report) == (1, 0, 0)
    assert world.lake("items", "id, name") == world.source("items", "id, name")
    assert world.state("items").progress.archive == reached
    sink.write(change("u", 200, after={"id": 2, "name": "bb", "price": "2.00"}, database=db))
    assert counts(world.run()) == (0, 1, 0)


def test_a_snapshot_hands_over_to_the_log_while_rows_change(mariadb: MariaDBServer, spark: SparkSession, tmp_path: Path) -> None:
    """Rows change before the snapshot, between its chunks, and after it; it is broken off once; events come when they come."""
    world = log_world(mariadb, tmp_path, spark, initial_load=InitialLoad.SNAPSHOT)
    world.configure(chunk_rows=2)
    world.sql(ITEMS, *(f"INSERT INTO items VALUES ({n}, 'old', {n}.00)" for n in range(1, 6)))
    (place(tmp_path) / "archive" / f"{world.database}.items").mkdir(parents=True)
    error = only_error(world.run())
    assert isinstance(error, ArchiveError)
    assert "no complete file" in str(error)
    sink, db = Sink(tmp_path / "archive", world.database, "items"), world.database
    positions = itertools.count(100)

    def row(number: int, name: str) -> dict[str, Any]:
        return {"id": number, "name": name, "price": f"{number}.00"}

    def event(op: str, number: int, name: str = "") -> dict[str, Any]:
        image = row(number, name)
        return change(op, next(positions), before=image if op == "d" else None, after=None if op == "d" else image, database=db)

    # An event from long ago, and one whose row the source has changed since: the next event of it is still to come.
    sink.write(event("u", 1, "older"))
    sink.write(event("u", 2, "old"), event("d", 9, "gone long since"))
    world.sql("UPDATE items SET name = 'new' WHERE id = 2", "DELETE FROM items WHERE id = 3")
    done: list[Operation] = []

    def stops_after_one_chunk(job: JobSpec) -> StepResult:
        done.extend(job.operations)
        result = world.execute(replace(job, operations=job.operations[:1]))
        world.sql("UPDATE items SET name = 'late' WHERE id = 1", "INSERT INTO items VALUES (6, 'born', 6.00), (7, 'short', 7.00)")
        return result

    assert isinstance(only_error(world.run(execute_with=stops_after_one_chunk)), JobLostError)
    assert len(done) > 1
    sink.write(event("u", 2, "new"), event("d", 3, "old"), event("u", 1, "late"), event("c", 6, "born"), event("c", 7, "short"))
    world.sql("DELETE FROM items WHERE id = 7", "DELETE FROM items WHERE id = 5")
    assert not world.run().failures
    assert world.state("items").progress.watermark is not None
    begun = world.state("items").progress.archive
    assert begun is not None
    assert begun.position_of(f"{sink.topic}/0") == (1,)  # where the archive was before the first chunk, not when it was finished
    sink.write(event("d", 7, "short"), event("d", 5, "old"))
    assert not world.run().failures
    assert world.lake("items", "id, name") == world.source("items", "id, name")


def test_a_table_that_was_read_by_query_follows_its_archive_after_a_full_resync_which_passes_gaps_too(
    mariadb: MariaDBServer, spark: SparkSession, tmp_path: Path
) -> None:
    world = log_world(mariadb, tmp_path, spark)
    world.configure(method=Method.QUERY)
    world.sql(ITEMS, "INSERT INTO items VALUES (1, 'a', 1.00)")
    sink, db = Sink(tmp_path / "archive", world.database, "items"), world.database
    sink.write(change("c", 100, after={"id": 1, "name": "a", "price": "1.00"}, database=db))
    assert counts(world.run()) == (1, 0, 0)
    world.configure(method=Method.LOG)
    world.sql("INSERT INTO items VALUES (2, 'b', 2.00)")  # its event never comes: the archive began to be written later
    error = only_error(world.run())
    assert isinstance(error, StateError)
    assert "--mode full" in str(error)
    assert not world.resync(ResyncMode.FULL).failures
    sink.offset += 5  # five events are lost
    world.sql("UPDATE items SET name = 'aa' WHERE id = 1")
    sink.write(change("u", 300, after={"id": 1, "name": "aa", "price": "1.00"}, database=db))
    assert not world.run().failures  # the file before the gap
    assert isinstance(only_error(world.run()), ArchiveGapError)
    assert not world.resync(ResyncMode.FULL).failures
    assert not world.run().failures
    assert world.lake("items", "id, name") == world.source("items", "id, name") == [(1, "aa"), (2, "b")]


@pytest.mark.long
@pytest.mark.parametrize("scd_type", [1, 2])
def test_deletes_are_remembered_over_an_alter_that_makes_the_key_wider(
    mariadb: MariaDBServer, spark: SparkSession, tmp_path: Path, scd_type: int
) -> None:
    world = log_world(mariadb, tmp_path, spark)
    world.configure(stored_as_scd_type=scd_type)
    world.sql("CREATE TABLE items (id INT PRIMARY KEY, name VARCHAR(20))")
    sink, db = Sink(tmp_path / "archive", world.database, "items"), world.database

    def row(key: int) -> dict[str, Any]:
        return {"id": key, "name": "n"}

    sink.write(*(change("c", 100 + key, after=row(key), database=db) for key in (1, 2, 3)))
    assert not world.run().failures
    sink.write(change("d", 200, before=row(2), database=db))
    assert not world.run().failures
    world.sql("ALTER TABLE items MODIFY id BIGINT")
    sink.write(change("d", 300, before=row(1), database=db), change("c", 301, after=row(2**40), database=db))
    report = world.run()
    assert not report.failures, [str(failure.error) for failure in report.failures]
    sink.write(change("u", 150, after=row(2), database=db), change("u", 250, after=row(1), database=db))  # both are late
    assert not world.run().failures
    living = "WHERE __END_AT IS NULL" if scd_type == 2 else ""
    found = spark.sql(f"SELECT id FROM delta.`{world.path('items')}` {living} ORDER BY id").collect()
    assert [tuple(one) for one in found] == [(3,), (2**40,)]
    assert dict(spark.read.format("delta").load(world.path("items")).dtypes)["id"] == "bigint"
