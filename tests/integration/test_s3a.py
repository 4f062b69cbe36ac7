"""Archive, staging and lake on one S3 endpoint: Spark by s3a, events and the Spark-free steps by s3fs."""

import gzip
import json
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from cdc_ops.core.events.format_spec import FormatOptions
from cdc_ops.core.pipeline.pipeline import TargetConfig
from cdc_ops.dev.object_store import LOGIN, ObjectStore
from cdc_ops.dev.servers import MariaDBServer
from cdc_ops.errors import ArchiveGapError
from cdc_ops.events.scan.request import FileTask, FileTasks, ScannedArchive
from cdc_ops.events.scan.scan import scan_file
from cdc_ops.lake.log.delta_log import DeltaLog
from cdc_ops.lake.spark.conf import store_conf
from tests.events.scanned import Scans, feed_of
from tests.integration.test_log_method import ITEMS, change, counts, log_world, only_error
from tests.unit.test_events import schema


@dataclass(frozen=True, slots=True, kw_only=True)
class Bucket:
    """A folder of a bucket that both clients have the login for."""

    store: ObjectStore
    folder: str

    def put(self, files: Mapping[str, bytes]) -> None:
        self.store.put_many({f"{self.folder}/{name}": content for name, content in files.items()})

    def url(self, path: str, scheme: str = "s3a") -> str:
        return f"{scheme}://{self.store.bucket}/{self.folder}/{path}"

    @property
    def options(self) -> dict[str, str]:
        return {"endpoint_url": self.store.endpoint}


@pytest.fixture(scope="module")
def bucket(spark: SparkSession, object_store: ObjectStore) -> Iterator[Bucket]:
    """The endpoint is in the environment for s3fs; Spark, which runs already, has settings for this bucket as from a core-site.xml."""
    own = f"fs.s3a.bucket.{object_store.bucket}"
    found = store_conf({"AWS_ENDPOINT_URL": object_store.endpoint}).items()
    settings = {name.replace("spark.hadoop.fs.s3a", own): value for name, value in found}
    settings |= {f"{own}.access.key": LOGIN["AWS_ACCESS_KEY_ID"], f"{own}.secret.key": LOGIN["AWS_SECRET_ACCESS_KEY"]}
    # Files that are being written wait in memory: on disk they want the local file system that the tests do without.
    settings[f"{own}.fast.upload.buffer"] = "bytebuffer"
    hadoop = spark.sparkContext._jsc.hadoopConfiguration()  # type: ignore[union-attr]
    for name, value in settings.items():
        hadoop.set(name, value)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ENDPOINT_URL", object_store.endpoint)
        yield Bucket(store=object_store, folder=uuid.uuid4().hex[:8])
    for name in settings:
        hadoop.unset(name)


def test_lines_of_files_with_awkward_names_are_numbered_on_s3(bucket: Bucket, tmp_path: Path) -> None:
    texts = {"t/partition=0/t+0+00.json": b"a\nb\n", "t/y y%20{1}.json.gz": gzip.compress(b"c\n")}
    bucket.put(texts)
    scans = Scans(tmp_path, FormatOptions(name="debezium-mysql"))
    for scheme in ("s3", "s3a"):
        archive = ScannedArchive(url=bucket.url("", scheme), options=tuple(bucket.options.items()), format=scans.options)
        task = scans.task(schema("int"), archive=archive)
        files = [FileTasks(files=(FileTask(path=name, size=len(text)),)) for name, text in texts.items()]
        facts = [found for file in files for found in scan_file((task,), file)]
        assert [(one.failure, one.lines) for one in facts] == [((), 2), ((), 1)]
        assert [(row["file"], row["line"], row["raw"]) for row in feed_of(task, facts)] == [
            *(("t/partition=0/t+0+00.json", 0, "a"), ("t/partition=0/t+0+00.json", 1, "b")),
            ("t/y y%20{1}.json.gz", 0, "c"),
        ]


def test_a_table_follows_an_archive_with_everything_on_s3_and_waits_at_a_gap(
    mariadb: MariaDBServer, spark: SparkSession, tmp_path: Path, bucket: Bucket
) -> None:
    world = log_world(mariadb, tmp_path, spark)
    archive = replace(
        world.pipeline.archive, url=bucket.url("topics/{schema}.{table}", "s3"), options=tuple(sorted(bucket.options.items()))
    )
    target = TargetConfig(root=bucket.url("lake"), staging=bucket.url("staging"))
    world.pipeline = replace(world.pipeline, archive=archive, target=target)
    world.sql(ITEMS)
    topic = f"{world.database}.items"

    def put(offset: int, *events: dict[str, Any]) -> None:
        text = "".join(f"{json.dumps(event)}\n" for event in events)
        bucket.put({f"topics/{topic}/partition=0/{topic}+0+{offset:010}.json.gz": gzip.compress(text.encode())})

    a, b, c = ({"id": n, "name": name, "price": f"{n}.50"} for n, name in ((1, "a"), (2, "b"), (3, "c")))
    put(0, *(change("r", 100 + n, after=image, database=world.database) for n, image in enumerate((a, b))))
    put(3, change("c", 300, after=c, database=world.database))
    assert counts(world.run()) == (2, 0, 0)
    jobs = world.jobs
    error = only_error(world.run())
    assert isinstance(error, ArchiveGapError)
    assert f"{topic}/0: 2 up to, not including, 3" in str(error)
    assert world.jobs == jobs
    put(2, change("u", 200, before=b, after={**b, "name": "B"}, database=world.database))
    assert counts(world.run()) == (1, 1, 0)
    assert world.lake("items", "id, name") == [(1, "a"), (2, "B"), (3, "c")]
    assert world.data_commits("items") == [1, 2]
    assert DeltaLog(world.path("items")).newest() is not None
    state = world.state("items")
    assert state.progress.archive is not None
    assert state.progress.archive.position_of(f"{topic}/0") == (4,)
