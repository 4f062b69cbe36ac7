"""The machine that looks for silent errors: it is pure where it says so, its oracle reads Delta by the letter, and it is able to fail."""

import ast
import json
import random
import struct
import uuid
import zlib
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.torture.generate import generate
from tests.torture.model import Case, Column, Insert, Run, Table, Transaction, Update
from tests.torture.oracle.deletion_vectors import deleted_rows
from tests.torture.oracle.delta_log import replay
from tests.torture.oracle.lake import LakeTable, _folder_value, read_lake
from tests.torture.oracle.points import point_faults
from tests.torture.oracle.relation import judge
from tests.torture.oracle.truth import Truth, read_truth
from tests.torture.oracle.values import from_lake
from tests.torture.outcome import Outcome
from tests.torture.proof import HUNTS, case_of
from tests.torture.schemas import KINDS
from tests.torture.script import script_of
from tests.torture.shrink import smallest

TORTURE = Path(__file__).resolve().parents[1] / "torture"
GONE = (3, 4, 7, 11, 18, 29)
WHOLE = ("2", "-7", "0", "1048577", "9007199254740992", "NULL")
Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"


def _bitmap(rows: tuple[int, ...]) -> bytes:
    """A roaring bitmap of one container, in the portable form that Delta's protocol prescribes."""
    head = struct.pack("<iqI", 1681511377, 1, 0) + struct.pack("<II", 12346, 1) + struct.pack("<HHI", 0, len(rows) - 1, 16)
    return head + struct.pack(f"<{len(rows)}H", *rows)


def _z85(data: bytes) -> str:
    data += bytes(-len(data) % 4)
    numbers = (int.from_bytes(data[start : start + 4], "big") for start in range(0, len(data), 4))
    return "".join(Z85[number // 85**power % 85] for number in numbers for power in (4, 3, 2, 1, 0))


VECTOR = {"storageType": "i", "pathOrInlineDv": _z85(_bitmap(GONE)), "sizeInBytes": len(_bitmap(GONE)), "cardinality": len(GONE)}


def test_a_seed_is_always_the_same_case_and_another_seed_is_another() -> None:
    for server, method in (("postgres", "query"), ("mysql", "log"), ("mariadb", "log")):
        assert generate(7, server, method) == generate(7, server, method)
        assert generate(7, server, method) != generate(8, server, method)


def test_every_case_can_be_printed_as_sql_and_yaml() -> None:
    for seed in range(60):
        for server, method in (("postgres", "query"), ("mysql", "query"), ("mariadb", "log")):
            script = script_of(generate(seed, server, method))
            assert "CREATE TABLE" in script
            assert "pipeline: torture" in script


@pytest.mark.parametrize("name", ["decimal-bounds", "type-change", "mysql-settings", "mariadb-settings"])
def test_a_hunt_has_what_its_error_needs(name: str) -> None:
    [hunt] = [one for one in HUNTS if one.name == name]
    for case in (case_of(hunt, seed) for seed in range(1, 9)):
        [table], script = case.tables, script_of(case)
        first = next(number for number, step in enumerate(case.steps) if isinstance(step, Run))
        if name == "decimal-bounds":
            assert any(table.column(key).kind in ("dec18", "dec38") for key in table.keys)  # type: ignore[union-attr]
            assert not {"partition_by", "change_feed", "metadata_columns"} & dict(table.settings).keys()
            begun = {one.values[: len(table.keys)] for one in case.steps[0].changes}  # type: ignore[union-attr]
            replaced = [step.changes for step in case.steps[first:] if isinstance(step, Transaction)]
            assert any(len(changes) == 1 and isinstance(changes[0], Update) and changes[0].key in begun for changes in replaced)
        elif name == "type-change":
            assert 'ALTER "turned" TYPE bigint' in script
            assert "reader: native" in script
            assert {value for step in case.steps if isinstance(step, Transaction) for value in _values(step, "turned")} <= set(WHOLE)
        else:
            assert "SET GLOBAL sql_select_limit" in str(case.steps[:first])
            assert len({one.values[:1] for one in case.steps[0].changes}) > 30  # type: ignore[union-attr]


def _values(step: Transaction, column: str) -> list[str]:
    return [value for one in step.changes if isinstance(one, (Insert, Update)) for name, value in one.values if name == column]


def test_only_the_driver_and_what_starts_servers_knows_the_package() -> None:
    knowing = {path.name for path in TORTURE.rglob("*.py") if any(name.split(".")[0] == "cdc_ops" for name in _imports(path))}
    assert knowing == {"worker.py", "command.py"}


def _imports(path: Path) -> list[str]:
    nodes = list(ast.walk(ast.parse(path.read_text())))
    plain = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    return plain + [node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)]


def test_a_deletion_vector_is_read_by_the_letter_of_the_protocol(tmp_path: Path) -> None:
    assert deleted_rows(VECTOR, tmp_path) == set(GONE)
    data, name = _bitmap(GONE), uuid.UUID(int=77)
    file = tmp_path / f"deletion_vector_{name}.bin"
    file.write_bytes(b"\1" + struct.pack(">i", len(data)) + data + struct.pack(">I", zlib.crc32(data)))
    in_file = VECTOR | {"storageType": "u", "pathOrInlineDv": _z85(name.bytes), "offset": 1}
    assert deleted_rows(in_file, tmp_path) == set(GONE)
    file.write_bytes(file.read_bytes()[:-1] + b"x")
    with pytest.raises(ValueError, match="checksum"):
        deleted_rows(in_file, tmp_path)
    with pytest.raises(ValueError, match="says that it has 5"):
        deleted_rows(VECTOR | {"cardinality": 5}, tmp_path)


class Lake:
    """A Delta table written by hand: what no writer would write can be written too."""

    def __init__(self, root: Path, *, partitioned: bool = False) -> None:
        self.root, self.version = root, -1
        (root / "_delta_log").mkdir(parents=True)
        fields = [
            {"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in (("k", "decimal(38,18)"), ("v", "string"))
        ]
        schema = json.dumps({"type": "struct", "fields": fields})
        partitions = ["v"] if partitioned else []
        metadata = {"id": str(uuid.UUID(int=1)), "format": {"provider": "parquet", "options": {}}, "createdTime": 0}
        features: dict[str, object] = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": [], "writerFeatures": []}
        self.commit(
            {"metaData": {**metadata, "schemaString": schema, "partitionColumns": partitions, "configuration": {}}}, {"protocol": features}
        )

    def commit(self, *actions: dict[str, object]) -> None:
        self.version += 1
        (self.root / "_delta_log" / f"{self.version:020}.json").write_text("\n".join(map(json.dumps, actions)))

    def add(self, name: str, rows: list[tuple[str, str | None]], **entry: object) -> dict[str, object]:
        columns = {
            "k": pa.array([Decimal(key) for key, _ in rows], pa.decimal128(38, 18)),
            "v": pa.array([value for _, value in rows], pa.string()),
        }
        pq.write_table(pa.table(columns), self.root / name)
        times = {"size": (self.root / name).stat().st_size, "modificationTime": 0, "dataChange": True}
        return {"add": {"path": name, "partitionValues": {}, **times, **entry}}

    def keys(self) -> list[Decimal]:
        return sorted(row["k"] for row in read_lake(replay(self.root)).rows)


def test_the_log_is_replayed_with_removes_and_deletion_vectors(tmp_path: Path) -> None:
    lake = Lake(tmp_path / "t")
    rows: list[tuple[str, str | None]] = [(str(number), "x") for number in range(40)]
    lake.commit(lake.add("a.parquet", rows), lake.add("b.parquet", [("100", "y")]))
    lake.commit({"remove": {"path": "a.parquet"}}, {"remove": {"path": "b.parquet"}}, lake.add("a.parquet", rows, deletionVector=VECTOR))
    assert lake.keys() == [Decimal(number) for number in range(40) if number not in GONE]


def test_a_checkpoint_stands_for_the_commits_before_it(tmp_path: Path) -> None:
    lake = Lake(tmp_path / "t")
    lake.commit(lake.add("a.parquet", [("1", "x")]))
    log = tmp_path / "t" / "_delta_log"
    actions = [json.loads(line) for number in (0, 1) for line in (log / f"{number:020}.json").read_text().splitlines()]
    entry = pa.struct([("path", pa.string()), ("partitionValues", pa.map_(pa.string(), pa.string()))])
    meta = pa.struct([("id", pa.string()), ("schemaString", pa.string()), ("partitionColumns", pa.list_(pa.string()))])
    adds = [{**one["add"], "partitionValues": []} if "add" in one else None for one in actions]
    table = pa.table({"add": pa.array(adds, entry), "metaData": pa.array([one.get("metaData") for one in actions], meta)})
    pq.write_table(table, log / f"{1:020}.checkpoint.parquet")
    lake.commit(lake.add("b.parquet", [("2", "x")]))
    for number in (0, 1):
        if number != lake.version:
            (log / f"{number:020}.json").unlink()
    assert lake.keys() == [Decimal(1), Decimal(2)]


@pytest.mark.parametrize(
    ("server", "kind", "text", "value"),
    [
        ("mariadb", "float", b"16777216", struct.pack(">f", 16777216)),
        ("mysql", "double", b"9007199254740992", struct.pack(">d", 2**53)),
        ("postgres", "double", "4340000000000000", struct.pack(">d", 2**53)),
        ("postgres", "real", "7fc00000", b"NaN"),
        ("postgres", "bytea", "00ff", b"\0\xff"),
    ],
)
def test_a_number_of_eight_digits_is_no_hexadecimal_text(server: str, kind: str, text: str | bytes, value: bytes) -> None:
    table = Table(name="t", columns=(Column(name="v", kind=kind),), keys=())
    assert read_truth(lambda _: [(text,)], table, dict(KINDS[server]), server=server).rows == [{"v": value}]


def test_a_bound_that_is_not_the_files_is_found(tmp_path: Path) -> None:
    rows: list[tuple[str, str | None]] = [("0.123456789012345678", "x"), ("12345678901234566.890000000000000001", "y")]
    bounds = '"minValues":{"k":0.123456789012345678},"maxValues":{"k":12345678901234566.890000000000000001}'
    right = f'{{"numRecords":2,{bounds},"nullCount":{{"k":0,"v":0}}}}'
    wrong = right.replace("0.123456789012345678", "0.12345678901234568")
    for number, (stats, faults) in enumerate(
        ((right, 0), (wrong, 1), (right.replace('"v":0', '"v":1'), 1), (right.replace('s":2', 's":3'), 1))
    ):
        lake = Lake(tmp_path / str(number))
        lake.commit(lake.add("a.parquet", rows, stats=stats))
        assert len(read_lake(replay(lake.root)).faults) == faults, stats


def test_a_second_engine_that_trusts_a_false_bound_finds_no_row(tmp_path: Path) -> None:
    rows: list[tuple[str, str | None]] = [("0.123456789012345678", "x")]
    found = {}
    for bound in ("0.123456789012345678", "0.12345678901234568"):
        lake = Lake(tmp_path / bound)
        lake.commit(
            lake.add("a.parquet", rows, stats=f'{{"numRecords":1,"minValues":{{"k":{bound}}},"maxValues":{{"k":1}},"nullCount":{{"k":0}}}}')
        )
        snapshot = replay(lake.root)
        found[bound] = list(point_faults(snapshot, read_lake(snapshot), ("k",), tmp_path / f"shown {bound}", random.Random(1)))
    assert found["0.123456789012345678"] == []
    assert len(found["0.12345678901234568"]) == 1


TABLE = Table(name="t", columns=(Column(name="k", kind="int", null=False), Column(name="v", kind="text")), keys=("k",))
TRUTH = Truth(rows=[{"k": 1, "v": "a"}, {"k": 2, "v": None}], types={"k": ("integer",), "v": ("string",)})
TYPES = {"k": "integer", "v": "string"}


def _found(rows: list[dict[str, object]], **settings: object) -> list[str]:
    table = replace(TABLE, settings=tuple(settings.items()))
    verdict = judge(table, TRUTH, LakeTable(rows=rows, types=TYPES), {(1,), (2,), (3,)}, reconciled=True)
    return [text.partition(":")[0] for text in verdict.differences]


def test_each_kind_of_difference_has_a_name() -> None:
    one, two = {"k": 1, "v": "a"}, {"k": 2, "v": None}
    assert _found([one, two]) == []
    assert _found([one]) == ["missing"]
    assert _found([one, two, two]) == ["doubled"]
    assert _found([one, {"k": 2, "v": ""}]) == ["value"]
    assert _found([one, two, {"k": 3, "v": "x"}]) == ["still there"]
    assert _found([one, two, {"k": 4, "v": "x"}], deletes="ignore") == ["never there"]
    assert _found([one, two, {"k": 3, "v": "x", "_deleted": True}], deletes="soft") == []
    assert _found([one, two, {"k": 1, "v": "old", "__END_AT": 5}], stored_as_scd_type=2) == []


def test_an_empty_text_in_a_folder_is_null_as_every_reader_sees_it(tmp_path: Path) -> None:
    lake = Lake(tmp_path / "t", partitioned=True)
    lake.commit(lake.add("a.parquet", [("1", "x")], partitionValues={"v": ""}))
    assert [row["v"] for row in read_lake(replay(lake.root)).rows] == [None]


@pytest.mark.parametrize(
    ("stored", "text", "value"), [("double", "1.7976931348623157E308", 1.7976931348623157e308), ("float", "-0.0", -0.0)]
)
def test_the_text_of_a_folder_is_the_number_that_a_file_would_have(stored: str, text: str, value: float) -> None:
    assert _folder_value(text, stored) == from_lake(stored)(value)
    assert _folder_value(text, stored) != from_lake(stored)(2.0)


def test_a_failing_case_is_made_as_small_as_it_fails() -> None:
    case = next(case for seed in range(50) if len((case := generate(seed, "postgres")).tables) > 1 and len(case.tables[0].columns) > 2)
    table = case.tables[0]
    column = next(one for one in table.columns if one.name not in table.keys)

    def play(tried: Case) -> Outcome:
        inserts = [one for step in tried.steps if isinstance(step, Transaction) for one in step.changes if isinstance(one, Insert)]
        hit = any(one.table == table.name and column.name in dict(one.values) for one in inserts)
        return Outcome(differences={table.name: ["value: wrong"]} if hit and any(isinstance(step, Run) for step in tried.steps) else {})

    found = smallest(case, play(case), play, say=lambda _: None, seconds=60).case
    assert [len(step.changes) for step in found.steps if isinstance(step, Transaction)] == [1]
    assert [one.name for one in found.tables] == [table.name]
    assert {one.name for one in found.tables[0].columns} == {*table.keys, column.name}
