"""Archive, ledger and proof together, on a folder and SQLite: what is read, what waits, what stops a table."""

import os
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from itertools import count
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cdc_ops.archives.local import LocalArchive
from cdc_ops.core.archive.file_names import KafkaName, Layout
from cdc_ops.core.archive.files import FileStatusChange, freeze, frozen_records
from cdc_ops.core.archive.listing import Scope
from cdc_ops.core.archive.watermarks import ArchiveWatermark, OffsetRange, PartitionWatermark
from cdc_ops.core.operation.log_batch import LogBatch, LogBatchResult
from cdc_ops.core.operation.operation import Operation
from cdc_ops.core.operation.reads import ArchiveRead
from cdc_ops.core.operation.verified_batch import after_reading
from cdc_ops.core.pipeline.archive_config import ArchiveConfig, CopySettings, OnUnrecognizedFile
from cdc_ops.core.schema.tables import TableName
from cdc_ops.dev.avro import avro_file
from cdc_ops.errors import ArchiveChangedError, ArchiveFileError, ArchiveGapError
from cdc_ops.state.sql import SqlStateStore, open_store
from cdc_ops.steps.archive.frozen_files import check_unchanged, record_consumed, record_frozen, record_scan
from cdc_ops.steps.archive.scan import ArchiveScan, scan_archive
from tests.operations import with_fields
from tests.state_values import PIPELINE, make_operation, take

RULES = ArchiveConfig.of(layout=Layout.KAFKA_CONNECT, min_file_age=timedelta(0))
NUMBERS = count()


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SqlStateStore]:
    with open_store(f"sqlite:///{tmp_path_factory.mktemp('ledger')}/ledger.db") as store:
        yield store


def batch_of(found: ArchiveScan, watermark: ArchiveWatermark | None, max_offset_gap: int = 0) -> LogBatch:
    """What an operation reads after a survey."""
    return LogBatch(
        archive=ArchiveConfig.of(url="archive", max_offset_gap=max_offset_gap),
        url="archive",
        files=found.files.files,
        before=watermark or ArchiveWatermark(),
        decisions=found.decisions,
    )


class Table:
    """A table that is fed from a folder; reading a file is counting its bytes: a record each."""

    def __init__(self, store: SqlStateStore, folder: Path, rules: ArchiveConfig = RULES) -> None:
        self.store, self.folder, self.rules = store, folder, rules
        self.archive = LocalArchive(str(folder))
        self.name = TableName(schema="shop", name=f"t{next(NUMBERS)}")
        self.lease = take(store, table=self.name)
        self.watermark: ArchiveWatermark | None = None

    def write(self, start: int, end: int, partition: int = 0, path: str = "") -> Path:
        target = self.folder / (path or f"t/partition={partition}/t+{partition}+{start:010}.json")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(b"\n" * (end - start))
        return target

    def look(self, *, full: bool = False) -> ArchiveScan:
        return scan_archive(self.archive, self.rules, self.store, (PIPELINE, self.name), self.watermark, full=full)

    def read(self, found: ArchiveScan) -> list[OffsetRange]:
        by_path = {name.path: name for name in found.names if isinstance(name, KafkaName)}
        covers = []
        for file in found.files.files:
            start = by_path[file.path].start_offset
            covers.append(OffsetRange(file=file.path, stream=by_path[file.path].stream, low=(start,), high=(start + file.size,)))
        return covers

    def run(self, *, full: bool = False) -> ArchiveScan:
        """Surveys, freezes, reads and commits, the way a run does."""
        found = self.look(full=full)
        record_scan(self.store, self.lease, found)
        operation = self.operation(found)
        record_frozen(self.store, self.lease, operation, found.listing.clock)
        check_unchanged(self.archive, found.files)
        covers = tuple(self.read(found))
        if isinstance(operation.read, ArchiveRead) and operation.read.batch.files:
            proven = after_reading(operation.read.batch, covers, table="t")
            self.watermark = proven.watermark
            reading = LogBatchResult(watermark=proven.watermark, covers=covers, merged=proven.merged)
            record_consumed(self.store, self.lease, operation, reading, found.listing.clock)
        return found

    def operation(self, found: ArchiveScan) -> Operation:
        return with_fields(
            make_operation(), operation_id="op", run_id="run", log=batch_of(found, self.watermark, self.rules.files.max_offset_gap)
        )

    @property
    def reached(self) -> dict[str, int]:
        return {item.stream: item.to[0] for item in self.watermark.streams} if self.watermark else {}


@pytest.fixture
def table(store: SqlStateStore, tmp_path: Path) -> Table:
    return Table(store, tmp_path)


def read_of(found: ArchiveScan) -> list[str]:
    return [file.path.rpartition("+")[2] for file in found.files.files]


def test_a_run_reads_what_is_new_and_the_next_one_only_what_came_since(table: Table) -> None:
    table.write(0, 10)
    table.write(10, 20)
    table.write(0, 5, partition=1)
    first = table.run()
    assert (first.scope, len(first.files.files)) == (Scope.FULL, 3)
    assert table.reached == {"t/0": 20, "t/1": 5}
    table.write(20, 30)
    table.write(0, 7, partition=2)
    second = table.run()
    assert (second.scope, read_of(second)) == (Scope.INCREMENTAL, ["0000000020.json", "0000000000.json"])
    assert table.reached == {"t/0": 30, "t/1": 5, "t/2": 7}
    third = table.run()
    assert (third.files.files, third.gaps) == ((), ())


def test_a_gap_stops_the_table_before_the_files_behind_it_and_is_listed_for_in_full_first(table: Table) -> None:
    table.write(0, 10)
    table.run()
    table.write(12, 20)
    found = table.look()
    assert (found.scope, found.files.files) == (Scope.FULL, ())
    (record,) = record_scan(table.store, table.lease, found)
    assert (record.gap.low, record.gap.high, record.gap.before_file) == ((10,), (12,), "t/partition=0/t+0+0000000012.json")
    table.write(10, 12)
    assert read_of(table.run()) == ["0000000010.json", "0000000012.json"]
    assert table.store.archive_gaps(PIPELINE, table.name) == ()
    assert table.reached == {"t/0": 20}


def test_an_accepted_gap_is_passed_and_the_decision_is_in_the_watermark_also_without_the_ledger(table: Table, store: SqlStateStore) -> None:
    table.write(0, 10)
    table.run()
    table.write(12, 20)
    (record,) = record_scan(store, table.lease, table.look())
    store.accept_gap(PIPELINE, record.gap_id, who="ops", why="expired")
    table.run()
    assert table.reached == {"t/0": 20}
    assert table.watermark is not None
    assert [(item.low, item.high, item.who) for item in table.watermark.accepted] == [((10,), (12,), "ops")]
    without_ledger = Table(store, table.folder)
    without_ledger.watermark = table.watermark
    assert without_ledger.look().gaps == ()


def test_a_gap_that_only_contents_show_is_not_passed_and_is_found_by_the_next_plan(table: Table) -> None:
    table.write(0, 8)  # its name and the next one say 10 records; two are missing at its end
    table.write(10, 20)
    found = table.look()
    assert found.gaps == ()
    proven = after_reading(batch_of(found, None), table.read(found), table="shop.t")
    assert (proven.merged, proven.watermark.position_of("t/0")) == (("t/partition=0/t+0+0000000000.json",), (8,))
    table.run()
    assert table.reached == {"t/0": 8}
    again = table.look()
    assert ([(gap.low, gap.high) for gap in again.gaps], read_of(again)) == ([((8,), (10,))], [])
    behind = replace(batch_of(found, table.watermark), files=found.files.files[1:])
    with pytest.raises(ArchiveGapError, match="8 up to, not including, 10"):
        after_reading(behind, [cover for cover in table.read(found) if cover.low == (10,)], table="shop.t")


def test_the_hole_that_a_topic_has_by_nature_is_allowed_by_size(table: Table) -> None:
    table.rules = RULES.changed(max_offset_gap=2)
    table.write(0, 8)
    table.write(10, 20)
    table.write(23, 30)
    found = table.look()
    proven = after_reading(batch_of(found, None, max_offset_gap=2), table.read(found), table="t")
    assert proven.watermark.position_of("t/0") == (20,)


def test_a_rotated_sink_may_write_records_twice(table: Table) -> None:
    table.write(0, 10)
    table.write(5, 15)
    table.run()
    table.write(12, 20)
    table.run()
    assert table.reached == {"t/0": 20}


def test_a_file_that_was_uploaded_again_and_is_longer_is_read_again(table: Table) -> None:
    table.write(0, 10)
    table.run()
    table.write(0, 14)
    found = table.run()
    assert [item.verdict for item in found.stock.arrivals] == [FileStatusChange.LONGER]
    assert table.reached == {"t/0": 14}


def test_an_old_file_that_was_uploaded_again_is_found_by_the_full_listing(table: Table) -> None:
    for start in (0, 10, 20):
        table.write(start, start + 10)
    table.run()
    table.run()
    os.utime(table.write(0, 12))
    assert table.look().files.files == ()
    assert read_of(table.look(full=True)) == ["0000000000.json"]
    table.rules = RULES.changed(full_listing_interval=timedelta(0))
    assert read_of(table.look()) == ["0000000000.json"]


def test_a_late_file_below_the_watermark_holds_nothing_new_unless_holes_are_natural(table: Table) -> None:
    table.write(0, 10)
    table.write(10, 20)
    table.run()
    table.write(3, 8)
    found = table.look(full=True)
    assert (found.files.files, len(found.passed)) == ((), 1)
    table.rules = RULES.changed(max_offset_gap=5)
    assert read_of(table.look(full=True)) == ["0000000003.json"]


def test_a_file_that_is_being_written_holds_back_those_behind_it(table: Table) -> None:
    table.rules = RULES.changed(min_file_age=timedelta(hours=1))
    for start in (0, 10, 20):
        os.utime(table.write(start, start + 10), (1_700_000_000, 1_700_000_000))
    os.utime(table.write(10, 15))
    table.write(0, 5, partition=1)
    found = table.run()
    assert (read_of(found), found.gaps) == (["0000000000.json"], ())
    assert len(found.stock.with_status(FileStatusChange.WAIT)) == 2
    assert set(table.store.pending_files(PIPELINE, table.name)) == {file.path for file in found.stock.with_status(FileStatusChange.WAIT)}
    os.utime(table.write(10, 20), (1_700_000_000, 1_700_000_000))
    assert read_of(table.run()) == ["0000000010.json", "0000000020.json"]


def test_a_file_from_before_the_beginning_is_read_when_it_turns_up_late(table: Table) -> None:
    table.write(100, 110)
    table.run()
    assert table.watermark is not None
    assert table.watermark.streams == (PartitionWatermark(stream="t/0", to=(110,), since=(100,)),)
    table.write(110, 120)
    table.run()
    table.write(90, 100)
    assert read_of(table.run(full=True)) == ["0000000090.json"]
    assert table.watermark.streams == (PartitionWatermark(stream="t/0", to=(120,), since=(100,)),)
    assert table.run(full=True).files.files == ()


def test_many_frozen_files_are_compared_by_listing_their_folders(table: Table) -> None:
    for start in range(0, 300, 10):
        table.write(start, start + 10, partition=start // 150)
    found = replace(table.look(), files=freeze(table.look().listing.files))
    check_unchanged(table.archive, found.files)
    table.write(290, 299, partition=1)
    with pytest.raises(ArchiveChangedError, match="1 of 30 files"):
        check_unchanged(table.archive, found.files)


def test_files_whose_commit_the_ledger_missed_are_not_read_again(table: Table) -> None:
    for start in (0, 10, 20):
        table.write(start, start + 10)
    found = table.look()
    table.store.put_files(table.lease, frozen_records(found.files, "op", "run", found.listing.clock))
    table.watermark = after_reading(batch_of(found, None), table.read(found), table="t").watermark  # committed, and then the process died
    again = table.run()
    assert read_of(again) == ["0000000020.json"]  # the watermark may lie in it
    assert table.run().files.files == ()
    assert table.store.pending_files(PIPELINE, table.name) == {}


def test_a_file_that_never_ends_is_warned_of(table: Table) -> None:
    table.rules = RULES.changed(check_file_footers=True)
    table.write(0, 10).write_bytes(b'{"a"')
    os.utime(table.folder / "t/partition=0/t+0+0000000000.json", (1_700_000_000, 1_700_000_000))
    (warning,) = table.look().warnings()
    assert warning.startswith("t/partition=0/t+0+0000000000.json has waited to be finished since 2023-11-14")
    assert table.look().warnings(max_wait=timedelta(days=36500)) == ()


def test_endings_are_looked_at_where_files_are_written_in_place(table: Table) -> None:
    table.rules = RULES.changed(check_file_footers=True)
    path = table.write(0, 10)
    path.write_bytes(b'{"a":1}\n{"a')
    assert table.look().stock.with_status(FileStatusChange.WAIT)
    path.write_bytes(b'{"a":1}\n')
    assert table.look().stock.with_status(FileStatusChange.NEW)


def test_an_avro_file_waits_until_it_ends_with_its_mark(table: Table) -> None:
    content = avro_file({"type": "record", "name": "r", "fields": [{"name": "n", "type": "long"}]}, [{"n": 1}, {"n": 2}], per_block=1)
    path = table.folder / "t/partition=0/t+0+0000000000.avro"
    path.parent.mkdir(parents=True)
    path.write_bytes(content[:-1])
    assert table.look().stock.with_status(FileStatusChange.NEW)  # it is found out when it is read
    table.rules = RULES.changed(check_file_footers=True)
    for length in (2, len(content) - 1):
        path.write_bytes(content[:length])
        assert table.look().stock.with_status(FileStatusChange.WAIT)
    for written in (content, b"no Avro at all"):
        path.write_bytes(written)
        assert table.look().stock.with_status(FileStatusChange.NEW)


def test_an_empty_file_is_nothing_to_read_and_no_excuse_for_a_gap(table: Table) -> None:
    table.write(0, 10)
    table.write(10, 10)
    found = table.run()
    assert (read_of(found), found.gaps) == (["0000000000.json"], ())
    table.write(15, 20)
    assert [(gap.low, gap.high) for gap in table.look().gaps] == [((10,), (15,))]


def test_files_that_lifecycle_rules_remove_after_they_were_consumed_are_forgotten(table: Table) -> None:
    first, second = table.write(0, 10), table.write(10, 20)
    table.run()
    first.unlink()
    found = table.run(full=True)
    assert ([record.file.path[-15:] for record in found.stock.gone], found.stock.lost) == (["0000000000.json"], ())
    second.unlink()
    table.write(20, 30)
    assert read_of(table.run()) == ["0000000020.json"]
    table.run(full=True)
    assert [path[-15:] for path in table.store.archive_files(PIPELINE, table.name)] == ["0000000020.json"]


def test_a_file_that_is_removed_before_it_was_consumed_is_lost_and_a_gap(table: Table) -> None:
    table.rules = RULES.changed(min_file_age=timedelta(hours=1))
    os.utime(table.write(0, 10), (1_700_000_000, 1_700_000_000))
    waiting = table.write(10, 20)
    table.run()
    waiting.unlink()
    os.utime(table.write(20, 30), (1_700_000_000, 1_700_000_000))
    found = table.look()
    assert found.stock.warnings == ("t/partition=0/t+0+0000000010.json was removed before cdc-ops consumed it",)
    assert [(gap.low, gap.high) for gap in found.gaps] == [((10,), (20,))]


def test_a_frozen_file_that_changed_stops_the_try(table: Table) -> None:
    table.write(0, 10)
    found = table.look()
    check_unchanged(table.archive, found.files)
    table.write(0, 11)
    with pytest.raises(ArchiveChangedError, match="11 bytes, not 10"):
        check_unchanged(table.archive, found.files)


def test_a_name_that_nobody_knows_stops_the_table_unless_it_may_be_ignored(table: Table) -> None:
    table.write(0, 10)
    table.write(0, 10, path="t/partition=0/notes.txt")
    table.write(0, 10, path="t/partition=0/_SUCCESS")
    with pytest.raises(ArchiveFileError, match=r"1 files.*notes\.txt"):
        table.look()
    table.rules = RULES.changed(unrecognized_files=OnUnrecognizedFile.IGNORE)
    found = table.look()
    assert ([item.path for item in found.unrecognized_files], len(found.files.files)) == (["t/partition=0/notes.txt"], 1)


def test_without_the_ledger_a_run_goes_on_from_the_watermark(table: Table, store: SqlStateStore) -> None:
    for start in range(0, 100, 10):
        table.write(start, start + 10)
    table.run()
    table.write(100, 110)
    lost = Table(store, table.folder)
    lost.watermark = table.watermark
    found = lost.run()
    assert (read_of(found), len(found.passed)) == (["0000000100.json"], 10)
    assert lost.reached == {"t/0": 110}


def test_a_new_partition_that_does_not_begin_at_its_first_offset_is_a_gap(table: Table) -> None:
    table.write(0, 10)
    table.run()
    table.write(5, 10, partition=1)
    assert [(gap.stream, gap.low, gap.high) for gap in table.look().gaps] == [("t/1", (0,), (5,))]


def test_binlogs_are_read_up_to_the_last_one_that_was_closed(table: Table) -> None:
    table.rules = ArchiveConfig.of(layout=Layout.BINLOG, min_file_age=timedelta(0))
    for number in (998, 999, 1000):
        table.write(0, 100, path=f"db1/mysql-bin.{number:06}")
    table.watermark = ArchiveWatermark(streams=(PartitionWatermark(stream="db1/mysql-bin", to=(998, 4)),))
    found = table.look()
    assert [file.path for file in found.files.files] == ["db1/mysql-bin.000998", "db1/mysql-bin.000999"]
    assert (found.proofs[0].to, found.gaps) == ((1000, 0), ())
    (table.folder / "db1/mysql-bin.000999").unlink()
    assert [(gap.low, gap.high) for gap in table.look().gaps] == [((999, 0), (1000, 0))]


def test_every_binlog_that_the_archiver_copied_is_closed_also_the_last_one(table: Table) -> None:
    table.rules = ArchiveConfig.of(layout=Layout.BINLOG, min_file_age=timedelta(0), copy=CopySettings(connection="db"))
    table.write(0, 100, path="db1/mysql-bin.000998.zst")
    table.write(0, 100, path="db1/mysql-bin.000999.zst")
    table.watermark = ArchiveWatermark(streams=(PartitionWatermark(stream="db1/mysql-bin", to=(998, 4)),))
    found = table.look()
    assert [file.path for file in found.files.files] == ["db1/mysql-bin.000998.zst", "db1/mysql-bin.000999.zst"]
    assert found.proofs[0].to == (1000, 0)


CUTS = st.lists(st.integers(1, 5), min_size=2, max_size=5)


@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cuts=CUTS, data=st.data())
def test_whatever_order_files_arrive_in_nothing_is_skipped_and_all_is_read_in_the_end(
    tmp_path: Path, store: SqlStateStore, cuts: list[int], data: st.DataObject
) -> None:
    table = Table(store, tmp_path / f"{next(NUMBERS)}")
    table.watermark = ArchiveWatermark(streams=(PartitionWatermark(stream="t/0", to=(0,)),))
    table.folder.mkdir()
    bounds = [sum(cuts[:index]) for index in range(len(cuts) + 1)]
    arrived: set[int] = set()
    for index in data.draw(st.permutations(range(len(cuts)))):
        table.write(bounds[index], bounds[index + 1])
        arrived |= set(range(bounds[index], bounds[index + 1]))
        table.run(full=data.draw(st.booleans()))
        assert set(range(table.reached["t/0"])) <= arrived
    assert table.reached == {"t/0": bounds[-1]}
