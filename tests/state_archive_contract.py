"""What a ledger promises of archives, on whatever database it is kept; a part of `StateContract`."""

from dataclasses import replace

import pytest

from cdc_ops.core.archive.completeness import GapStatus
from cdc_ops.core.archive.files import FileRecord, FileStatus, ListedFile, ListedRange
from cdc_ops.core.archive.listing import ListingMark
from cdc_ops.core.archive.watermarks import Gap, OffsetRange
from cdc_ops.core.schema.tables import TableName
from cdc_ops.errors import RequestError, StaleStateError
from cdc_ops.state.sql import SqlStateStore, open_reader
from tests.state_values import NOON, ORDERS, PIPELINE, LedgerFixtures, take

OTHER = TableName(schema="shop", name="others")
GAP = Gap(stream="orders/0", low=(10,), high=(20,), after_file="a", before_file="b")


def file(path: str, status: FileStatus = FileStatus.CONSUMED, size: int = 10, operation: str = "op-1") -> FileRecord:
    cover = OffsetRange(file=path, stream="orders/0", low=(0,), high=(2**62,))
    listed = ListedFile(path=path, size=size, etag="e1", modified=NOON)
    return FileRecord(file=listed, status=status, since=NOON, covers=(cover,), operation_id=operation, run_id="run-1")


class ArchiveContract(LedgerFixtures):
    """The tests."""

    def test_files_are_kept_per_table_and_found_by_path_status_and_operation(self, store: SqlStateStore) -> None:
        lease, long = take(store), "topics/" + "ü" * 700 + "/b.json"
        files = [file("a.json"), file(long, FileStatus.FROZEN, operation="op-2"), file("A.json", FileStatus.WAITING, operation="")]
        store.put_files(lease, files)
        store.put_files(take(store, table=OTHER), [file("a.json", size=99)])
        assert dict(store.archive_files(PIPELINE, ORDERS)) == {item.file.path: item for item in files}
        assert dict(store.archive_files(PIPELINE, ORDERS, ["a.json", "unknown"])) == {"a.json": files[0]}
        assert set(store.pending_files(PIPELINE, ORDERS)) == {long, "A.json"}
        assert store.frozen_files(PIPELINE, ORDERS, "op-2") == (files[1],)
        assert store.archive_files(PIPELINE, OTHER)["a.json"].file.size == 99

    def test_many_files_are_replaced_and_forgotten_at_once(self, store: SqlStateStore) -> None:
        lease = take(store)
        store.put_files(lease, [file(f"{number}.json") for number in range(1201)])
        again = replace(file("7.json"), status=FileStatus.LOST)
        store.put_files(lease, [again], gone=["7.json", "8.json", "unknown"])
        left = store.archive_files(PIPELINE, ORDERS)
        assert len(left) == 1200
        assert left["7.json"] == again
        assert "8.json" not in left

    def test_a_lost_lease_writes_nothing_about_archives(self, store: SqlStateStore) -> None:
        lease = take(store)
        store.release(lease)
        for write in (
            lambda: store.put_files(lease, [file("a.json")]),
            lambda: store.put_listing_mark(lease, ListingMark()),
            lambda: store.report_gaps(lease, [GAP]),
        ):
            with pytest.raises(StaleStateError):
                write()
        assert not store.archive_files(PIPELINE, ORDERS)
        assert store.listing_mark(PIPELINE, ORDERS) is None
        assert store.archive_gaps() == ()

    def test_a_listing_leaves_a_mark_for_the_next_one(self, store: SqlStateStore) -> None:
        lease = take(store)
        assert store.listing_mark(PIPELINE, ORDERS) is None
        for mark in (ListingMark(), ListingMark(ranges=(ListedRange(prefix="t/", after="t/a"),), full_at=NOON, calls=2, files=9)):
            store.put_listing_mark(lease, mark)
            assert store.listing_mark(PIPELINE, ORDERS) == mark

    def test_a_gap_is_open_until_it_is_not_found_any_more(self, store: SqlStateStore) -> None:
        lease = take(store)
        (first,) = store.report_gaps(lease, [GAP])
        assert (first.gap, first.status, first.table) == (GAP, GapStatus.OPEN, ORDERS)
        assert store.report_gaps(lease, [GAP]) == (first,)
        assert store.report_gaps(lease, []) == ()
        (again,) = store.report_gaps(lease, [GAP])
        assert again.gap_id == first.gap_id
        assert again.found_at >= first.found_at

    def test_accepting_a_gap_needs_a_reason_and_is_remembered_with_who_and_when(self, url: str, store: SqlStateStore) -> None:
        lease = take(store)
        (found,) = store.report_gaps(lease, [GAP])
        with pytest.raises(RequestError, match="needs a reason"):
            store.accept_gap(PIPELINE, found.gap_id, who="ops", why=" ")
        with pytest.raises(RequestError, match=f"no open gap 'other'.*\n.*{found.gap_id}"):
            store.accept_gap(PIPELINE, "other", who="ops", why="lost")
        (accepted,) = store.accept_gap(PIPELINE, found.gap_id, who="ops", why="the topic had expired")
        decision = accepted.decision
        assert decision is not None
        assert (decision.low, decision.high, decision.who, decision.why) == ((10,), (20,), "ops", "the topic had expired")
        assert decision.at >= found.found_at
        assert store.accept_gap(PIPELINE, found.gap_id, who="another", why="again") == (accepted,)
        assert store.report_gaps(lease, []) == (accepted,)  # a decision stays until somebody needs it
        with open_reader(url) as reader:
            assert reader.archive_gaps(PIPELINE, ORDERS) == (accepted,)
            assert reader.archive_gaps("another") == reader.archive_gaps(PIPELINE, OTHER) == ()

    def test_tables_that_share_a_stream_have_the_same_gap_and_it_is_accepted_for_all_of_them_or_for_those_that_are_named(
        self, store: SqlStateStore
    ) -> None:
        third = TableName(schema="shop", name="third")
        for table in (ORDERS, OTHER, third):
            store.report_gaps(take(store, table=table), [GAP])
        [gap_id] = {record.gap_id for record in store.archive_gaps(PIPELINE)}
        [one] = store.accept_gap(PIPELINE, gap_id, who="ann", why="expired", tables=(third,))
        assert one.table == third
        assert {record.table: record.status for record in store.archive_gaps(PIPELINE)} == {
            ORDERS: GapStatus.OPEN,
            OTHER: GapStatus.OPEN,
            third: GapStatus.ACCEPTED,
        }
        every = store.accept_gap(PIPELINE, gap_id, who="ops", why="expired")
        assert {record.table: record.decision and record.decision.who for record in every} == {ORDERS: "ops", OTHER: "ops", third: "ann"}
        with pytest.raises(RequestError, match=r"no open gap .* of shop\.absent"):
            store.accept_gap(PIPELINE, gap_id, who="ops", why="expired", tables=(TableName(schema="shop", name="absent"),))
