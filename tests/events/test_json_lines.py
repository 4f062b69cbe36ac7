"""Records of JSON lines: the number of each line is exact, however a file is cut or compressed, and bytes stay what they are."""

import bz2
import gzip
from collections.abc import Callable
from itertools import accumulate
from pathlib import Path

import pyarrow
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdc_ops.archives.local import LocalArchive
from cdc_ops.core.events.format_spec import Container
from cdc_ops.errors import ArchiveFileError
from cdc_ops.events.records import json_lines
from cdc_ops.events.records.json_lines import ByteRange, count_range, ranges, read_range
from cdc_ops.events.records.reader import MOST_RECORDS, FileCount, Numbered
from tests.events.archived import opened, put, read, records_of

LINES = Container.LINES


def zstd(data: bytes) -> bytes:
    return bytes(pyarrow.compress(data, codec="zstd", asbytes=True))


WRITERS: dict[str, Callable[[bytes], bytes]] = {"gz": gzip.compress, "bz2": bz2.compress, "zst": zstd}


def lines(count: int) -> bytes:
    return b"".join(f'{{"n": {number}, "pad": "{"x" * (number % 90)}"}}\n'.encode() for number in range(count))


def expected(data: bytes) -> tuple[list[Numbered], FileCount]:
    """The records of a file as the simplest reader has them."""
    texts = data.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    is_blank = [len(text) <= 8 and not text.strip(b" \t\r") for text in texts]
    while texts and is_blank[len(texts) - 1]:
        texts.pop()
    found = [(None if is_blank[number] else text, number) for number, text in enumerate(texts)]
    return found, FileCount(lines=len(found), blank=sum(value is None for value, _ in found))


@pytest.mark.parametrize("suffix", ["", ".gz", ".bz2", ".zst"])
@pytest.mark.parametrize("block", [7, 100, 2**20])
def test_each_line_has_its_number_however_files_are_read_and_compressed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str, block: int
) -> None:
    monkeypatch.setattr(json_lines, "_BLOCK", block)
    data = lines(500)
    name = put(tmp_path, f"t/a b%20[1]{{x}}*ü+.json{suffix}", WRITERS.get(suffix[1:], bytes)(data))
    assert read(opened(tmp_path, name, LINES)) == expected(data)
    assert records_of(tmp_path, name, LINES, 123) == expected(data)[0][123:]
    assert records_of(tmp_path, name, LINES, 500) == []


def test_batches_are_of_some_thousand_records_and_none_is_empty(tmp_path: Path) -> None:
    name = put(tmp_path, "t.json", b"{}\n" * (3 * MOST_RECORDS + 5) + b"\n" * MOST_RECORDS)
    reader = opened(tmp_path, name, LINES, MOST_RECORDS)
    assert [len(batch) for batch in reader.batches()] == [MOST_RECORDS, MOST_RECORDS, 5]
    assert reader.count() == FileCount(lines=3 * MOST_RECORDS + 5)


@pytest.mark.parametrize(
    ("data", "values", "blank"),
    [
        (b"{}\n\n\r\n[1]", [b"{}", None, None, b"[1]"], 2),
        (b"{}\r\n{}\n \t\n\n\r\n", [b"{}\r", b"{}"], 0),
        (b"\n\n", [], 0),
        (b"", [], 0),
        (b"\n{}", [None, b"{}"], 1),
        (b"{}\n         \n[]", [b"{}", b"         ", b"[]"], 0),
        (b"\xef\xbb\xbf{}\n\xef\xbb\xbf{}\n", [b"{}", b"\xef\xbb\xbf{}"], 0),
        (b"\xef\xbb\xbf\n{}", [None, b"{}"], 1),
        (b"\xef\xbb", [b"\xef\xbb"], 0),
        (b'{"a": "\xff\xc3"}\n{"a": "\x00\xed\xa0\x80"}\r', [b'{"a": "\xff\xc3"}', b'{"a": "\x00\xed\xa0\x80"}\r'], 0),
        (b'{"a": \r1}\x0b\x85\xe2\x80\xa8', [b'{"a": \r1}\x0b\x85\xe2\x80\xa8'], 0),
    ],
)
def test_empty_lines_count_between_records_and_bytes_stay_what_they_are(
    tmp_path: Path, data: bytes, values: list[bytes], blank: int
) -> None:
    for suffix in ("", ".gz"):
        name = put(tmp_path, f"t.json{suffix}", WRITERS.get(suffix[1:], bytes)(data))
        found = read(opened(tmp_path, name, LINES))
        assert found == ([(value, number) for number, value in enumerate(values)], FileCount(lines=len(values), blank=blank))


def test_many_empty_lines_between_records_are_records(tmp_path: Path) -> None:
    count = 2 * MOST_RECORDS + 3
    name = put(tmp_path, "t.json", b"{}" + b"\n" * count + b"[]\n" + b"\n" * count)
    found, counted = read(opened(tmp_path, name, LINES))
    assert found == [(b"{}", 0), *((None, number) for number in range(1, count)), (b"[]", count)]
    assert counted == FileCount(lines=count + 1, blank=count - 1)


@given(data=st.data())
def test_ranges_of_a_file_have_all_of_its_lines_each_once(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    pieces = data.draw(st.lists(st.sampled_from([b"\n", b"\n", b"{}", b" ", b"\r\n", b'{"a": 1}', b"\xef\xbb\xbf"]), max_size=40))
    text, most = b"".join(pieces), data.draw(st.integers(1, 30))
    folder = tmp_path_factory.mktemp("ranges")
    put(folder, "t.json", text)
    archive = LocalArchive(str(folder))
    parts = ranges("t.json", len(text), most)
    assert all(0 < part.stop - part.start <= most for part in parts)
    firsts = [0, *accumulate(count_range(archive, "t.json", part) for part in parts)]
    found, counts = [], []
    for part, first in zip(parts, firsts, strict=False):
        records, count = read(read_range(archive, "t.json", part, first))
        found += records
        counts.append(count)
    total = FileCount(lines=sum(one.lines for one in counts), blank=sum(one.blank for one in counts))
    assert (found, total) == expected(text)


def test_a_mark_that_is_cut_is_no_text_behind_empty_lines(tmp_path: Path) -> None:
    put(tmp_path, "t.json", b"\xef\xbb\xbf\n")
    for stop in (1, 2, 3):
        assert read(read_range(LocalArchive(str(tmp_path)), "t.json", ByteRange(0, stop), 0)) == ([], FileCount(lines=0))


def test_a_range_returns_only_the_lines_that_are_asked_for(tmp_path: Path) -> None:
    data = lines(100)
    put(tmp_path, "t.json", data)
    archive = LocalArchive(str(tmp_path))
    _, second = ranges("t.json", len(data), -(-len(data) // 2))
    first = count_range(archive, "t.json", ByteRange(0, second.start))
    records, count = read(read_range(archive, "t.json", second, first, 90))
    assert records == expected(data)[0][90:]
    assert count == FileCount(lines=100 - first)


def test_a_compressed_file_is_one_range_and_an_empty_one_none() -> None:
    assert ranges("t.json.gz", 100, 10) == [ByteRange(0, 100)]
    assert ranges("t.json", 0, 10) == []


@pytest.mark.parametrize("suffix", ["gz", "bz2", "zst"])
def test_half_of_a_compressed_file_fails_and_two_in_one_are_both_read(tmp_path: Path, suffix: str) -> None:
    whole = WRITERS[suffix](lines(500))
    name = put(tmp_path, f"half.json.{suffix}", whole[: len(whole) // 2])
    with pytest.raises(ArchiveFileError, match=rf"half\.json\.{suffix} cannot be read: "):
        read(opened(tmp_path, name, LINES))
    put(tmp_path, name, whole + whole)
    assert read(opened(tmp_path, name, LINES))[1].lines == 1000
    put(tmp_path, name, whole + b"garbage" * 9)
    with pytest.raises(ArchiveFileError, match="cannot be read"):
        read(opened(tmp_path, name, LINES))


@pytest.mark.parametrize("name", ["t.json", "t.json.gz", "t.json.bz2", "t.json.zst"])
def test_a_file_that_was_emptied_or_cut_meanwhile_is_no_shorter_file(tmp_path: Path, name: str) -> None:
    whole = WRITERS.get(name.rpartition(".")[2], bytes)(lines(50))
    for left in (b"", whole[:-9]):
        put(tmp_path, name, left)
        with pytest.raises(ArchiveFileError, match=r"found no data in t\.json.*; the listing showed \d+ bytes"):
            read(opened(tmp_path, name, LINES, size=len(whole)))
    if not json_lines.is_compressed(name):
        with pytest.raises(ArchiveFileError, match="found no data in"):
            count_range(LocalArchive(str(tmp_path)), name, ByteRange(0, len(whole)))


@pytest.mark.parametrize("suffix", ["lz4", "snappy", "sz", "xz", "gzip", "zstd", "GZ"])
def test_a_compression_that_is_not_read_by_its_suffix_is_refused_by_name(tmp_path: Path, suffix: str) -> None:
    put(tmp_path, f"a/t+0+0.json.{suffix}", b"x")
    with pytest.raises(ArchiveFileError, match=rf"t\+0\+0\.json\.{suffix} cannot be read: files with the suffix '\.{suffix}'") as refused:
        opened(tmp_path, f"a/t+0+0.json.{suffix}", LINES)
    assert ".gz, .bz2, .zst" in refused.value.why


@pytest.mark.parametrize("name", ["_t.json", ".t.json", "t.json._COPYING_"])
def test_names_that_spark_leaves_out_are_read_as_any_other(tmp_path: Path, name: str) -> None:
    assert records_of(tmp_path, put(tmp_path, name, b"{}\n"), LINES) == [(b"{}", 0)]


def test_files_without_a_byte_have_no_lines_and_are_not_opened(tmp_path: Path) -> None:
    assert read(opened(tmp_path, "nowhere.json", LINES, size=0)) == ([], FileCount(lines=0))
