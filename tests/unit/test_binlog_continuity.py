"""Whether binlogs follow each other: by GTIDs, without them by the server's clock and the ends of files; what nothing proves is a gap."""

import io
import os
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from cdc_ops.archives.local import LocalArchive
from cdc_ops.core.archive.binlogs.binlog_facts import BinlogFacts
from cdc_ops.core.archive.binlogs.binlog_sequence import check_sequence, facts_of, is_proven_whole, why_not_next
from cdc_ops.core.archive.files import FileRecord, FileStatus, ListedFile
from cdc_ops.core.archive.listing import EVERYTHING
from cdc_ops.core.archive.watermarks import ArchiveWatermark, PartitionWatermark
from cdc_ops.core.operation.binlog_order import last_binlog, transactions_after
from cdc_ops.core.operation.log_batch import LogBatch
from cdc_ops.core.operation.verified_batch import after_reading
from cdc_ops.core.pipeline.archive_config import ArchiveConfig
from cdc_ops.core.schema.tables import TableName
from cdc_ops.errors import ArchiveOrderError, BinlogCutError
from cdc_ops.events.binlog.decoder import BinlogFile
from cdc_ops.steps.archive.parsed_names import parsed_names
from cdc_ops.steps.archive.replaced_binlogs import KnownFiles, check_not_replaced
from cdc_ops.steps.log.event_files import covers_of_files
from tests.binlog_files import BinlogWriter, read_file

MYSQL = "9.7.0"
BEGUN = 1_700_000_000
ITEMS = TableName(schema="shop", name="items")
RULES = ArchiveConfig.of(url="/binlogs", format="mysql-binlog", layout="binlog", min_file_age=timedelta(0))


def name(number: int) -> str:
    return f"binlog.{number:06}"


def writer(number: int, rows: int = 2, *, begun: int = 0, created: int = 0, server_id: int = 1) -> BinlogWriter:
    """A binlog of a MySQL without GTIDs; each is open for 100 seconds."""
    at = begun or BEGUN + 100 * number
    made = BinlogWriter(version=MYSQL, time=at, created=created, server_id=server_id)
    made.no_gtids()
    for key in range(rows):
        made.anonymous((10 * number + key, "x"))
    made.time = at + 100
    return made


def closed(number: int, **settings: int) -> bytes:
    return writer(number, **settings).rotate(name(number + 1))


def facts(number: int, data: bytes) -> BinlogFacts:
    return facts_of(name(number), BinlogFile.open(name(number), lambda: io.BytesIO(data)).scan)


def batch(numbers: tuple[int, ...], before: ArchiveWatermark | None = None) -> LogBatch:
    files = tuple(ListedFile(path=name(number), size=1) for number in numbers)
    return LogBatch(archive=RULES, url="/binlogs", files=files, before=before or ArchiveWatermark())


def stands_behind(last: BinlogFacts, number: int) -> ArchiveWatermark:
    return ArchiveWatermark(streams=(PartitionWatermark(stream="binlog", to=(number + 1, 0)),), last_binlog=last)


def test_a_binlog_without_an_end_before_another_one_is_a_gap_where_nothing_proves_that_it_is_whole() -> None:
    """A copy that was taken while the server wrote the file looks like one that a crash left."""
    early = writer(1)
    first, second = facts(1, bytes(early.data)), facts(2, closed(2))
    check_sequence((first, second))
    log = batch((1, 2))
    files = [read_file(first), read_file(second)]
    proven = after_reading(log, covers_of_files(files, log, ITEMS), table="t")
    [gap] = proven.gaps
    assert (gap.low, gap.high, gap.before_file) == ((1, len(early.data)), (2, 0), name(2))
    assert proven.merged == (name(1),)  # what is in it is not lost
    assert proven.watermark.position_of("binlog") == (1, len(early.data))

    whole = after_reading(log, covers_of_files([read_file(facts(1, closed(1))), read_file(second)], log, ITEMS), table="t")
    assert (whole.gaps, whole.watermark.position_of("binlog")) == ((), (3, 0))


def test_gtids_or_the_archiver_prove_that_a_crash_left_a_binlog_without_an_end() -> None:
    crashed, restarted, rotated = facts(1, bytes(writer(1).data)), facts(2, closed(2, created=1)), facts(2, closed(2))
    assert is_proven_whole(crashed, restarted, is_checked_copy=True)
    assert not is_proven_whole(crashed, restarted, is_checked_copy=False)
    assert not is_proven_whole(crashed, rotated, is_checked_copy=True)  # the server went on: no crash, and no end
    files = []
    for number, before in ((1, 4), (2, 6)):
        with_gtids = BinlogWriter()
        with_gtids.gtid_list((0, 1, before))
        with_gtids.transaction(before + 1, (1, "x"))
        with_gtids.transaction(before + 2, (2, "x"))
        files.append(facts(number, bytes(with_gtids.data)))
    assert is_proven_whole(files[0], files[1], is_checked_copy=False)
    mixed = writer(1)
    mixed.event(33, bytes(1) + bytes(range(16)) + (7).to_bytes(8, "little"))
    mixed.query("BEGIN")
    mixed.commit()
    assert not facts(1, bytes(mixed.data)).numbered  # some of its transactions have none, so that the next file need not list them
    assert not facts(1, closed(1, rows=0)).numbered


def test_without_gtids_a_file_follows_if_the_server_closed_the_one_and_began_the_other_at_once() -> None:
    first = facts(1, closed(1))
    assert why_not_next(first, facts(2, closed(2))) == ""
    for wrong, why in (
        (closed(2, begun=BEGUN + 10_000), "closed at 2023-11-14 22:16:40, and the other begun at 2023-11-15"),
        (closed(2, begun=BEGUN), "by the server's clock"),
        (closed(2, server_id=2), "server 1; , and the other begins with server 2; "),
    ):
        with pytest.raises(ArchiveOrderError, match=r"binlog.000002 does not follow binlog.000001") as refused:
            check_sequence((first, facts(2, wrong)))
        assert why in str(refused.value)
    down = writer(1)
    down.event(3, b"")
    stopped = facts(1, bytes(down.data))
    assert why_not_next(stopped, facts(2, closed(2, begun=BEGUN + 10_000, created=1))) == ""
    assert "does not begin with its start" in why_not_next(stopped, facts(2, closed(2)))
    assert "by the server's clock" in why_not_next(stopped, facts(2, closed(2, begun=BEGUN, created=1)))


def test_a_file_that_ends_with_the_name_of_another_one_is_refused() -> None:
    for wrong in ("binlog.000003", "binlog.000001", "other.000002"):
        with pytest.raises(ArchiveOrderError, match=f"it ends with the name of {wrong}"):
            check_sequence((facts(1, writer(1).rotate(wrong)), facts(2, closed(2))))
    check_sequence((facts(1, closed(1)), facts(2, closed(2))))


def test_a_file_that_ends_within_a_transaction_is_refused_in_the_middle_and_at_the_end() -> None:
    cut = writer(1)
    at = cut.query("BEGIN")
    for files in ((facts(1, bytes(cut.data)),), (facts(1, bytes(cut.data)), facts(2, closed(2)))):
        with pytest.raises(BinlogCutError, match=f"a transaction that begins at byte {at} does not end"):
            check_sequence(files)
    with pytest.raises(BinlogCutError, match="no later file is there"):
        check_sequence((facts(1, closed(1)), facts(2, bytes(writer(2).data))))


def test_the_watermark_carries_what_the_last_binlog_says_so_that_the_next_batch_is_held_to_it() -> None:
    files = [read_file(facts(number, closed(number))) for number in (1, 2)]
    last = last_binlog(batch((1, 2)), files, (name(1), name(2)))
    assert last == files[1].binlog
    assert last_binlog(batch((1, 2)), files, (name(1),)) == files[0].binlog
    assert last is not None
    before = stands_behind(last, 2)
    assert last_binlog(batch((), before), [], ()) == last
    for number, data in ((3, closed(3)), (2, closed(2))):  # the next one, or the same once more
        transactions_after(batch((number,), before), [read_file(facts(number, data))])
    for number, data in ((3, closed(3, begun=BEGUN + 5_000)), (2, closed(2, begun=BEGUN + 5_000))):
        with pytest.raises(ArchiveOrderError, match=f"{name(number)} of /binlogs does not go on where the table stands"):
            transactions_after(batch((number,), before), [read_file(facts(number, data))])


def test_binlogs_that_are_copied_over_old_names_after_a_reset_stop_the_table(tmp_path: Path) -> None:
    archive = LocalArchive(str(tmp_path))
    known = {}
    for number in (1, 2, 3):
        (tmp_path / name(number)).write_bytes(closed(number))
        os.utime(tmp_path / name(number), (BEGUN, BEGUN))
    listing = archive.list(EVERYTHING)
    for file in listing.files:
        known[file.path] = FileRecord(file=file, status=FileStatus.CONSUMED, since=listing.clock)
    before = stands_behind(facts(3, closed(3)), 3)

    def check(records: dict[str, FileRecord]) -> None:
        now = archive.list(EVERYTHING)
        files = KnownFiles(listed={file.path: file for file in now.files}, known=records, since=listing.clock - timedelta(days=1))
        check_not_replaced(archive, parsed_names(RULES, now)[0], files, before)

    check(known)
    (tmp_path / name(1)).write_bytes(closed(1, rows=5))  # a longer copy of the same file is read again
    (tmp_path / name(3)).write_bytes(closed(3, rows=5))
    check(known)
    check({})
    for number in (1, 3):
        held = (tmp_path / name(number)).read_bytes()
        (tmp_path / name(number)).write_bytes(closed(number, begun=BEGUN + 10_000))
        for records in (known, {}):  # the ledger may be lost
            with pytest.raises(ArchiveOrderError, match=rf"{name(number)} was replaced by a binlog of another sequence"):
                check(records)
        (tmp_path / name(number)).write_bytes(held)
    before = replace(before, last_binlog=None)
    check(known)
