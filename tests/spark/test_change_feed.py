"""What changed in a table, for those who follow it: one table with every kind of commit, asked in every way."""

import importlib.util
import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType

import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from typer.testing import CliRunner, Result

import cdc_ops
from cdc_ops.cli import app
from cdc_ops.core.apply.apply_spec import ApplyMode
from cdc_ops.core.change_range import parse_bound
from cdc_ops.core.operation.merging.merge_plan import keys_condition, plan_merge
from cdc_ops.core.operation.operation import Operation
from cdc_ops.errors import ChangesUnavailableError
from cdc_ops.lake.log.change_feed_log import find_range
from cdc_ops.lake.merge.apply import apply
from cdc_ops.lake.merge.batch import Batch
from tests.lake_case import SCHEMA_DDL, Case, schema
from tests.stores import at

FEED = (("delta.enableChangeDataFeed", "true"),)
EXAMPLE = Path(__file__).resolve().parents[2] / "docs/examples/amount_per_name.py"
FILE = """\
pipeline: shop
source: {{kind: mysql, connection: shop_db}}
target: {{root: {folder}, staging: {folder}/staging}}
tables: {{shop.orders: {{path: {path}, cursor: updated_at, change_feed: true}}}}
"""
Told = tuple[str, int, str | None, str | None]


@dataclass
class Followed:
    """A table and the versions of its commits."""

    spark: SparkSession
    case: Case
    versions: dict[str, int] = field(default_factory=dict)
    raw: list[Row] = field(default_factory=list)

    @property
    def name(self) -> str:
        return f"delta.`{self.case.path}`"

    def apply(self, name: str, operation: Operation, rows: list[tuple[int, str]]) -> None:
        columns = ("id", "name", "CAST(1.5 AS decimal(10, 2)) amount", "timestamp'2026-01-01 00:00:00' updated_at")
        types = {column.name: column.delta_type for column in operation.source.schema.columns}
        batch = self.spark.createDataFrame(rows, "id bigint, name string").selectExpr(*columns)
        batch = batch.selectExpr("id", "name", f"CAST(amount AS {types['amount']}) amount", "updated_at")
        self.versions[name] = apply(operation, Batch(rows=batch, plan=plan_merge(operation, None), read_rows=len(rows))).delta_version or 0

    def changes(self, begin: str | int, end: str | int, mode: str = "data_before_after") -> DataFrame:
        low, high = (self.versions.get(str(bound), bound) for bound in (begin, end))
        return cdc_ops.changes(self.spark, self.case.path, begin=low, end=high, mode=mode)

    def sorted_changes(self, begin: str | int, end: str | int) -> list[Told]:
        rows = self.changes(begin, end).selectExpr("op", "key.id", "before.name", "after.name", "version").collect()
        return [(row[0], row[1], row[2], row[3]) for row in sorted(rows, key=lambda row: (row[4], row[1]))]


@pytest.fixture(scope="module")
def table(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Followed:
    """Loaded without a feed; then a MERGE with all that it can do, a new generation, and rows after a column was widened."""
    case = Case(root=str(tmp_path_factory.mktemp("feed")))
    table = Followed(spark=spark, case=case)
    table.apply("loaded", case.operation(1, ApplyMode.APPEND), [(1, "a"), (2, "b"), (3, "c"), (4, "d")])
    gone = keys_condition(("id",), ("bigint",), (("2",), ("4",)))
    table.apply("merged", case.operation(2, properties=FEED, delete_missing_where=gone), [(1, "a"), (3, "C"), (5, "e"), (7, "b")])
    raw = {"readChangeFeed": "true", "startingVersion": "3", "endingVersion": "3"}
    table.raw = spark.read.format("delta").options(**raw).load(case.path).collect()
    table.apply("replaced", case.operation(3, ApplyMode.OVERWRITE, generation=2), [(1, "a"), (3, "C"), (5, "E"), (9, "z")])
    spark.sql(f"ALTER TABLE {table.name} ALTER COLUMN amount TYPE decimal(12,2)")
    wider = schema(*SCHEMA_DDL[:2], ("amount", "decimal(12,2)"), SCHEMA_DDL[3])
    table.apply("wider", case.operation(4, schema=wider), [(1, "A")])
    spark.sql(f"ALTER TABLE {table.name} ADD COLUMNS (_cdc_sequence array<bigint>)")
    spark.sql(f"UPDATE {table.name} SET _cdc_sequence = array(7L)")
    return table


def test_each_commit_tells_what_became_of_its_rows_and_nothing_of_rows_written_again_as_they_were(table: Followed) -> None:
    merged = [("d", 2, "b", None), ("u", 3, "c", "C"), ("d", 4, "d", None), ("i", 5, None, "e"), ("i", 7, None, "b")]
    replaced = [("u", 5, "e", "E"), ("d", 7, "b", None), ("i", 9, None, "z")]
    # A changed key is a delete and an insert; a new generation is told as what it changed; the last commit lies behind a widened column.
    assert table.sorted_changes("loaded", "wider") == [*merged, *replaced, ("u", 1, "a", "A")]
    assert table.sorted_changes("replaced", "replaced") == []
    last = table.versions["wider"]
    assert table.sorted_changes(last, last + 2) == [], "a later event that leaves all values as they were"


def test_images_are_those_of_deltas_own_feed(table: Followed) -> None:
    raw = {(row["_change_type"], row["id"]): row.asDict() for row in table.raw}
    assert raw["update_preimage", 1] | {"_change_type": ""} == raw["update_postimage", 1] | {"_change_type": ""}, "Delta tells of it"
    ours = {row["key"]["id"]: row for row in table.changes("loaded", "merged").collect()}
    for kind, side in {"update_preimage": "before", "update_postimage": "after"}.items():
        assert ours[3][side].asDict() == {name: value for name, value in raw[kind, 3].items() if not name.startswith("_")}
    assert ours[2]["before"]["name"] == raw["delete", 2]["name"]
    assert ours[5]["after"]["name"] == raw["insert", 5]["name"]


def test_each_mode_has_its_fields(table: Followed) -> None:
    told = {mode: table.changes("merged", "replaced", mode) for mode in ("op_key_only", "data_before", "data_before_after")}
    assert [frame.columns for frame in told.values()] == [
        ["op", "ts_ms", "version", "key"],
        ["op", "ts_ms", "version", "key", "before"],
        ["op", "ts_ms", "version", "key", "before", "after"],
    ]
    rows = told["op_key_only"].collect()
    assert {(row["op"], row["key"]["id"], row["version"]) for row in rows} == {(op, key, 4) for op, key in (("u", 5), ("d", 7), ("i", 9))}
    assert all(re.fullmatch(r"\d{17}", row["ts_ms"]) for row in rows)


def test_ends_are_told_by_watermark_and_time_too(table: Followed) -> None:
    def versions(*ends: str) -> tuple[int, int]:
        found = find_range(table.case.path, *(parse_bound(end, "end") for end in ends))
        return found.begin, found.end

    marks = [f"watermark:2026-01-01 00:00:0{number}.000000" for number in (1, 2, 3)]
    assert versions(*marks[:2]) == (1, 3)
    assert versions(*marks[1:]) == (3, 4)
    [stamp] = {row["ts_ms"] for row in table.changes("loaded", "merged", "op_key_only").collect()}
    time = f"{stamp[:4]}-{stamp[4:6]}-{stamp[6:8]}T{stamp[8:10]}:{stamp[10:12]}:{stamp[12:14]}.{stamp[14:]}Z"
    assert versions("1", time) == (1, 3), "the end is included"
    assert versions(time, "4") == (3, 4), "and the beginning is not"


def test_what_was_not_recorded_is_refused(table: Followed) -> None:
    with pytest.raises(ChangesUnavailableError, match="its change feed was off at version 1") as caught:
        table.changes(0, "merged")
    assert caught.value.why == "It was switched on by version 2."
    assert "Start after version 2," in caught.value.next


def test_the_command_writes_lines_of_json_and_parquet(table: Followed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "shop.yaml").write_text(FILE.format(folder=tmp_path, path=table.case.path))
    monkeypatch.setattr("cdc_ops.cli.commands.changes.LocalSpark.session", lambda _: table.spark)
    ends = ["--from", str(table.versions["merged"]), "--to", str(table.versions["replaced"]), "--pipelines", str(tmp_path)]
    shown = CliRunner().invoke(app, ["changes", "shop.orders", *ends])
    assert shown.exit_code == 0, shown.output
    told = [json.loads(line) for line in shown.stdout.splitlines()]
    assert [(one["op"], one["key"], one["before"] and one["before"]["name"], one["after"] and one["after"]["name"]) for one in told] == [
        ("u", {"id": 5}, "e", "E"),
        ("d", {"id": 7}, "b", None),
        ("i", {"id": 9}, None, "z"),
    ]
    written = CliRunner().invoke(app, ["changes", "shop.orders", *ends, "--parquet", f"{tmp_path}/out"])
    assert written.exit_code == 0, written.output
    assert table.spark.read.parquet(f"{tmp_path}/out").count() == 3
    again = CliRunner().invoke(app, ["changes", "shop.orders", *ends, "--output", f"{tmp_path}/out"])
    assert (again.exit_code, "already exists" in again.output) == (2, True)


def test_rows_of_any_version_are_shown_by_columns_and_values(table: Followed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "shop.yaml").write_text(FILE.format(folder=tmp_path, path=table.case.path))
    monkeypatch.setattr("cdc_ops.cli.commands.show.LocalSpark.session", lambda _: table.spark)

    def show(*words: str) -> Result:
        return CliRunner().invoke(app, ["show", "shop.orders", *words, "--pipelines", str(tmp_path)])

    newest = json.loads(show("--json").stdout)
    rows = [row.asDict() for row in cdc_ops.current(table.spark, table.case.path).collect()]
    for row in rows:
        row["updated_at"] = row["updated_at"].strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    assert sorted(newest, key=lambda row: row["id"]) == sorted(rows, key=lambda row: row["id"])
    one = show("--where", "id=5", "--columns", "NAME,id")
    assert one.exit_code == 0, one.output
    assert (one.stdout.split()[:2], one.stdout.split()[-2:]) == (["name", "id"], ["E", "5"])
    assert f"shop.orders: 1 row of Delta version {table.versions['wider'] + 2}\n" in one.stderr
    old = show("--where", "id=5", "--columns", "name", "--version", str(table.versions["merged"]), "--json")
    assert json.loads(old.stdout) == [{"name": "e"}]
    assert len(json.loads(show("-n", "1", "--json").stdout)) == 1
    assert "no such row" in show("--where", "id=4711").stderr
    for words, said in (
        (("--where", "id=five"), "'five' is not a value of column 'id', which is"),
        (("--where", "id"), "'id' is no condition."),
        (("--columns", "nam"), "Did you mean 'name'?"),
        (("--version", "99"), "does not have version 99"),
    ):
        refused = show(*words)
        assert (refused.exit_code, said in " ".join(refused.output.split())) == (2, True), refused.output


def _example() -> ModuleType:
    spec = importlib.util.spec_from_file_location("example", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_example_keeps_an_aggregate_in_step_and_a_repeated_run_adds_nothing(table: Followed, tmp_path: Path) -> None:
    follow, gold = _example().follow, f"{tmp_path}/gold"

    def sums(frame: DataFrame) -> dict[str, tuple[int, str]]:
        return {row["name"]: (row["orders"], str(row["amount"])) for row in frame.collect()}

    assert follow(table.spark, table.case.path, gold, until=table.versions["loaded"]) == (-1, 1)
    assert follow(table.spark, table.case.path, gold) == (1, table.versions["wider"] + 2)
    whole = table.spark.sql(f"SELECT name, count(*) orders, sum(amount) amount FROM {table.name} GROUP BY name")
    assert sums(table.spark.read.format("delta").load(gold).where("orders <> 0")) == sums(whole)
    before = sums(table.spark.read.format("delta").load(gold))
    _example().add_changes(table.spark, table.case.path, gold, table.versions["loaded"], table.versions["merged"])
    assert sums(table.spark.read.format("delta").load(gold)) == before, "a run that comes late or twice is skipped"


def test_changes_that_vacuum_has_removed_are_refused_before_they_are_read(table: Followed) -> None:
    for file in at(table.case.path).joinpath("_change_data").glob("*.parquet"):
        file.unlink()
    with pytest.raises(ChangesUnavailableError, match="VACUUM removed files with the changes of version 3 and earlier"):
        table.changes("loaded", "replaced")
    assert table.sorted_changes("merged", "replaced")
