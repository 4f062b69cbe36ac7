"""Names of all kinds, as tables, keys, cursors and plain columns, through every statement that is made of them."""

from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from cdc_ops.core.maintenance import MaintenancePolicy
from cdc_ops.core.operation.run_request import ResyncMode, RunKind
from cdc_ops.core.pipeline.archive_config import ArchiveConfig
from cdc_ops.core.pipeline.pipeline import TableRule, table_path
from cdc_ops.core.pipeline.table_settings import Method
from cdc_ops.core.text import quoted
from cdc_ops.dev.debezium import running_debezium
from cdc_ops.dev.debezium_settings import MARKS
from cdc_ops.dev.servers import PostgresServer
from cdc_ops.dev.sink_archive import SinkArchive
from cdc_ops.lake.diff.comparison import TableComparison
from cdc_ops.sources.base import open_source
from cdc_ops.steps.discovery import discover
from cdc_ops.steps.planning.reconcile import plan_verification
from cdc_ops.steps.runs.run import RunReport
from cdc_ops.steps.table.source_table import read_source_table
from cdc_ops.steps.verify import verify
from tests.world import World, request

LONG = "日x"
"""Stands for a name of the greatest length."""
NAMES = (
    "größe", "имя", "日本", "with space", " leading", "a.b", "tick`s", "a,b", 'q"uote', "o'clock", "select", "Mixed Case", "semi;colon",
    "eq=uals", "br(ackets)", "{curly}", "[x]", "new\nline", "tab\tx", "back\\slash", "100%", "%20", "a:b", "a/b", "?q", "*star", "#hash",
    "$dollar", "@at", "--dash", "/*c*/", "1st", "~", "&amp;", "<b>", "+", "|", "^", "t", "s", "value", "İ", "Ж" * 31, LONG,
)  # fmt: skip
PARTS = 16
"""Columns of a key at most, on MySQL and MariaDB."""
HALF = len(NAMES) // 2
TABLES = (" Größe `имя`.日本\"c'd,e;f=g(i)", "{select}[x]*?\\y:z/..")


class Odd:
    """One table of odd names: so many columns are its key, one is its cursor, all others are plain."""

    def __init__(self, world: World, number: int, names: tuple[str, ...] = (), parts: int = PARTS, *, history: bool = False) -> None:
        self.world, self.parts, self.history = world, parts, history
        self.postgres = isinstance(world.server, PostgresServer)
        self.table, self.versions = self.longest(TABLES[number]), number == 1
        names = names or NAMES[number * parts :] + NAMES[: number * parts]
        names = tuple(self.longest(name) if name == LONG else name for name in names)
        self.upkeep = False
        self.keys, self.cursor, self.plain = names[:parts], names[parts], names[parts + 1 :]
        moment = "timestamp(6)" if self.postgres else "DATETIME(6)"
        keys = ["INT NOT NULL", *["VARBINARY(9) NOT NULL" if not self.postgres else "bytea NOT NULL"] * (parts - 1)]
        kinds = [*keys, moment, *["VARCHAR(20)"] * len(self.plain)]
        columns = ", ".join(f"{self.name(name)} {kind}" for name, kind in zip(names, kinds, strict=True))
        self.sql(f"CREATE TABLE {self.at} ({columns}, PRIMARY KEY ({', '.join(map(self.name, self.keys))}))")
        self.insert(1, 2, 3)

    def longest(self, begin: str) -> str:
        """A name that is as long as the server takes: 63 bytes on Postgres, 64 characters on the others."""
        if self.postgres:
            return begin + "y" * (63 - len(begin.encode()))
        return begin.ljust(64, "y")

    def name(self, one: str) -> str:
        quote = self.quote
        return f"{quote}{one.replace(quote, quote * 2)}{quote}"

    @property
    def quote(self) -> str:
        return '"' if self.postgres else "`"

    @property
    def at(self) -> str:
        return self.name(self.table)

    @property
    def now(self) -> str:
        return "clock_timestamp() AT TIME ZONE 'UTC'" if self.postgres else "NOW(6)"

    def sql(self, statement: str) -> Any:
        return self.world.sql(statement)

    def insert(self, *numbers: int) -> None:
        values = ", ".join([*["'k'"] * (self.parts - 1), self.now, *["'v'"] * len(self.plain)])
        self.sql(f"INSERT INTO {self.at} VALUES {', '.join(f'({number}, {values})' for number in numbers)}")

    def change(self, number: int, value: str = "w", *, touch: bool = True) -> None:
        sets = [f"{self.name(name)} = '{value}'" for name in self.plain] + [f"{self.name(self.cursor)} = {self.now}"] * touch
        self.sql(f"UPDATE {self.at} SET {', '.join(sets)} WHERE {self.name(self.keys[0])} = {number}")

    def delete(self, number: int) -> None:
        self.sql(f"DELETE FROM {self.at} WHERE {self.name(self.keys[0])} = {number}")

    @property
    def full(self) -> str:
        return str(self.world.name(self.table))

    @property
    def rule(self) -> TableRule:
        pattern = "".join(f"[{sign}]" if sign in "*?[" else sign for sign in self.full)
        often: dict[str, Any] = {
            "min_small_files": 1,
            "optimize_every": timedelta(0),
            "vacuum_every": timedelta(0),
            "retention": timedelta(days=3),
        }
        upkeep = MaintenancePolicy(enabled=self.upkeep, **often)
        scd = 2 if self.versions else 1
        cursor = () if self.world.settings.method is Method.LOG else (self.cursor,)
        settings = self.world.settings.changed(cursor=cursor, maintenance=upkeep, stored_as_scd_type=scd, event_history=self.history)
        return TableRule(pattern=pattern, settings=settings)

    @property
    def path(self) -> str:
        return table_path(self.world.pipeline, self.world.name(self.table), self.world.settings)

    def is_equal(self) -> bool:
        rows = self.world.spark.read.format("delta").load(self.path)
        living = rows.where("__END_AT IS NULL") if "__END_AT" in rows.columns else rows
        lake = living.select(*map(quoted, (*self.keys, self.cursor, *self.plain))).collect()
        source = [
            tuple(bytes(value) if isinstance(value, memoryview) else value for value in row) for row in self.sql(f"SELECT * FROM {self.at}")
        ]
        return sorted(tuple(bytes(value) if isinstance(value, bytearray) else value for value in row) for row in lake) == sorted(source)

    def key(self, number: int) -> tuple[str, ...]:
        """The key of a row, as people write it."""
        return (str(number), *["6B"] * (self.parts - 1))


Fixtures = Callable[[str], Any]


@pytest.fixture
def fixtures(request: pytest.FixtureRequest) -> Fixtures:
    return request.getfixturevalue


def keep_up(world: World, *tables: Odd, upkeep: bool) -> None:
    """Sets whether runs see to the upkeep of some tables, which costs as much as the rest of a run: one shows that it can."""
    for table in tables:
        table.upkeep = upkeep
    world.pipeline = replace(world.pipeline, tables=tuple(table.rule for table in tables))


def done(report: RunReport) -> RunReport:
    assert not report.failures, [str(failure.error) for failure in report.failures]
    assert report.runs
    return report


@pytest.mark.parametrize("kind", ["mariadb", pytest.param("postgres", marks=pytest.mark.long)])
def test_names_of_all_kinds_go_through_snapshot_increment_reconcile_and_upkeep(
    kind: str, fixtures: Fixtures, spark: SparkSession, tmp_path: Path
) -> None:
    world = World(fixtures(kind), tmp_path, spark)
    tables = plain, _ = Odd(world, 0, NAMES[: 2 * PARTS + 1]), Odd(world, 1)  # the names that the first leaves out are plain in the second
    keep_up(world, *tables, upkeep=False)
    done(world.run())
    assert all(table.is_equal() for table in tables)
    for table in tables:
        table.change(1)
        table.insert(4)
        table.delete(2)
    keep_up(world, *tables, upkeep=True)
    done(world.run())
    keep_up(world, *tables, upkeep=False)
    done(world.run(kind=RunKind.RECONCILE))
    assert all(table.is_equal() for table in tables)
    operations = {row["operation"] for row in spark.sql(f"DESCRIBE HISTORY delta.{quoted(plain.path)}").collect()}
    assert operations >= {"MERGE", "OPTIMIZE", "VACUUM END"}


def compared(world: World, table: Odd) -> TableComparison:
    """What a verification finds."""
    with closing(open_source(world.pipeline.source, world.url)) as source:
        [config] = discover(world.pipeline, source, request(tables=(table.full,)))
        return verify(world.spark, source, plan_verification(source, read_source_table(world.pipeline, source, config), 2))


def check_verify_and_repairs(world: World, table: Odd, gone: int) -> None:
    """Changes that no run has seen are found and named; keys and columns that are read again take them away."""
    assert compared(world, table).equal
    last = table.plain[-1]
    table.change(1, "x", touch=False)
    table.delete(gone)
    found = compared(world, table)
    assert (found.different, found.only_in_lake, found.only_in_source) == (1, 1, 0)
    assert found.samples == (("different", table.key(1)), ("only in lake", table.key(gone)))
    done(world.resync(ResyncMode.KEYS, tables=(table.full,), keys=(table.key(1), table.key(gone))))
    assert table.is_equal()
    sets = ", ".join(f"{table.name(name)} = 'filled'" for name in table.plain)
    table.sql(f"UPDATE {table.at} SET {sets}")
    done(world.run(kind=RunKind.BACKFILL, tables=(table.full,), columns=table.plain[:-1]))
    assert not table.is_equal()
    done(world.run(kind=RunKind.BACKFILL, tables=(table.full,), columns=(last,)))
    assert table.is_equal()


@pytest.mark.long
@pytest.mark.parametrize("kind", ["mariadb", "postgres"])
def test_names_of_all_kinds_come_from_archived_events(kind: str, fixtures: Fixtures, spark: SparkSession, tmp_path: Path) -> None:
    world = World(fixtures(kind), tmp_path, spark)
    world.configure(method=Method.LOG, cursor=())
    safe = {"event.converting.failure.handling.mode": "fail", "converter.replace.null.with.default": "false", "skipped.operations": "none"}
    form = "debezium-postgres" if kind == "postgres" else "debezium-mysql"
    settings = tuple(safe.items()) + ((("enable.time.adjuster", "false"),) if kind == "mariadb" else ())
    archive = ArchiveConfig.of(url=str(tmp_path / "archive"), format=form, settings=settings, min_file_age=timedelta(0))
    tables = plain, versions = Odd(world, 0, NAMES[: HALF + 1], 8), Odd(world, 1, NAMES[HALF:], 8, history=True)
    world.pipeline = replace(world.pipeline, archive=archive)
    keep_up(world, *tables, upkeep=False)
    sink = SinkArchive(tmp_path / "archive", tmp_path / "sink", records_per_file=40)
    captured = [f"{world.database}.{table.table}" for table in tables]
    # The list that the engine is given has commas between; what it reads last tells that the tables before it are in the archive.
    every = {"table.include.list": f"{world.schema}\\.(?!{MARKS}$).*,{world.schema}\\.{MARKS}"}
    with running_debezium(world.server, captured, sink, tmp_path / "engine", settings=every | {"slot.drop.on.stop": "true"}) as engine:
        engine.catch_up()
        done(world.run())
        assert all(table.is_equal() for table in tables)
        for table in tables:
            table.change(1)
            table.insert(4)
            table.delete(2)
            table.sql(f"UPDATE {table.at} SET {table.name(table.keys[0])} = 5 WHERE {table.name(table.keys[0])} = 3")
        engine.catch_up()
    keep_up(world, *tables, upkeep=True)
    done(world.run())
    keep_up(world, *tables, upkeep=False)
    assert all(table.is_equal() for table in tables)
    done(world.resync(ResyncMode.REPLAY, tables=(versions.full,)))
    assert versions.is_equal()
    check_verify_and_repairs(world, plain, gone=5)
