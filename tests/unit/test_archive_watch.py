"""The watcher of an archive, on folders and on S3, with a real ledger: what it tells, when, and that it tells it once."""

import os
import secrets
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from cdc_ops.archives.local import LocalArchive
from cdc_ops.archives.registry import open_archive
from cdc_ops.core.archive.file_names import KafkaName, Layout
from cdc_ops.core.archive.listing import EVERYTHING
from cdc_ops.core.archive.quiet import MOST_LISTINGS
from cdc_ops.core.archive.watermarks import ArchiveWatermark, OffsetRange
from cdc_ops.core.operation.log_batch import LogBatch, LogBatchResult
from cdc_ops.core.operation.operation import OperationKind
from cdc_ops.core.operation.protocol.table_progress import TableProgress
from cdc_ops.core.operation.reads import ArchiveRead
from cdc_ops.core.operation.verified_batch import after_reading
from cdc_ops.core.pipeline.archive_config import ArchiveConfig, OnUnrecognizedFile
from cdc_ops.core.pipeline.watch import Watch, WatchedEntry
from cdc_ops.core.schema.tables import TableName
from cdc_ops.dev.object_store import ObjectStore
from cdc_ops.errors import ArchiveError, ArchiveUnreachableError
from cdc_ops.state.sql import open_store
from cdc_ops.state.table_run import RunTiming, TableRunStatus
from cdc_ops.steps.archive.frozen_files import record_consumed, record_frozen, record_scan
from cdc_ops.steps.archive.scan import scan_archive
from cdc_ops.steps.archive.watch import ArchiveWatcher, Batch
from cdc_ops.steps.planning.log import first_files
from tests.operations import changed, with_fields
from tests.state_values import PIPELINE, make_operation, take
from tests.state_values import run as table_run

ORDERS, LINES = (TableName(schema="shop", name=name) for name in ("orders", "lines"))
TINY = timedelta(microseconds=1)


class World:
    """An archive in a folder or bucket, a ledger, and runs that do without Spark: to read a file is to count its bytes, a record each."""

    def __init__(self, folder: Path, bucket: ObjectStore | None) -> None:
        self.folder, self.bucket = folder / "archive", bucket
        self.prefix = secrets.token_hex(4)
        self.root = f"s3://{bucket.bucket}/{self.prefix}" if bucket else str(self.folder)
        self.folder.mkdir()
        self.url = f"sqlite:///{folder}/ledger.db"
        self.store = open_store(self.url)
        self.options: dict[str, Any] = bucket.options if bucket else {}

    def put(self, start: int, end: int, topic: str = "t") -> str:
        """Lands a file that holds records of these offsets, and returns its full path."""
        return self.write(f"{topic}/partition=0/{topic}+0+{start:010}.json", b"\n" * (end - start))

    def write(self, path: str, content: bytes) -> str:
        if self.bucket:
            self.bucket.put_many({f"{self.prefix}/{path}": content})
        else:
            target = self.folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
        return f"{self.root}/{path}"

    def remove(self, path: str) -> None:
        if self.bucket:
            self.bucket.remove(f"{self.prefix}/{path}")
        else:
            (self.folder / path).unlink()

    def names(self) -> list[str]:
        return [file.path for file in open_archive(self.root, self.options).list(EVERYTHING).files]

    def rules(self, url: str = "", **options: Any) -> ArchiveConfig:
        given = {"layout": Layout.KAFKA_CONNECT, "min_file_age": timedelta(0), **options}
        store_options = tuple((name, value) for name, value in self.options.items() if isinstance(value, str))
        return ArchiveConfig.of(url=url or self.root, options=store_options, **given)

    def watcher(self, *tables: str, claim: timedelta | None = None, **options: Any) -> ArchiveWatcher:
        entries = tuple(WatchedEntry(pattern=name, is_log=True) for name in tables or ("shop.orders",))
        watch = Watch(pipeline=PIPELINE, archive=self.rules(**options), entries=entries, interval=TINY)
        return ArchiveWatcher(watch, self.store, **({} if claim is None else {"claim": claim}))

    def run(self, table: TableName = ORDERS, *, limit: int = 5000, folder: str = "") -> int:
        """Plans, reads and commits as a run does, and returns how many files it has read."""
        config, started = self.rules(), self.store.now()
        url = f"{self.root}/{folder}".rstrip("/")
        lease = take(self.store, table=table)
        state = self.store.table_state(PIPELINE, table)
        before = state.progress.archive
        scan = scan_archive(open_archive(url, self.options), config, self.store, (PIPELINE, table), before)
        record_scan(self.store, lease, scan)
        files = first_files(scan.files.files, scan.names, limit)
        batch = LogBatch(archive=config, url=url, files=files, before=before or ArchiveWatermark(), decisions=())
        operation = with_fields(make_operation(table=table), operation_id=secrets.token_hex(4), run_id="run", log=batch)
        assert isinstance(operation.read, ArchiveRead)
        if files:
            record_frozen(self.store, lease, operation, scan.listing.clock)
            starts = {name.path: name for name in scan.names if isinstance(name, KafkaName)}
            covers = tuple(
                OffsetRange(
                    file=file.path,
                    stream=starts[file.path].stream,
                    low=(starts[file.path].start_offset,),
                    high=(starts[file.path].start_offset + file.size,),
                )
                for file in files
            )
            proven = after_reading(batch, covers, table="t")
            reading = LogBatchResult(watermark=proven.watermark, covers=covers, merged=proven.merged)
            record_consumed(self.store, lease, operation, reading, scan.listing.clock)
            self.store.replace_state(lease, replace(state, progress=TableProgress(archive=proven.watermark)))
        line = changed(table_run(secrets.token_hex(4)), table=table, status=TableRunStatus.COMMITTED if files else TableRunStatus.IDLE)
        self.store.record(replace(line, timing=RunTiming(started_at=started, finished_at=self.store.now())))
        self.store.release(lease)
        return len(files)


@pytest.fixture(scope="module")
def bucket() -> Iterator[ObjectStore]:
    store = ObjectStore()
    yield store
    store.close()


@pytest.fixture
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    """A world in a folder, or in a bucket for tests with `ON_BOTH`."""
    world = World(tmp_path, request.getfixturevalue("bucket") if getattr(request, "param", "folder") == "s3" else None)
    yield world
    world.store.close()


ON_BOTH = pytest.mark.parametrize("world", ["folder", "s3"], indirect=True)


def told(batches: tuple[Batch, ...]) -> list[list[str]]:
    return [sorted(path.rpartition("+")[2] for path in batch.files) for batch in batches]


def look_twice(watcher: ArchiveWatcher) -> tuple[Batch, ...]:
    """Two listings in a row; what they tell is confirmed, as if Airflow had stored it."""
    batches = (*watcher.look(), *watcher.look())
    watcher.confirm(batch.batch for batch in batches)
    return batches


@ON_BOTH
def test_a_file_that_lands_is_told_once_in_one_batch_with_its_neighbours_and_stays_where_it_is(world: World) -> None:
    watcher = world.watcher()
    assert look_twice(watcher) == ()
    paths = [world.put(0, 10), world.put(10, 20)]
    (batch,) = look_twice(watcher)
    assert sorted(batch.files) == paths
    assert batch.event == {"pipeline": PIPELINE, "batch": batch.batch, "files": 2, "size_bytes": 20, "paths": paths}
    assert look_twice(watcher) == look_twice(world.watcher()) == ()
    world.run()
    assert look_twice(watcher) == look_twice(world.watcher()) == ()
    assert len(world.names()) == 2


def test_nothing_is_told_while_files_still_arrive_and_a_busy_archive_is_told_of_all_the_same(world: World) -> None:
    watcher = world.watcher()
    for number in range(MOST_LISTINGS - 1):
        world.put(number * 10, number * 10 + 10)
        assert watcher.look() == (), f"listing {number + 1}"
    world.put(90, 100)
    assert [len(batch.files) for batch in watcher.look()] == [MOST_LISTINGS]
    world.put(100, 110)
    assert [watcher.look(), told(watcher.look())] == [(), [["0000000100.json"]]]


def test_a_file_that_is_still_written_is_not_told_and_holds_the_others_back_until_it_is_finished(world: World) -> None:
    watcher = world.watcher(min_file_age=timedelta(hours=1))
    hour_ago = datetime.now(UTC).timestamp() - 7200
    old, young = Path(world.put(0, 10)), Path(world.put(10, 20))
    os.utime(old, (hour_ago, hour_ago))
    assert look_twice(watcher) == ()
    os.utime(young, (hour_ago, hour_ago))
    assert told(look_twice(watcher)) == [["0000000000.json", "0000000010.json"]]


@ON_BOTH
def test_what_was_told_and_not_confirmed_is_told_again_under_the_same_id_when_its_watcher_is_gone(world: World) -> None:
    world.put(0, 10)
    first = world.watcher(claim=timedelta(0))
    first.look()
    (lost,) = first.look()
    second = world.watcher()
    (again,) = look_twice(second)
    assert (again.batch, sorted(again.files)) == (lost.batch, sorted(lost.files))
    assert look_twice(second) == look_twice(world.watcher(claim=timedelta(0))) == ()


def test_what_a_dead_watcher_told_and_a_run_has_seen_or_read_is_not_told_again(world: World) -> None:
    world.put(0, 10)
    first = world.watcher(claim=timedelta(0))
    first.look()
    (lost,) = first.look()
    world.store.confirm_notified(PIPELINE, [lost.batch])
    assert look_twice(world.watcher()) == ()
    world.put(10, 20)
    dead = world.watcher(claim=timedelta(0))
    dead.look()
    assert len(dead.look()) == 1
    assert world.run() == 2
    assert look_twice(world.watcher()) == ()
    assert world.store.notified_files(PIPELINE) == {}


def test_of_watchers_beside_each_other_one_tells_a_file(world: World) -> None:
    watchers = [world.watcher(), world.watcher()]
    batches = []
    for number in range(4):
        world.put(number * 10, number * 10 + 10)
        for _ in range(2):
            batches += [batch for watcher in watchers for batch in watcher.look()]
    assert told(tuple(batches)) == [[f"00000000{number}0.json"] for number in range(4)]


def test_two_watchers_that_have_decided_the_same_claim_it_once(world: World) -> None:
    path = world.put(0, 10)
    file = next(iter(look_twice(world.watcher(claim=timedelta(0)))[0].files.values()))
    world.store.forget_notified_files(PIPELINE, world.store.notified_files(PIPELINE).values())
    minute = timedelta(minutes=1)
    claims = [world.store.claim_files(PIPELINE, batch, {path: file}, {}, minute) for batch in ("a", "b")]
    assert claims == [True, False]
    assert world.store.notified_files(PIPELINE)[path].batch == "a"


def test_the_claim_of_a_watcher_that_lives_does_not_end(world: World) -> None:
    world.put(0, 10)
    watcher = world.watcher(claim=timedelta(seconds=30))
    watcher.look()
    (batch,) = watcher.look()
    before = world.store.notified_files(PIPELINE)[next(iter(batch.files))].until
    watcher.look()
    assert world.store.notified_files(PIPELINE)[next(iter(batch.files))].until > before
    assert look_twice(world.watcher()) == ()


@ON_BOTH
def test_files_that_a_run_left_for_the_next_one_are_told_again_until_nothing_is_left(world: World) -> None:
    watcher = world.watcher()
    for number in range(5):
        world.put(number * 10, number * 10 + 10)
    assert [len(batch.files) for batch in look_twice(watcher)] == [5]
    assert world.run(limit=2) == 2
    assert told(look_twice(watcher)) == [["0000000020.json", "0000000030.json", "0000000040.json"]]
    assert look_twice(watcher) == (), "the next run has not come yet"
    assert world.run(limit=2) == 2
    assert told(look_twice(watcher)) == [["0000000040.json"]]
    assert (world.run(limit=2), look_twice(watcher)) == (1, ())
    assert world.store.notified_files(PIPELINE) == {}


def test_files_that_a_run_left_are_told_again_though_another_kind_of_run_has_ended_since(world: World) -> None:
    watcher = world.watcher()
    for number in range(3):
        world.put(number * 10, number * 10 + 10)
    look_twice(watcher)
    assert world.run(limit=2) == 2
    line = changed(table_run("compared"), table=ORDERS, kind=OperationKind.RECONCILE, status=TableRunStatus.COMMITTED)
    world.store.record(replace(line, timing=RunTiming(started_at=world.store.now())))
    assert told(look_twice(watcher)) == [["0000000020.json"]]


def test_a_run_that_fails_is_not_started_again_and_again_and_the_next_file_starts_one(world: World) -> None:
    watcher = world.watcher()
    world.put(0, 10)
    look_twice(watcher)
    line = changed(table_run("broken"), table=ORDERS, status=TableRunStatus.FAILED)
    world.store.record(replace(line, timing=RunTiming(started_at=world.store.now())))
    assert look_twice(watcher) == ()
    world.put(10, 20)
    assert told(look_twice(watcher)) == [["0000000010.json"]]


def test_a_file_that_one_of_two_tables_has_read_before_it_was_told_is_told_for_the_other(world: World) -> None:
    watcher = world.watcher("shop.orders", "shop.lines")
    world.put(0, 10)
    assert len(look_twice(watcher)) == 1
    world.run(ORDERS)
    world.run(LINES)
    world.put(10, 20)
    world.run(ORDERS)
    assert told(look_twice(watcher)) == [["0000000010.json"]]
    assert len(world.store.notified_files(PIPELINE)) == 1
    world.run(LINES)
    assert look_twice(watcher) == ()
    assert world.store.notified_files(PIPELINE) == {}


def test_what_runs_have_read_before_the_archive_was_watched_is_not_told(world: World) -> None:
    world.put(0, 10)
    world.run()
    world.put(10, 20)
    assert told(look_twice(world.watcher())) == [["0000000010.json"]]


@ON_BOTH
def test_each_table_may_have_a_folder_of_its_own_and_new_folders_are_found(world: World) -> None:
    watcher = world.watcher("shop.*", url=f"{world.root}/prod.{{schema}}.{{table}}")
    world.put(0, 10, "other")
    world.write("prod.crm.people/partition=0/prod.crm.people+0+0000000000.json", b"\n")
    assert look_twice(watcher) == ()
    path = world.write("prod.shop.orders/partition=0/x+0+0000000000.json", b"\n")
    assert [list(batch.files) for batch in look_twice(watcher)] == [[path]]
    world.run(folder="prod.shop.orders")
    new = world.write("prod.shop.lines/partition=0/x+0+0000000000.json", b"\n")
    assert [list(batch.files) for batch in look_twice(watcher)] == [[new]]


def test_a_pattern_whose_tables_nobody_knows_yet_starts_a_first_run(world: World) -> None:
    watcher = world.watcher("shop.*")
    world.put(0, 10)
    assert told(look_twice(watcher)) == [["0000000000.json"]]
    assert look_twice(watcher) == ()


@ON_BOTH
def test_a_file_that_is_uploaded_again_is_told_again_because_a_run_reads_it_again(world: World) -> None:
    watcher = world.watcher()
    world.put(0, 10)
    look_twice(watcher)
    world.run()
    world.put(0, 15)
    assert told(look_twice(watcher)) == [["0000000000.json"]]


def test_a_file_behind_a_gap_is_told_once_so_that_a_run_reports_the_gap(world: World) -> None:
    watcher = world.watcher()
    world.put(0, 10)
    look_twice(watcher)
    world.run()
    world.put(20, 30)
    assert told(look_twice(watcher)) == [["0000000020.json"]]
    assert (world.run(), look_twice(watcher)) == (0, ())


@pytest.mark.parametrize(("policy", "count"), [(OnUnrecognizedFile.FAIL, 1), (OnUnrecognizedFile.IGNORE, 0)])
def test_a_file_whose_name_stops_the_tables_is_told_so_that_a_run_says_so(world: World, policy: OnUnrecognizedFile, count: int) -> None:
    watcher = world.watcher(unrecognized_files=policy)
    world.write("strange.json", b"\n")
    assert len(look_twice(watcher)) == count
    assert look_twice(watcher) == ()


@ON_BOTH
def test_a_file_that_is_gone_is_forgotten(world: World) -> None:
    watcher = world.watcher()
    world.put(0, 10)
    assert len(look_twice(watcher)) == 1
    world.remove("t/partition=0/t+0+0000000000.json")
    assert (look_twice(watcher), world.store.notified_files(PIPELINE)) == ((), {})


def test_an_archive_that_cannot_be_listed_is_an_error_and_nothing_is_forgotten(world: World, tmp_path: Path) -> None:
    watcher = world.watcher()
    world.put(0, 10)
    assert len(look_twice(watcher)) == 1
    world.folder.rename(tmp_path / "elsewhere")
    with pytest.raises(ArchiveError):
        watcher.look()
    (tmp_path / "elsewhere").rename(world.folder)
    assert look_twice(watcher) == ()
    assert len(world.store.notified_files(PIPELINE)) == 1


@pytest.mark.parametrize(
    ("problem", "error"), [(PermissionError(13, "Permission denied"), ArchiveError), (OSError(116, "Stale"), ArchiveUnreachableError)]
)
def test_a_folder_that_cannot_be_read_is_an_error_of_the_archive_and_the_next_look_goes_on(
    world: World, monkeypatch: pytest.MonkeyPatch, problem: OSError, error: type[ArchiveError]
) -> None:
    watcher = world.watcher()
    world.put(0, 10)
    with monkeypatch.context() as patch:
        patch.setattr(os, "scandir", Mock(side_effect=problem))
        with pytest.raises(ArchiveError) as found:
            watcher.look()
    assert type(found.value) is error
    assert str(world.folder) in str(found.value)
    assert told(look_twice(watcher)) == [["0000000000.json"]]


def test_a_file_that_is_removed_while_its_end_is_looked_at_stops_nothing(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    watcher = world.watcher(check_file_footers=True)
    path = Path(world.put(0, 10))
    looked: list[str] = []

    def tail(archive: LocalArchive, name: str, size: int) -> bytes:
        looked.append(name)
        path.unlink(missing_ok=True)
        return real(archive, name, size)

    real = LocalArchive.tail
    monkeypatch.setattr(LocalArchive, "tail", tail)
    assert look_twice(watcher) == ()
    assert len(looked) == 1


def test_files_in_folders_that_nobody_watches_any_more_are_forgotten_after_a_week(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.put(0, 10)
    look_twice(world.watcher())
    elsewhere = world.folder.parent / "elsewhere"
    elsewhere.mkdir()
    other = world.watcher(url=str(elsewhere))
    look_twice(other)
    assert len(world.store.notified_files(PIPELINE)) == 1, "a watcher of the old file would tell them again"
    later = world.store.now() + timedelta(days=8)
    monkeypatch.setattr(world.store, "now", lambda: later)
    look_twice(other)
    assert world.store.notified_files(PIPELINE) == {}
