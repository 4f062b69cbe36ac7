"""Each rule for files that come late, longer, half, twice, empty, or go away; and what is consumed when the ledger is lost."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from cdc_ops.core import json_codec
from cdc_ops.core.archive.completeness import check_completeness, covers_of
from cdc_ops.core.archive.file_names import FileName, Layout, parse_name
from cdc_ops.core.archive.files import (
    ArrivalRules,
    FileRecord,
    FileStatus,
    FileStatusChange,
    ListedFile,
    ListedRange,
    check_frozen,
    classify,
    consumed_records,
    diff_listing,
    files_below,
    freeze,
    frozen_records,
    ledger_records,
)
from cdc_ops.core.archive.watermarks import ArchiveWatermark, OffsetRange, PartitionWatermark
from cdc_ops.core.operation.operation import OperationKind
from cdc_ops.core.operation.protocol.commit_record import CommitRecord
from cdc_ops.core.operation.protocol.table_state import rebuilt
from cdc_ops.core.schema.tables import TableName
from cdc_ops.errors import ArchiveChangedError
from tests.operations import made

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
OLD = NOON - timedelta(hours=1)
RULES = ArrivalRules(min_file_age=timedelta(minutes=1))


def listed(path: str = "a", size: int = 10, etag: str = "e1", modified: datetime | None = OLD) -> ListedFile:
    return ListedFile(path=path, size=size, etag=etag, modified=modified)


def known(file: ListedFile, status: FileStatus = FileStatus.CONSUMED, since: datetime = OLD) -> FileRecord:
    return FileRecord(file=file, status=status, since=since)


@pytest.mark.parametrize(
    ("file", "record", "verdict"),
    [
        (listed(), None, FileStatusChange.NEW),
        (listed(), known(listed()), FileStatusChange.SAME),
        (listed(size=20, etag="e2"), known(listed()), FileStatusChange.LONGER),
        (listed(size=5, etag="e2"), known(listed()), FileStatusChange.SHORTER),
        (listed(etag="e2"), known(listed()), FileStatusChange.REPLACED),
        (listed(etag="", modified=OLD), known(listed(etag="", modified=OLD - timedelta(days=1))), FileStatusChange.REPLACED),
        (listed(modified=OLD), known(listed(modified=OLD - timedelta(days=1))), FileStatusChange.SAME),
        (listed(size=0), None, FileStatusChange.EMPTY),
        (listed(size=0), known(listed(size=0)), FileStatusChange.SAME),
        (listed(), known(listed(size=0, etag="e0")), FileStatusChange.LONGER),
        (listed(), known(listed(), FileStatus.WAITING), FileStatusChange.NEW),
        (listed(), known(listed(), FileStatus.LOST), FileStatusChange.NEW),
        (listed(), known(listed(), FileStatus.FROZEN), FileStatusChange.NEW),
    ],
    ids=[
        "new", "known", "re-uploaded longer", "re-uploaded shorter", "same size, other etag", "same size, other time, no etag",
        "touched, same etag", "empty", "still empty", "empty before", "waited", "lost and back", "of a plan that was given up",
    ],
)  # fmt: skip
def test_a_listed_file_is_judged_by_what_is_known_of_it(file: ListedFile, record: FileRecord | None, verdict: FileStatusChange) -> None:
    assert classify(file, record, NOON, RULES) is verdict


@pytest.mark.parametrize("size", [10, 0])
def test_a_file_that_was_just_written_waits_by_the_stores_clock(size: int) -> None:
    file = listed(size=size, modified=NOON - timedelta(seconds=59))
    assert classify(file, None, NOON, RULES) is FileStatusChange.WAIT
    assert classify(file, None, NOON + timedelta(seconds=1), RULES) is not FileStatusChange.WAIT
    assert classify(file, None, NOON, ArrivalRules(min_file_age=timedelta(0))) is not FileStatusChange.WAIT


def test_a_file_without_times_settles_by_two_listings_of_the_same_form() -> None:
    file = listed(modified=None)
    assert classify(file, None, NOON, RULES) is FileStatusChange.WAIT
    first = ledger_records(diff_listing([file], {}, NOON, RULES), {}, NOON)
    assert [record.status for record in first] == [FileStatus.WAITING]
    later = NOON + timedelta(minutes=2)
    assert classify(file, first[0], later, RULES) is FileStatusChange.NEW
    grown = replace(file, size=11, etag="e2")
    assert classify(grown, first[0], later, RULES) is FileStatusChange.WAIT
    again = ledger_records(diff_listing([grown], {"a": first[0]}, later, RULES), {"a": first[0]}, later)
    assert again[0].since == later


def test_a_file_that_waits_unchanged_keeps_the_time_at_which_it_was_first_seen() -> None:
    file = listed(modified=None)
    record = known(file, FileStatus.WAITING, NOON)
    soon = NOON + timedelta(seconds=5)
    assert ledger_records(diff_listing([file], {"a": record}, soon, RULES), {"a": record}, soon) == ()


def test_a_file_that_ends_in_the_middle_of_something_waits_however_old_it_is() -> None:
    assert classify(listed(), None, NOON, ArrivalRules(min_file_age=timedelta(0), unfinished=frozenset({"a"}))) is FileStatusChange.WAIT


def test_a_consumed_file_that_grows_waits_and_is_read_again_when_it_has_settled() -> None:
    before = {"a": known(listed())}
    grown = listed(size=20, etag="e2", modified=NOON)
    stock = diff_listing([grown], before, NOON, RULES)
    assert stock.with_status(FileStatusChange.WAIT) == (grown,)
    assert ledger_records(stock, before, NOON) == ()  # what was consumed stays on record, to tell later that it is longer
    assert diff_listing([grown], before, NOON + timedelta(minutes=1), RULES).with_status(FileStatusChange.LONGER) == (grown,)


def test_a_stock_counts_what_is_known_once_and_warns_of_what_should_not_happen() -> None:
    files = [listed("a"), listed("a"), listed("b", 5, "e2"), listed("c", etag="e2"), listed("d")]
    stock = diff_listing(files, {path: known(listed(path)) for path in "abc"}, NOON, RULES)
    assert (stock.same, [file.path for file in stock.to_read]) == (1, ["b", "c", "d"])
    assert [warning.split()[0] for warning in stock.warnings] == ["b", "c"]


def test_a_file_that_lifecycle_rules_removed_is_gone_after_it_was_consumed_and_lost_before() -> None:
    records = {"t/a": known(listed("t/a")), "t/b": known(listed("t/b"), FileStatus.WAITING), "u/c": known(listed("u/c"))}
    stock = diff_listing([], records, NOON, RULES, [ListedRange(prefix="t/")])
    assert [record.file.path for record in stock.gone] == ["t/a"]
    assert [record.file.path for record in stock.lost] == ["t/b"]
    assert stock.warnings == ("t/b was removed before cdc-ops consumed it",)
    kept = ledger_records(stock, records, NOON)
    assert {record.file.path: record.status for record in kept} == {"t/b": FileStatus.LOST}
    assert diff_listing([], {record.file.path: record for record in kept}, NOON, RULES, [ListedRange()]).lost == ()


def test_only_what_was_listed_as_a_whole_can_be_missing() -> None:
    records = {path: known(listed(path)) for path in ("t/a", "t/c")}
    assert [record.file.path for record in diff_listing([], records, NOON, RULES, [ListedRange(prefix="t/", after="t/b")]).gone] == ["t/c"]
    assert diff_listing([], records, NOON, RULES).gone == ()


# ---------------------------------------------------------------------------------------------- frozen lists


def test_a_frozen_list_is_the_same_for_every_try() -> None:
    files = freeze([listed("b"), listed("a")])
    check_frozen(files, {"a": listed("a", modified=NOON), "b": listed("b"), "c": listed("c")})
    assert [record.file.path for record in frozen_records(files, "op-1", "run-1", NOON)] == ["a", "b"]
    assert json_codec.loads(type(files), json_codec.dumps(files)) == files


@pytest.mark.parametrize(
    ("now", "text"),
    [(None, "b is gone"), (listed("b", 1234), "b has 1,234 bytes, not 10"), (listed("b", etag="e2"), "b has other contents")],
)
def test_a_try_is_refused_when_one_of_its_files_has_changed_since(now: ListedFile | None, text: str) -> None:
    present = {"a": listed("a")} | ({"b": now} if now else {})
    with pytest.raises(ArchiveChangedError, match=text) as caught:
        check_frozen(freeze([listed("a"), listed("b")]), present)
    assert caught.value.retryable
    assert "1 of 2 files" in str(caught.value)


def test_what_reading_showed_is_kept_with_the_file() -> None:
    cover = OffsetRange(file="a", stream="t/0", low=(0,), high=(7,))
    done = consumed_records(frozen_records(freeze([listed("a")]), "op-1", "run-1", OLD), [cover], NOON)
    assert [(record.status, record.covers, record.since, record.operation_id) for record in done] == [
        (FileStatus.CONSUMED, (cover,), NOON, "op-1")
    ]
    assert json_codec.loads(FileRecord, json_codec.dumps(done[0])) == done[0]


# ---------------------------------------------------------------------------------------------- the ledger is lost


def names(*offsets: int, partition: int = 0) -> list[FileName]:
    parsed = (parse_name(Layout.KAFKA_CONNECT, f"t/partition={partition}/t+{partition}+{offset:010}.json") for offset in offsets)
    return [name for name in parsed if not hasattr(name, "why")]


def test_the_watermark_says_which_files_were_consumed() -> None:
    mark = ArchiveWatermark(streams=(PartitionWatermark(stream="t/0", to=(250,)), PartitionWatermark(stream="t/1", to=(100,))))
    passed = files_below(names(0, 100, 200, 300) + names(0, 100, partition=1) + names(0, partition=2), mark)
    assert passed == {"t/partition=0/t+0+0000000000.json", "t/partition=0/t+0+0000000100.json", "t/partition=1/t+1+0000000000.json"}


def test_binlogs_before_the_one_that_was_being_read_were_consumed() -> None:
    files = [parse_name(Layout.BINLOG, f"mysql-bin.{number:06}") for number in (999998, 999999, 1000000)]
    mark = ArchiveWatermark(streams=(PartitionWatermark(stream="mysql-bin", to=(999999, 4711)),))
    assert files_below(files, mark) == {"mysql-bin.999998"}  # type: ignore[arg-type]


def test_after_the_ledger_is_lost_the_delta_commit_says_where_to_go_on_and_nothing_is_lost_or_believed() -> None:
    table = TableName(schema="shop", name="orders")
    before = ArchiveWatermark(streams=(PartitionWatermark(stream="t/0", to=(250,)),))
    record = made(CommitRecord,
        pipeline="shop", table=table, generation=1, op_seq=7, operation_id="op-7", run_id="r", kind=OperationKind.INCREMENT,
        package_version="1", archive=before,
    )  # fmt: skip
    state = rebuilt(json_codec.loads(CommitRecord, json_codec.dumps(record)), 3)
    assert state.progress.archive == before
    files = names(0, 100, 200, 300)
    passed = files_below(files, state.progress.archive)
    left = [name for name in files if name.path not in passed]
    assert [name.path[-15:] for name in left] == ["0000000200.json", "0000000300.json"]
    contents = {
        name.path: (OffsetRange(file=name.path, stream="t/0", low=(low,), high=(low + 100,)),)
        for name, low in zip(left, (200, 300), strict=True)
    }
    assert check_completeness("t/0", (250,), covers_of(left, contents)).to == (400,)
    # A passed file that went on beyond the watermark cannot hide a loss: what only it holds is a gap.
    assert check_completeness("t/0", (250,), covers_of(left[1:], contents)).gaps
