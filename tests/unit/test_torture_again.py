"""The machine's eye on what is read again, on the archiver's files, and on the list of known errors: each is able to fail."""

import gzip
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.mutants.table import mechanisms
from tests.torture.again import Request, differences_again, key_texts, quoted, request_of
from tests.torture.archiver import SERVER, ArchiverCopies
from tests.torture.copies import BinlogCopies
from tests.torture.documents import failures_of
from tests.torture.driver import Answer
from tests.torture.model import Again, Column, Copy, Table, What
from tests.torture.oracle.lake import LakeTable
from tests.torture.oracle.truth import Truth
from tests.torture.proof import HUNTS
from tests.torture.schemas import KINDS

TABLE = Table(name="t", columns=(Column(name="k", kind="int", null=False), Column(name="v", kind="text")), keys=("k",))
TRUTH = Truth(
    rows=[{"k": 1, "v": "a", "updated_at": 10}, {"k": 2, "v": "b", "updated_at": 20}],
    types={"k": ("integer",), "v": ("string",), "updated_at": ("timestamp",)},
)
TYPES = {"k": "integer", "v": "string", "updated_at": "timestamp"}
OLD = [{"k": 1, "v": "old", "updated_at": 9}, {"k": 2, "v": "old", "updated_at": 9}, {"k": 3, "v": "gone", "updated_at": 9}]


def _found(what: What, rows: list[dict[str, Any]], **request: Any) -> list[str]:
    step = Again(table="t", what=what, columns=("v",))
    asked = Request(arguments=(), **request)
    found = differences_again(step, asked, TABLE, TRUTH, LakeTable(rows=rows, types=TYPES), {(1,), (2,), (3,)})
    return [text.partition(":")[0] for text in found]


def test_what_was_read_again_has_to_be_equal_and_nothing_else() -> None:
    right = TRUTH.rows
    assert _found(What.KEYS, [right[0], *OLD[1:]], keys=frozenset({(1,)})) == []
    assert _found(What.KEYS, OLD, keys=frozenset({(1,)})) == ["keys again, value", "keys again, value"]
    assert _found(What.KEYS, OLD[1:], keys=frozenset({(1,)})) == ["keys again, missing"]
    assert _found(What.KEYS, OLD, keys=frozenset({(3,)})) == ["keys again, still there"]
    assert _found(What.RANGE, [OLD[0], right[1], OLD[2]], since=20, until=21) == []
    assert _found(What.RANGE, [right[0], *OLD[1:]], since=20, until=21) == ["range again, value", "range again, value"]
    filled = [{**old, "v": new["v"]} for old, new in zip(OLD, right, strict=False)]
    assert _found(What.COLUMNS, [*filled, OLD[2]]) == []
    assert _found(What.COLUMNS, OLD) == ["columns again, value"]
    assert _found(What.COLUMNS, filled) == ["columns again, keys"]
    assert _found(What.FULL, right) == []
    assert _found(What.FULL, [*right, OLD[2]]) == ["full again, still there"]


def test_a_key_is_written_as_the_source_prints_it() -> None:
    columns = (Column(name="a", kind="varchar", null=False), Column(name="b", kind="binary", null=False))
    table = Table(name="t", columns=columns, keys=("a", "b"))
    [(key, texts)] = key_texts(lambda _: [("20C3A92C", "20C3A92C", "00FF", "00FF")], table, KINDS["mysql"], server="mysql").items()
    assert (key, texts) == ((" é,", b"\0\xff"), (" é,", "00FF"))
    request = request_of(Again(table="t", what=What.KEYS), table, "shop.t", {key: texts}, 0, 1, 1)
    assert request.arguments[-3:] == ("--key", '" é,",00FF', "--json")
    assert quoted("") == '""'


class _Archiver:
    """An archiver that copies a server's closed files in its own way."""

    def __init__(self, work: Any) -> None:
        self.work = work

    def call(self, *_: str, kill: float = 0.0) -> Answer:
        self.work()
        return Answer(code=0, document={}, text="")

    def failures(self, _: Answer) -> dict[str, dict[str, str]]:
        return {}


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("binlog.000002", b"two", ""),
        ("binlog.000002.gz", gzip.compress(b"two", mtime=0), ""),
        ("binlog.000002", b"tw", "other bytes"),
        ("binlog.000009", b"two", "no file of the server"),
        ("binlog.000003", b"three", "while the server writes it"),
        (".hidden", b"", "not in the archive"),
    ],
)
def test_what_the_archiver_leaves_has_to_be_the_servers_files(tmp_path: Path, name: str, content: bytes, said: str) -> None:
    names = ["binlog.000002"]

    def execute(statement: str) -> list[tuple[str]]:
        return [] if statement.startswith("FLUSH") else [(one,) for one in names]

    data = tmp_path / "data"
    data.mkdir()
    differences = list[str]()
    copies = ArchiverCopies(SimpleNamespace(execute=execute, data=data), tmp_path / "archive", differences)
    names.append("binlog.000003")
    (data / "binlog.000002").write_bytes(b"two")
    (data / "binlog.000003").write_bytes(b"three")

    def work() -> None:
        (tmp_path / "archive" / SERVER).mkdir()
        (tmp_path / "archive" / SERVER / name).write_bytes(content)

    copies.copy(_Archiver(work))  # type: ignore[arg-type]
    assert (said in differences[0]) if said else not differences


@pytest.mark.parametrize("hunt", HUNTS, ids=[one.name for one in HUNTS])
def test_a_known_error_can_be_brought_back(hunt: Any) -> None:
    edits = {one.name: one for one in mechanisms()}
    assert hunt.taken_back
    for name in hunt.taken_back:
        assert edits[name].broken_text()


def test_a_table_that_stands_before_a_gap_is_refused_by_name_and_one_that_is_healed_is_not() -> None:
    def run(name: str, missing: dict[str, Any] | None) -> dict[str, Any]:
        return {"table": {"schema": "shop", "name": name}, "missing": missing}

    runs = [run("stands", {"gaps": [], "healing": False}), run("heals", {"gaps": [], "healing": True}), run("goes on", None)]
    found = failures_of({"torture": {"tables": runs, "failures": []}})
    assert {table: error["error"] for table, error in found.items()} == {"shop.stands": "Gap"}


def test_behind_a_binlog_that_was_copied_while_it_was_open_another_one_is_closed(tmp_path: Path) -> None:
    """A file at the end may still grow, so the product waits for it; only one in the middle is certainly cut."""
    data = tmp_path / "data"
    data.mkdir()
    names = list[str]()

    def execute(statement: str) -> list[tuple[str]]:
        if statement.startswith("FLUSH"):
            names.append(f"binlog.{len(names) + 1:06}")
            (data / names[-1]).write_bytes(b"open")
        return [(one,) for one in names]

    copies = BinlogCopies(SimpleNamespace(execute=execute, data=data, name="MySQL"), tmp_path / "archive")
    copies.script(Copy(early=True))
    assert names[-1] == "binlog.000002"
    (data / "binlog.000002").write_bytes(b"open, and then closed")
    copies.copy()
    archived = {file.name: file.read_bytes() for file in (tmp_path / "archive").iterdir()}
    assert archived == {"binlog.000001": b"open", "binlog.000002": b"open", "binlog.000003": b"open"}
    copies.copy()
    assert len(names) == 5
