"""Records of CSV files: every row with the line where it begins, however it is quoted; what fits no column names stays text."""

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdc_ops.archives.local import LocalArchive
from cdc_ops.core.events.format_spec import Container
from cdc_ops.events.formats.dms.specs import CSV_DELIMITER
from cdc_ops.events.records import json_lines
from cdc_ops.events.records.csv import CsvDialect, CsvRecords
from cdc_ops.events.records.json_lines import ByteRange, Lines
from cdc_ops.events.records.reader import FileCount
from tests.events.archived import opened, put, read

NASTY = (
    *("", "plain", 'a "quoted" word', '"', '""', "a,b", "two\nlines", 'end"\n', "\r\n", "\x01\x02a", "\x02", "  spaced ", "NULL"),
    *("ü\u2028", "{}"),
)


def csv_bytes(rows: list[list[str]], delimiter: str = ",") -> bytes:
    text = io.StringIO()
    csv.writer(text, delimiter=delimiter, lineterminator="\n").writerows(rows)
    return text.getvalue().encode()


def rows_of(folder: Path, data: bytes, first_line: int = 0, **dialect: Any) -> dict[int, bytes | None]:
    """The rows of a file by their lines."""
    put(folder, "t.csv", data)
    lines = Lines(LocalArchive(str(folder)), "t.csv", ByteRange(0, len(data)))
    found, _ = read(CsvRecords(lines, CsvDialect(**dialect), first_line))
    assert len({line for _, line in found}) == len(found)
    return {line: value for value, line in found}


def plain(rows: dict[int, bytes | None]) -> dict[int, Any]:
    return {line: json.loads(value or b"") for line, value in rows.items()}


@pytest.mark.parametrize("block", [5, 2**20])
def test_rows_are_those_that_pythons_reader_finds_each_at_its_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int) -> None:
    monkeypatch.setattr(json_lines, "_BLOCK", block)
    rows = [[str(number), value, other] for number, value in enumerate(NASTY) for other in (NASTY[-number - 1], "x" * 300)]
    expected, line = {}, 1
    for number, name, note in rows:
        expected[line] = {"id": number, "a name": name, "note": note}
        line += 1 + f"{name}{note}".count("\n")
    data = csv_bytes([["id", "a name", "note"], *rows])
    chosen: dict[str, Any] = {"null": "\\N", "missing": "~", "columns": ("id",)}
    assert plain(rows_of(tmp_path, data, **chosen)) == expected
    assert plain(rows_of(tmp_path, data, 9, **chosen)) == {line: row for line, row in expected.items() if line >= 9}


def test_null_is_a_text_without_quotes_and_a_missing_value_is_left_out(tmp_path: Path) -> None:
    data = b'note,id\n~,1\n\\N,2\n"\\N",3\n"~",4\n'
    assert plain(rows_of(tmp_path, data, null="\\N", missing="~", columns=("id",))) == {
        1: {"id": "1"},
        2: {"note": None, "id": "2"},
        3: {"note": "\\N", "id": "3"},
        4: {"id": "4"},
    }


def test_what_does_not_fit_the_names_stays_text(tmp_path: Path) -> None:
    data = b'id,note\n1\n1,2,3\n1,\xff\n2,fine\n3,"open\n4,5\n'
    assert rows_of(tmp_path, data, columns=("id",)) == {
        **{1: b"1", 2: b"1,2,3", 3: b"1,\xff", 4: b'{"id":"2","note":"fine"}', 5: b'3,"open\n4,5'}
    }
    assert rows_of(tmp_path, b'id,note\n1,a"b"\n2,"a"b"c"\n3,"a""b"\n4,"a" \n') == {
        **{1: b'1,a"b"', 2: b'{"id":"2","note":"a\\"b\\"c"}', 3: b'{"id":"3","note":"a\\"b"}', 4: b'4,"a" '}
    }


@pytest.mark.parametrize(
    ("data", "left"),
    [
        (b"id,id\n1,2\n", {1: b"1,2"}),
        (b"id,note\n", {}),
        (b"", {}),
        (b"1,no names in this file\n", {0: b"1,no names in this file"}),
        (b'id,"note\n1,2\n', {0: b'id,"note\n1,2'}),
        (b"id,\xff\n1,2\n", {0: b"id,\xff", 1: b"1,2"}),
        (b"id,note\n\n1,2\n", {1: b"", 2: b'{"id":"1","note":"2"}'}),
    ],
)
def test_files_without_names_and_empty_lines_are_not_guessed_at(tmp_path: Path, data: bytes, left: dict[int, bytes]) -> None:
    assert rows_of(tmp_path, data, columns=("id",)) == left


def test_lines_that_end_with_cr_lf_keep_the_cr_as_spark_does(tmp_path: Path) -> None:
    assert rows_of(tmp_path, b"id,note\n1,2\r\n") == {1: b'{"id":"1","note":"2\\r"}'}


@pytest.mark.parametrize("delimiter", [";", "\t", "|", "\x01", "é"])
def test_the_delimiter_is_any_character(tmp_path: Path, delimiter: str) -> None:
    data = csv_bytes([["id", "note"], ["1", f'a{delimiter}"b'], ["2", ","]], delimiter)
    assert plain(rows_of(tmp_path, data, delimiter=delimiter)) == {1: {"id": "1", "note": f'a{delimiter}"b'}, 2: {"id": "2", "note": ","}}


@given(rows=st.lists(st.lists(st.text('a"\n,\x01\x02 ', max_size=6), min_size=2, max_size=2), max_size=8))
def test_any_rows_come_back(tmp_path_factory: pytest.TempPathFactory, rows: list[list[str]]) -> None:
    found = plain(rows_of(tmp_path_factory.mktemp("csv"), csv_bytes([["x", "y"], *rows, ["end", "end"]])))
    assert [[row["x"], row["y"]] for row in found.values()] == [*rows, ["end", "end"]]


def test_the_dialect_and_the_counts_of_lines_are_those_of_the_format(tmp_path: Path) -> None:
    name = put(tmp_path, "shop/t/LOAD00000001.csv", b'Op;id;note\n\nI;1;"a\nb"\n\n\n')
    chosen: dict[str, Any] = {CSV_DELIMITER: ";"}
    found, count = read(opened(tmp_path, name, Container.CSV, **chosen))
    assert found == [(b"", 1), (b'{"Op":"I","id":"1","note":"a\\nb"}', 2)]
    assert count == FileCount(lines=4, blank=1)
