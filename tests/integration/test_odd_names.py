"""Names of all kinds, as tables, keys, cursors and plain columns, through every statement that is made of them."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from cdc_ops.core.maintenance import MaintenancePolicy
from cdc_ops.core.pipeline import TableRule, table_path
from cdc_ops.core.requests import RunKind
from cdc_ops.core.text import quoted
from cdc_ops.steps.run import RunReport
from cdc_ops.testing.servers import MariaDBServer, PostgresServer
from tests.world import World

NAMES = (
    "größe", "имя", "日本", "with space", " leading", "a.b", "tick`s", "a,b", 'q"uote', "o'clock", "select", "Mixed Case", "semi;colon",
    "eq=uals", "br(ackets)", "{curly}", "[x]", "new\nline", "tab\tx", "back\\slash", "100%", "%20", "a:b", "a/b", "?q", "*star", "#hash",
    "$dollar", "@at", "--dash", "/*c*/", "1st", "~", "&amp;", "<b>", "+", "|", "^", "t", "s", "value", "İ", "Ж" * 31, "x" * 63,
)  # fmt: skip
PARTS = 16
"""Columns of a key at most, on MySQL and MariaDB."""
TABLES = (" Größe `имя`.日本\"c'd,e;f=g(i)", "{select}[x]*?\\y:z/..")


class Odd:
    """One table of odd names: as many columns as can be are its key, one is its cursor, all others are plain."""

    def __init__(self, world: World, number: int) -> None:
        self.world, self.table = world, TABLES[number]
        self.postgres = isinstance(world.server, PostgresServer)
        names = NAMES[number * PARTS :] + NAMES[: number * PARTS]
        self.keys, self.cursor, self.plain = names[:PARTS], names[PARTS], names[PARTS + 1 :]
        moment = "timestamp(6)" if self.postgres else "DATETIME(6)"
        keys = ["INT NOT NULL", *["VARBINARY(9) NOT NULL" if not self.postgres else "bytea NOT NULL"] * (PARTS - 1)]
        kinds = [*keys, moment, *["VARCHAR(20)"] * len(self.plain)]
        columns = ", ".join(f"{self.name(name)} {kind}" for name, kind in zip(names, kinds, strict=True))
        self.sql(f"CREATE TABLE {self.at} ({columns}, PRIMARY KEY ({', '.join(map(self.name, self.keys))}))")
        self.insert(1, 2, 3)

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
        values = ", ".join([*["'k'"] * (PARTS - 1), self.now, *["'v'"] * len(self.plain)])
        self.sql(f"INSERT INTO {self.at} VALUES {', '.join(f'({number}, {values})' for number in numbers)}")

    def change(self, number: int, *, touch: bool = True) -> None:
        sets = [f"{self.name(name)} = 'w{number}'" for name in self.plain] + [f"{self.name(self.cursor)} = {self.now}"] * touch
        self.sql(f"UPDATE {self.at} SET {', '.join(sets)} WHERE {self.name(self.keys[0])} = {number}")

    def delete(self, number: int) -> None:
        self.sql(f"DELETE FROM {self.at} WHERE {self.name(self.keys[0])} = {number}")

    @property
    def full(self) -> str:
        return str(self.world.name(self.table))

    @property
    def rule(self) -> TableRule:
        pattern = "".join(f"[{sign}]" if sign in "*?[" else sign for sign in self.full)
        upkeep = MaintenancePolicy(min_small_files=1, optimize_every=timedelta(0), vacuum_every=timedelta(0), retention=timedelta(days=3))
        scd = 2 if self.table == TABLES[1] else 1
        settings = replace(self.world.settings, cursor=(self.cursor,), maintenance=upkeep, stored_as_scd_type=scd)
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


def done(report: RunReport) -> RunReport:
    assert not report.failures, [str(failure.error) for failure in report.failures]
    assert report.runs
    return report


def test_names_of_all_kinds_go_through_snapshot_increment_reconcile_and_upkeep(
    mariadb: MariaDBServer, spark: SparkSession, tmp_path: Path
) -> None:
    world = World(mariadb, tmp_path, spark)
    tables = plain, versions = Odd(world, 0), Odd(world, 1)
    world.pipeline = replace(world.pipeline, tables=(plain.rule, versions.rule))
    done(world.run())
    assert all(table.is_equal() for table in tables)
    for table in tables:
        table.change(1)
        table.insert(4)
        table.delete(2)
    done(world.run())
    done(world.run(kind=RunKind.RECONCILE))
    assert all(table.is_equal() for table in tables)
    operations = {row["operation"] for row in spark.sql(f"DESCRIBE HISTORY delta.{quoted(plain.path)}").collect()}
    assert operations >= {"MERGE", "OPTIMIZE", "VACUUM END"}
