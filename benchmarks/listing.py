"""Listing an archive of 100,000 files of which 10 are new, beside listing all of it: on an S3 endpoint on loopback, and in a folder."""

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cdc_ops.archives.base import Archive
from cdc_ops.archives.registry import open_archive
from cdc_ops.core.archive.file_names import KafkaName, Layout, parse_name
from cdc_ops.core.archive.listing import ListingMark, next_ranges
from cdc_ops.core.archive.watermarks import ArchiveWatermark, PartitionWatermark
from cdc_ops.core.pipeline.archive_config import ArchiveConfig
from cdc_ops.core.schema.tables import TableName
from cdc_ops.dev.object_store import ObjectStore
from cdc_ops.state.sql import open_store
from cdc_ops.steps.archive.scan import ArchiveScan, scan_archive

PARTITIONS = 4
RECORDS = 100
OWNER = ("bench", TableName(schema="bench", name="t"))
RULES = ArchiveConfig.of(layout=Layout.KAFKA_CONNECT, min_file_age=timedelta(0))


def keys(first: int, count: int) -> list[str]:
    """Returns files in rotation over the partitions, each with the offsets that follow the one before."""
    return [
        f"t/partition={number % PARTITIONS}/t+{number % PARTITIONS}+{number // PARTITIONS * RECORDS:010}.json"
        for number in range(first, first + count)
    ]


def reached(files: int) -> ArchiveWatermark:
    per = {partition: len(range(partition, files, PARTITIONS)) * RECORDS for partition in range(PARTITIONS)}
    return ArchiveWatermark(streams=tuple(PartitionWatermark(stream=f"t/{partition}", to=(to,)) for partition, to in per.items()))


def measure(
    archive: Archive, add: Callable[[list[str]], None], files: int, new: int, runs: int
) -> tuple[ArchiveScan, ArchiveScan, float, float]:
    """Returns an incremental and a full survey of the same archive, and the median seconds of each."""
    with tempfile.TemporaryDirectory() as folder, open_store(f"sqlite:///{folder}/ledger.db") as store:
        add(keys(0, files))
        names = [name for path in keys(0, files) if isinstance(name := parse_name(RULES.files.layout, path), KafkaName)]
        lease = store.acquire(*OWNER, "bench", ttl=timedelta(hours=1), live=True)
        # As an earlier run leaves it; that files below the watermark are consumed follows from their names.
        mark = ListingMark(ranges=next_ranges(names, reached(files)), full_at=datetime.now(UTC))
        store.put_listing_mark(lease, mark)
        add(keys(files, new))
        seconds: dict[bool, list[float]] = {True: [], False: []}
        last: dict[bool, ArchiveScan] = {}
        for _ in range(runs):
            for full in (False, True):
                begun = time.perf_counter()
                last[full] = scan_archive(archive, RULES, store, OWNER, reached(files), full=full)
                seconds[full].append(time.perf_counter() - begun)
                assert len(last[full].files.files) == new, (full, len(last[full].files.files))
        return last[False], last[True], statistics.median(seconds[False]), statistics.median(seconds[True])


@contextmanager
def endpoint() -> Iterator[tuple[Archive, Callable[[list[str]], None]]]:
    store = ObjectStore()
    try:
        yield open_archive(f"s3://{store.bucket}", store.options), lambda names: store.put_many(dict.fromkeys(names, b"x"))
    finally:
        store.close()


@contextmanager
def folder() -> Iterator[tuple[Archive, Callable[[list[str]], None]]]:
    with tempfile.TemporaryDirectory() as root:

        def add(names: list[str]) -> None:
            for name in names:
                path = Path(root) / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(b"x")

        yield open_archive(root), add


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=100_000)
    parser.add_argument("--new", type=int, default=10)
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    for name, opened in (("folder", folder), ("S3 (moto on loopback)", endpoint)):
        with opened() as (archive, add):
            some, everything, quick, slow = measure(archive, add, options.files, options.new, options.runs)
            archive.close()
        print(f"{name}: {options.files:,} files, {options.new} new; survey = list + ledger + proof")
        for text, found, seconds in (("incremental", some, quick), ("full", everything, slow)):
            print(f"  {text:12} {found.listing.calls:5} calls {found.listing.entries:9,} names {seconds:9.3f} s", flush=True)
        print(
            f"  ratio        {some.listing.calls / everything.listing.calls:.3f} calls"
            f" {some.listing.entries / everything.listing.entries:.5f} names {quick / slow:.4f} seconds"
        )


if __name__ == "__main__":
    main()
