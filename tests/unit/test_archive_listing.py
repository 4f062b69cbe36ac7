"""What has to be listed: the new files, not the 100,000 that are there; and nothing that can be new is left out."""

import os
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdc_ops.archives.local import LocalArchive
from cdc_ops.archives.registry import open_archive
from cdc_ops.archives.remote import FsspecArchive
from cdc_ops.core.archive.file_names import FileName, IgnoredFile, Layout, UnrecognizedFile, parse_name
from cdc_ops.core.archive.files import ListedRange
from cdc_ops.core.archive.listing import EVERYTHING, ListingMark, Scope, due_scope, merged_ranges, new_folders, next_ranges, parents
from cdc_ops.core.archive.watermarks import ArchiveWatermark, PartitionWatermark
from cdc_ops.errors import ArchiveError, ConfigError, EnvironmentSetupError

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
DAY = timedelta(days=1)


def names(layout: Layout, *paths: str) -> Iterator[FileName]:
    for path in paths:
        name = parse_name(layout, path)
        assert not isinstance(name, UnrecognizedFile | IgnoredFile), name
        yield name


def at(**positions: int) -> ArchiveWatermark:
    return ArchiveWatermark(streams=tuple(PartitionWatermark(stream=f"t/{name[1:]}", to=(to,)) for name, to in positions.items()))


def kafka(partition: int, offset: int, digits: int = 10) -> str:
    return f"t/partition={partition}/t+{partition}+{offset:0{digits}}.json"


@given(st.lists(st.integers(0, 3 * 10**10), min_size=1, max_size=30, unique=True), st.integers(0, 3 * 10**10), st.integers(1, 10**7))
def test_no_file_behind_the_watermark_is_left_out_whatever_its_digits(known: list[int], watermark: int, step: int) -> None:
    ranges = next_ranges(names(Layout.KAFKA_CONNECT, *(kafka(0, offset) for offset in known)), at(p0=watermark))
    begun = [offset for offset in known if offset <= watermark]
    fresh = [offset for offset in known if offset >= max(begun, default=0)] + [max(known) + step]
    assert all(any(part.holds(kafka(0, offset)) for part in ranges) for offset in fresh)


def test_a_listing_starts_at_the_file_in_which_the_watermark_lies() -> None:
    files = list(names(Layout.KAFKA_CONNECT, *(kafka(0, offset) for offset in range(0, 100_000, 100)), kafka(1, 0)))
    one, other = next_ranges(files, at(p0=99_850))
    listed = [name.path for name in files if one.holds(name.path)]
    assert listed == [kafka(0, 99_800), kafka(0, 99_900)]
    assert other == ListedRange(prefix="t/partition=1/")  # nothing of it was read yet


def test_binlogs_near_a_new_digit_are_listed_from_the_beginning() -> None:
    def after(number: int) -> str:
        mark = ArchiveWatermark(streams=(PartitionWatermark(stream="db1/mysql-bin", to=(number, 4)),))
        return next_ranges(names(Layout.BINLOG, f"db1/mysql-bin.{number:06}"), mark)[0].after

    assert after(989_999) == "db1/mysql-bin.98999"
    assert after(990_000) == after(999_999) == ""


def test_a_folder_of_binlogs_that_one_call_lists_is_listed_as_a_whole_so_that_replaced_ones_are_seen_at_once() -> None:
    mark = ArchiveWatermark(streams=(PartitionWatermark(stream="db1/mysql-bin", to=(500, 0)),))
    for count, after in ((999, ""), (1000, "db1/mysql-bin.00050")):
        files = names(Layout.BINLOG, *(f"db1/mysql-bin.{number:06}" for number in range(1, count + 1)))
        assert [part.after for part in next_ranges(files, mark, listed=EVERYTHING)] == [after]


@pytest.mark.parametrize(
    "paths",
    [
        ("t/region=eu/t+0+0000000000.json", "t/region=us/t+0+0000000005.json"),
        ("all/t+0+0000000000.json", "all/t+1+0000000000.json"),
        ("t/year=2026/month=1/day=31/t+0+0000000000.json",),
        (),
    ],
    ids=["folders of values", "two partitions in one folder", "months that do not sort", "nothing"],
)
def test_where_names_do_not_sort_by_position_everything_is_listed(paths: tuple[str, ...]) -> None:
    assert next_ranges(names(Layout.KAFKA_CONNECT, *paths), at(p0=3)) == EVERYTHING


def test_unpadded_offsets_are_listed_from_the_beginning() -> None:
    assert next_ranges(names(Layout.AIVEN, "x/t-0-5", "x/t-0-10"), at(p0=12)) == (ListedRange(prefix="x/"),)
    assert next_ranges(names(Layout.PLAIN, "a.json"), at()) == EVERYTHING


@pytest.mark.parametrize(("hours", "after"), [("/hour=12", "t/year=2026/month=01/day=30/hour=12"), ("", "t/year=2026/month=01/day=30")])
def test_folders_by_time_are_listed_from_the_newest_back(hours: str, after: str) -> None:
    days = (f"t/year=2026/month=01/day={day}{hours}/t+{day % 3}+00000000{day}.json" for day in range(10, 32))
    (found,) = next_ranges(names(Layout.KAFKA_CONNECT, *days), at(), DAY)
    assert found == ListedRange(prefix="t/", after=after)
    assert found.holds(f"t/year=2026/month=01/day=30{hours}/t+0+1.json")
    assert found.holds("t/year=2026/month=02/day=01/hour=00/t+0+1.json")


@pytest.mark.parametrize("folder", ["shop/orders/", "shop/orders/2026/01/{day}/"])
def test_dms_tables_are_listed_from_the_newest_day_back(folder: str) -> None:
    paths = [f"{folder.format(day=day)}202601{day}-101010000.csv" for day in range(10, 32)]
    (found,) = next_ranges(names(Layout.AWS_DMS, "shop/orders/LOAD00000001.csv", *paths), at(), DAY)
    assert (found.prefix, found.after) == ("shop/orders/", paths[-3])


def test_everything_is_listed_at_first_when_asked_and_from_time_to_time_by_the_stores_clock() -> None:
    mark = ListingMark(ranges=(ListedRange(prefix="t/"),), full_at=NOON)
    assert due_scope(None, NOON, DAY) is Scope.FULL
    assert due_scope(mark, NOON + DAY - timedelta(seconds=1), DAY) is Scope.INCREMENTAL
    assert due_scope(mark, NOON + DAY, DAY) is Scope.FULL
    assert due_scope(mark, NOON, DAY, forced=True) is Scope.FULL
    assert due_scope(mark, NOON, timedelta(0)) is Scope.FULL


def test_new_partitions_topics_and_tables_are_looked_for_beside_those_that_are_known() -> None:
    ranges = [ListedRange(prefix="topics/t/partition=0/", after="x"), ListedRange(prefix="topics/t/partition=1/")]
    assert parents(ranges) == ("", "topics/", "topics/t/")
    found = ["topics/", "topics/t/", "topics/u/", "topics/t/partition=0/", "topics/t/partition=2/"]
    assert [part.prefix for part in new_folders(found, ranges)] == ["topics/t/partition=2/", "topics/u/"]


def test_a_range_in_which_nothing_was_found_stays_as_it_was() -> None:
    old = [ListedRange(prefix="a/", after="a/5"), ListedRange(prefix="b/", after="b/5")]
    new = [ListedRange(prefix="b/", after="b/6"), ListedRange(prefix="c/")]
    assert [part.after for part in merged_ranges(old, new, Scope.INCREMENTAL)] == ["a/5", "b/6", ""]
    assert merged_ranges(old, EVERYTHING, Scope.INCREMENTAL) == tuple(old)
    assert merged_ranges(old, new, Scope.FULL) == tuple(new)


# ---------------------------------------------------------------------------------------------- folders of this machine


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in (kafka(0, 0), kafka(0, 100), kafka(0, 200), kafka(1, 0), "u/notes.txt"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x" * 7)
    return tmp_path


def test_a_folder_is_listed_with_sizes_times_and_a_clock(folder: Path) -> None:
    os.utime(folder / kafka(0, 0), (1_700_000_000.5, 1_700_000_000.5))
    listing = open_archive(str(folder)).list(EVERYTHING)
    assert [file.path for file in listing.files] == sorted([kafka(0, 0), kafka(0, 100), kafka(0, 200), kafka(1, 0), "u/notes.txt"])
    assert listing.files[0].modified == datetime.fromtimestamp(1_700_000_000.5, UTC)
    assert {file.size for file in listing.files} == {7}
    assert listing.clock.tzinfo is UTC


def test_a_range_of_a_folder_reads_only_the_folders_that_it_reaches_into(folder: Path) -> None:
    archive = open_archive(f"file://{folder}")
    listing = archive.list([ListedRange(prefix="t/partition=0/", after=kafka(0, 100))])
    assert ([file.path for file in listing.files], listing.calls) == ([kafka(0, 200)], 1)
    late = archive.list([ListedRange(after=kafka(1, 0)[:-1])])
    assert [file.path for file in late.files] == [kafka(1, 0), "u/notes.txt"]
    assert archive.list([ListedRange(prefix="nowhere/")]).files == ()


def test_folders_state_and_last_bytes_of_a_folder(folder: Path) -> None:
    archive = LocalArchive(str(folder))
    assert archive.folders("") == ("t/", "u/")
    assert archive.folders("t/") == ("t/partition=0/", "t/partition=1/")
    assert archive.folders("none/") == ()
    assert list(archive.stat(["u/notes.txt", "gone", "t"])) == ["u/notes.txt"]
    assert (archive.tail("u/notes.txt", 3), archive.tail("u/notes.txt", 99)) == (b"xxx", b"x" * 7)
    assert (archive.head("u/notes.txt", 3), archive.head("u/notes.txt", 99)) == (b"xxx", b"x" * 7)


def test_an_archive_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ArchiveError, match=r"No archive exists at .*nowhere"):
        open_archive(f"{tmp_path}/nowhere").list(EVERYTHING)


def test_a_url_that_names_nothing_is_refused() -> None:
    for url in ("", "s3://"):
        with pytest.raises(ConfigError, match="is not the URL of an archive"):
            open_archive(url)
    with pytest.raises(EnvironmentSetupError, match=r"oss:// is not installed[^|]*next: pip install -c constraints.txt '\.\[oss\]'"):
        open_archive("oss://bucket/prefix")


@pytest.mark.parametrize(("written", "expected"), [("false", False), ("False", False), ("true", True)])
def test_yes_and_no_among_the_options_of_a_store_are_no_texts(written: str, expected: bool) -> None:
    archive = open_archive("s3://bucket/prefix", {"anon": written, "endpoint_url": "http://store:9000"})
    assert isinstance(archive, FsspecArchive)
    store = archive._filesystem
    assert (store.anon, store.endpoint_url) == (expected, "http://store:9000")
