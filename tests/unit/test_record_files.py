"""Files that Spark would read wrongly are refused before it sees them; no Spark is needed for that."""

from typing import Any

import pytest
from cdc_ops.formats.files.json_lines import FileLines, RecordFile, count_lines
from cdc_ops.formats.files.parquet import open_parquet

from cdc_ops.errors import ArchiveFileError

NO_SPARK: Any = None


def file(path: str, uri: str = "", size: int = 10) -> RecordFile:
    return RecordFile(path=path, uri=uri or f"/archive/{path}", size=size)


@pytest.mark.parametrize("suffix", ["lz4", "snappy", "sz", "xz", "gzip", "zstd", "GZ"])
def test_a_compression_that_spark_does_not_know_by_its_suffix_is_refused_by_name(suffix: str) -> None:
    with pytest.raises(ArchiveFileError, match=rf"t\+0\+0\.json\.{suffix}: Spark does not know the suffix '\.{suffix}'") as refused:
        count_lines(NO_SPARK, [file("a/t+0+0.json"), file(f"a/t+0+0.json.{suffix}")])
    assert ".gz, .bz2, .zst" in refused.value.why


@pytest.mark.parametrize("name", ["_t.json", ".t.json", "t.json._COPYING_"])
def test_names_that_spark_leaves_out_in_silence_are_refused(name: str) -> None:
    with pytest.raises(ArchiveFileError, match="does not read a file with the name"):
        count_lines(NO_SPARK, [file(f"t/{name}")])


def test_two_files_at_one_place_and_relative_places_are_refused() -> None:
    with pytest.raises(ValueError, match="one place"):
        count_lines(NO_SPARK, [file("t.json", "file:///archive/t.json"), file("u.json", "/archive//t.json")])
    with pytest.raises(ValueError, match="neither an absolute path nor a URI"):
        count_lines(NO_SPARK, [file("t.json", "archive/t.json")])


def test_files_without_a_byte_have_no_lines_and_need_no_spark() -> None:
    counted = count_lines(NO_SPARK, [file("t.json", "s3a://bucket/t.json", size=0)])
    assert counted.files == (FileLines(path="t.json", partition=None, start_offset=None, lines=0),)
    assert counted.scan is None
    assert counted.files[0].end_offset is None
    assert FileLines(path="t", partition=0, start_offset=40, lines=2).end_offset == 42


def test_a_file_that_is_no_parquet_by_its_name_is_refused() -> None:
    for name in ("LOAD00000001.csv", "LOAD00000001.parquet.gz"):
        with pytest.raises(ArchiveFileError, match=r"does not end with '\.parquet'"):
            open_parquet(NO_SPARK, [file(f"t/{name}")])
