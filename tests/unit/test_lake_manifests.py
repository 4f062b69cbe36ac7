"""The staging area without Spark: what counts as landed, and what is cleared up."""

import os
import signal
import subprocess
import sys
import uuid
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from cdc_ops.core import json_codec
from cdc_ops.core.operation.operation import Operation
from cdc_ops.core.operation.results import KeyRange, Manifest
from cdc_ops.errors import StateError
from cdc_ops.lake.file_io import open_filesystem, read_text, write_text
from cdc_ops.lake.staging.manifests import (
    Landed,
    expire,
    expire_folders,
    find_landed,
    find_manifest,
    is_landed,
    landed_files,
    read_manifest,
    write_manifest,
)
from tests.lake_case import Case

MANIFEST = Manifest.of(
    operation_id="o", attempt="a", rows=3, bytes=9, schema_fingerprint="f", key_ranges=(KeyRange(column="id", low="1", high="2"),), files=1
)
OLD = datetime.now(UTC) - timedelta(days=3)


@pytest.fixture(params=["disk", "object store"])
def root(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return str(tmp_path) if request.param == "disk" else f"memory://{uuid.uuid4().hex}"


def put(path: str, age: datetime | None = None) -> None:
    filesystem, inner = open_filesystem(path)
    filesystem.makedirs(inner.rpartition("/")[0], exist_ok=True)
    filesystem.pipe_file(inner, b"123")
    if age is not None:
        os.utime(inner, (age.timestamp(), age.timestamp()))


def test_a_manifest_survives_the_way_through_its_file(root: str) -> None:
    assert read_manifest(f"{root}/1") is None
    write_manifest(f"{root}/1/", MANIFEST)
    assert read_manifest(f"{root}/1") == MANIFEST


def test_files_without_a_manifest_are_not_landed(root: str) -> None:
    put(f"{root}/1/a/part-0.parquet")
    assert read_manifest(f"{root}/1") is None


@pytest.mark.parametrize("moment", ["fsync", "replace"])
def test_a_write_that_was_killed_leaves_no_manifest(tmp_path: Path, moment: str) -> None:
    """SIGKILL when the text is in its file, and right before it gets its name."""
    code = (
        "import os, signal, sys; from cdc_ops.lake.file_io import write_text\n"
        f"os.{moment} = lambda *_: os.kill(os.getpid(), signal.SIGKILL)\n"
        "write_text(sys.argv[1], sys.argv[2])"
    )
    for staging, before in ((tmp_path / "new", None), (tmp_path / "landed", MANIFEST)):
        if before is not None:
            write_manifest(str(staging), before)
        text = json_codec.dumps(replace(MANIFEST, attempt="b"))
        killed = subprocess.run([sys.executable, "-c", code, str(staging / "manifest.json"), text], check=False, timeout=60)
        assert killed.returncode == -signal.SIGKILL
        assert [path.read_text() for path in staging.glob(".*.tmp")] == [text], "it was killed while it wrote"
        assert read_manifest(str(staging)) == before


def test_a_landed_window_is_landed_as_long_as_its_files_are_what_was_written(root: str) -> None:
    operation = Case(root="/nowhere").operation(1, staging=f"{root}/1")
    assert find_landed(operation) == Landed()
    write_manifest(operation.target.staging, landed(operation))
    assert find_landed(operation) == Landed(manifest=landed(operation))
    assert is_landed(operation)


def test_a_window_of_another_operation_or_of_other_columns_is_neither_landed_nor_damaged(root: str) -> None:
    operation = Case(root="/nowhere").operation(1, staging=f"{root}/1")
    manifest = landed(operation)
    for other in (replace(manifest, operation_id="x"), replace(manifest, schema_fingerprint="x")):
        write_manifest(operation.target.staging, other)
        assert find_landed(operation) == Landed()


@pytest.mark.parametrize(
    ("harm", "said"),
    [
        ("some gone", "1 of 2 files exist, with 3 of 6 bytes"),
        ("all gone", "0 of 2 files exist, with 0 of 6 bytes"),
        ("truncated", "2 of 2 files exist, with 4 of 6 bytes"),
        ("one too many", "3 of 2 files exist, with 9 of 6 bytes"),
        ("feed gone", "0 of 1 files exist, with 0 of 3 bytes"),
        ("manifest cut off", "the manifest cannot be read"),
        ("manifest no text", "the manifest cannot be read"),
        ("manifest empty", "the manifest cannot be read"),
    ],
)
def test_a_window_that_is_partly_gone_is_damaged_and_says_what_is_missing(root: str, harm: str, said: str) -> None:
    operation = Case(root="/nowhere").operation(1, staging=f"{root}/1")
    write_manifest(operation.target.staging, landed(operation))
    filesystem, inner = open_filesystem(operation.target.staging)
    content = filesystem.cat_file(f"{inner}/manifest.json")
    match harm:
        case "some gone":
            filesystem.rm(f"{inner}/a/part-0.parquet")
        case "all gone":
            filesystem.rm(f"{inner}/a", recursive=True)
        case "truncated":
            filesystem.pipe_file(f"{inner}/a/part-1.parquet", b"1")
        case "one too many":
            put(f"{operation.target.staging}/a/part-2.parquet")
        case "feed gone":
            filesystem.rm(f"{inner}/a-feed/part-0.parquet")
        case _:
            wrong = {"manifest cut off": content[:-9], "manifest no text": b"\xff" + content, "manifest empty": b""}
            filesystem.pipe_file(f"{inner}/manifest.json", wrong[harm])
    found = find_landed(operation)
    assert found.manifest is None
    assert said in found.damage
    assert not is_landed(operation)


def landed(operation: Operation) -> Manifest:
    """Lands two files of three bytes, and a feed of one."""
    for name in ("a/part-0.parquet", "a/part-1.parquet", "a/_SUCCESS", "a-feed/part-0.parquet", "killed/part-0.parquet"):
        put(f"{operation.target.staging}/{name}")
    manifest = MANIFEST.changed(
        operation_id=operation.operation_id, schema_fingerprint=operation.source.schema.fingerprint, files=2, bytes=6
    )
    return manifest.changed(feed_files=1, feed_bytes=3)


def test_a_damaged_manifest_is_refused_and_after_the_commit_it_is_as_if_there_were_none(root: str) -> None:
    write_text(f"{root}/1/manifest.json", '{"operation_id": "o"}')
    with pytest.raises(StateError):
        read_manifest(f"{root}/1")
    assert find_manifest(f"{root}/1") is None


def test_text_is_replaced_as_a_whole_and_leaves_nothing_beside_it(tmp_path: Path) -> None:
    for text in ("eins", "zwei — ü"):
        write_text(f"file:{tmp_path}/x/y.json", text)
    assert read_text(f"file://{tmp_path}/x/y.json") == "zwei — ü"
    assert [path.name for path in (tmp_path / "x").iterdir()] == ["y.json"]


def test_only_the_parts_of_one_try_are_its_files(root: str) -> None:
    for name in ("a/part-1.parquet", "a/part-0.parquet", "a/_SUCCESS", "a/.part-0.parquet.crc", "b/part-0.parquet"):
        put(f"{root}/1/{name}")
    assert [Path(file.path).name for file in landed_files(f"{root}/1", "a")] == ["part-0.parquet", "part-1.parquet"]
    assert [file.bytes for file in landed_files(f"{root}/1", "a")] == [3, 3]
    assert landed_files(f"{root}/1", "c") == ()


def test_only_old_operations_that_nobody_needs_are_cleared_up(tmp_path: Path) -> None:
    root = str(tmp_path)
    for folder in ("p/t/1-old", "p/t/2-open", "p/t/3-retried"):
        put(f"{root}/{folder}/a/part-0.parquet", OLD)
        put(f"{root}/{folder}/manifest.json", OLD)
    put(f"{root}/p/t/3-retried/b/part-0.parquet")
    put(f"{root}/p/t/4-new/a/part-0.parquet")
    put(f"{root}/results/run.json", OLD)
    removed = expire(root, datetime.now(UTC) - timedelta(days=1), keep=(f"{root}/p/t/2-open",))
    assert removed == (f"{root}/p/t/1-old",)
    assert sorted(path.name for path in (tmp_path / "p/t").iterdir()) == ["2-open", "3-retried", "4-new"]
    assert (tmp_path / "results/run.json").exists()


def test_folders_of_old_runs_are_removed_whole_and_newer_ones_stay(tmp_path: Path) -> None:
    for name in ("old/extract-0-1.json", "old/extract-0-1.result.json", "retried/merge-0-1.json"):
        put(f"{tmp_path}/_jobs/{name}", OLD)
    put(f"{tmp_path}/_jobs/retried/merge-0-2.json")
    assert expire_folders(f"{tmp_path}/_jobs", datetime.now(UTC) - timedelta(days=1)) == (f"{tmp_path}/_jobs/old",)
    assert [path.name for path in (tmp_path / "_jobs").iterdir()] == ["retried"]
    assert expire_folders(f"{tmp_path}/nowhere", datetime.now(UTC)) == ()


def test_an_object_store_is_cleared_up_too() -> None:
    root = f"memory://{uuid.uuid4().hex}"
    put(f"{root}/p/t/1-old/a/part-0.parquet")
    assert expire(root, OLD) == ()
    assert len(expire(root, datetime.now(UTC) + timedelta(seconds=1))) == 1
    assert landed_files(f"{root}/p/t/1-old", "a") == ()


def test_reading_logs_and_manifests_never_loads_spark() -> None:
    modules = (
        "log.head",
        "log.delta_log",
        "staging.manifests",
        "file_io",
        "table.columns",
        "merge.sql",
        "sql_text",
        "spark.conf",
        "spark.jars",
    )
    code = "import sys\n" + "\n".join(f"import cdc_ops.lake.{name}" for name in modules) + "\nsys.exit('pyspark' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
