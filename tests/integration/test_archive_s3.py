"""Archives on a real S3 endpoint: paging, starting after a name, the store's clock, and what the endpoint refuses."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from cdc_ops.archives.base import Archive
from cdc_ops.archives.registry import open_archive
from cdc_ops.archives.remote import FsspecArchive
from cdc_ops.core.archive.file_names import Layout
from cdc_ops.core.archive.files import FileStatusChange, ListedRange, consumed_records, frozen_records
from cdc_ops.core.archive.listing import EVERYTHING, Scope
from cdc_ops.core.archive.watermarks import ArchiveWatermark, OffsetRange
from cdc_ops.core.operation.log_batch import LogBatch
from cdc_ops.core.operation.verified_batch import after_reading
from cdc_ops.core.pipeline.archive_config import ArchiveConfig
from cdc_ops.core.schema.tables import TableName
from cdc_ops.dev.object_store import ObjectStore
from cdc_ops.errors import ArchiveChangedError, ArchiveError, ArchiveUnreachableError
from cdc_ops.state.sql import open_store
from cdc_ops.steps.archive.frozen_files import check_unchanged, record_scan
from cdc_ops.steps.archive.scan import scan_archive
from tests.state_values import PIPELINE, take


def key(offset: int, partition: int = 0, prefix: str = "many") -> str:
    return f"{prefix}/t/partition={partition}/t+{partition}+{offset:010}.json"


def cover(path: str, low: int, high: int) -> OffsetRange:
    return OffsetRange(file=path, stream="t/0", low=(low,), high=(high,))


@pytest.fixture(scope="module")
def many(object_store: ObjectStore) -> Iterator[Archive]:
    """2,500 files: three pages."""
    object_store.put_many({key(offset * 10): b"x" * 10 for offset in range(2500)} | {"many/t/": b"", "manyother/file": b"x"})
    archive = open_archive(f"s3://{object_store.bucket}/many/", object_store.options)
    yield archive
    archive.close()


def test_a_listing_pages_through_everything_and_shows_the_stores_clock(many: Archive) -> None:
    listing = many.list(EVERYTHING)
    assert (len(listing.files), listing.calls) == (2500, 3)
    assert listing.files[1].path == "t/partition=0/t+0+0000000010.json"
    assert listing.files[1].size == 10
    assert listing.files[1].etag
    assert abs(listing.clock - datetime.now(UTC)) < timedelta(minutes=1)
    assert listing.files[1].modified is not None
    assert listing.files[1].modified <= listing.clock + timedelta(seconds=1)


def test_a_range_asks_only_for_what_comes_after_a_name(many: Archive) -> None:
    part = ListedRange(prefix="t/partition=0/", after="t/partition=0/t+0+0000024980.jso")
    listing = many.list([part])
    assert ([file.path[-7:] for file in listing.files], listing.calls, listing.entries) == (["80.json", "90.json"], 1, 2)
    assert many.folders("t/") == ("t/partition=0/",)
    assert many.folders("") == ("t/",)


def test_single_files_are_asked_for_and_their_ends_read(many: Archive) -> None:
    found = many.stat(["t/partition=0/t+0+0000000010.json", "t/partition=0/gone.json"])
    assert [file.size for file in found.values()] == [10]
    assert found["t/partition=0/t+0+0000000010.json"].same_as(many.list(EVERYTHING).files[1])
    assert many.tail("t/partition=0/t+0+0000000010.json", 4) == b"xxxx"
    assert many.head("t/partition=0/t+0+0000000010.json", 4) == b"xxxx"


def test_a_store_that_fsspec_can_only_list_as_a_whole_shows_the_same_files(many: Archive, object_store: ObjectStore) -> None:
    whole = FsspecArchive("s3", f"{object_store.bucket}/many", object_store.options)
    part = [ListedRange(prefix="t/", after="t/partition=0/t+0+0000024980.jso")]
    assert whole.list(part).files == many.list(part).files
    assert whole.folders("t/") == ("t/partition=0/",)


def test_a_store_that_is_not_there_or_has_no_such_bucket_is_named(object_store: ObjectStore) -> None:
    with pytest.raises(ArchiveError, match="The bucket 'nowhere' does not exist"):
        open_archive("s3://nowhere/x", object_store.options).list(EVERYTHING)
    closed = {"endpoint_url": "http://127.0.0.1:9", "config_kwargs": {"retries": {"max_attempts": 0}, "connect_timeout": 1}}
    with pytest.raises(ArchiveUnreachableError, match=r"archive s3://bucket/x does not answer") as caught:
        open_archive("s3://bucket/x", object_store.options | closed).list(EVERYTHING)
    assert caught.value.retryable


def test_runs_on_s3_read_what_is_new_and_see_gaps_longer_and_removed_files(
    object_store: ObjectStore, tmp_path_factory: pytest.TempPathFactory
) -> None:
    archive, name = open_archive(f"s3://{object_store.bucket}/runs", object_store.options), TableName(schema="shop", name="s3")
    rules = ArchiveConfig.of(layout=Layout.KAFKA_CONNECT, min_file_age=timedelta(0))
    object_store.put_many({key(offset, prefix="runs"): b"x" * 10 for offset in (0, 10, 20)})
    with open_store(f"sqlite:///{tmp_path_factory.mktemp('ledger')}/ledger.db") as store:
        lease = take(store, table=name)
        first = scan_archive(archive, rules, store, (PIPELINE, name), None)
        records = frozen_records(first.files, "op", "run", first.listing.clock)
        covers = [cover(file.path, at, at + 10) for file, at in zip(first.files.files, (0, 10, 20), strict=True)]
        config = ArchiveConfig(url="archive")
        batch = LogBatch(archive=config, url="archive", files=first.files.files, before=ArchiveWatermark())
        watermark = after_reading(batch, covers, table="t").watermark
        record_scan(store, lease, first)
        store.put_files(lease, consumed_records(records, covers, first.listing.clock))
        check_unchanged(archive, first.files)

        object_store.put_many({key(20, prefix="runs"): b"x" * 15, key(35, prefix="runs"): b"x" * 5})
        object_store.remove(key(0, prefix="runs"))
        with pytest.raises(ArchiveChangedError, match="2 of 3 files"):
            check_unchanged(archive, first.files)
        second = scan_archive(archive, rules, store, (PIPELINE, name), watermark)
        assert (second.scope, second.stock.with_status(FileStatusChange.LONGER)[0].size) == (Scope.INCREMENTAL, 15)
        record_scan(store, lease, second)

        object_store.put_many({key(50, prefix="runs"): b"x"})
        held = [cover(file.path, *ends) for file, ends in zip(second.files.files, ((20, 35), (35, 40)), strict=True)]
        records = frozen_records(second.files, "op", "run", second.listing.clock)
        watermark = after_reading(replace(batch, files=second.files.files, before=watermark), held, table="t").watermark
        store.put_files(lease, consumed_records(records, held, second.listing.clock))
        third = scan_archive(archive, rules, store, (PIPELINE, name), watermark)
        assert third.scope is Scope.FULL  # before a gap is called one, everything is listed
        assert [(gap.low, gap.high) for gap in third.gaps] == [((40,), (50,))]
        assert [record.file.path[-15:] for record in third.stock.gone] == ["0000000000.json"]
    archive.close()
