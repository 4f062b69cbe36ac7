"""Both ways into the lake, side by side: the hostile corpus as the real Debezium engine archives it, and as the query method reads it.

Each value of the corpus is a row of its own, read by the engine's snapshot, inserted, and set by an update. What a connector cannot carry
is in one list, with the reason: what is in it and is equal all the same fails as what differs and is not in it.
"""

import json
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from cdc_ops.core.apply.metadata_columns import SEQUENCE
from cdc_ops.core.events.format_spec import FormatOptions
from cdc_ops.core.formats.checks import check_format
from cdc_ops.core.pipeline.archive_config import ArchiveConfig, OnBadRecord
from cdc_ops.core.pipeline.table_settings import Method
from cdc_ops.core.pipeline.tables.paths import quarantine_path
from cdc_ops.core.schema.server_types.unsigned_bigints import widened_schema
from cdc_ops.core.schema.tables import TableSchema
from cdc_ops.dev.debezium import running_debezium
from cdc_ops.dev.servers import DatabaseServer
from cdc_ops.dev.sink_archive import SinkArchive
from cdc_ops.errors import ConfigError, SourceTableError
from cdc_ops.events.registry import format_spec
from cdc_ops.lake.quarantine.read import read_quarantine
from cdc_ops.sources.base import open_source
from cdc_ops.steps.query.jdbc_rows import read_source
from tests.corpus import POSTGRES_CASES, cases, create_postgres_table, postgres_name
from tests.world import World

FORMATS = {"MariaDB": "debezium-mysql", "MySQL": "debezium-mysql", "Postgres": "debezium-postgres"}
SETTINGS = (
    ("event.converting.failure.handling.mode", "fail"),
    ("converter.replace.null.with.default", "false"),
    ("skipped.operations", "none"),
)
OF_ENGINE = {"Postgres": {"decimal.handling.mode": "string", "slot.drop.on.stop": "true"}}
PHASES = {"snapshot": 0, "insert": 10_000, "update": 20_000}
"""How a value gets into the archive, and what is added to the number of its row."""
SESSION = ("SET sql_mode = 'ALLOW_INVALID_DATES', time_zone = '+00:00'", "SET NAMES utf8mb4")

EQUAL, ASIDE, DIFFERS, STOPS = "equal", "set aside", "differs", "stops the engine"


@dataclass(frozen=True)
class Limit:
    """What a connector makes of values that it cannot carry.

    Args:
        values: `declared literal`, or `declared` for all values of the type.
        reason: Why.
        snapshot, insert, update: What becomes of them.
    """

    values: tuple[str, ...]
    reason: str
    snapshot: str = EQUAL
    insert: str = EQUAL
    update: str = EQUAL


NOT_NULL = ("DATE NOT NULL DEFAULT '2020-01-01'", "DATETIME(6) NOT NULL DEFAULT '2020-01-01'")
LONG_DECIMAL = Limit(("DECIMAL(65,30)",), "more than 16 bytes", ASIDE, ASIDE, ASIDE)
ROUNDED = Limit(("FLOAT", "FLOAT UNSIGNED"), "the server prints six digits", DIFFERS)
NO_NULL = Limit(NOT_NULL, "the default of the column in place of 0000-00-00", DIFFERS, DIFFERS, DIFFERS)
CUTOVER = Limit(("DATETIME '1582-10-10 12:00:00'",), "the ten days that java.sql's calendar leaves out", DIFFERS)
NO_DAY = "a day that there is none of is moved by java.sql's calendar, and stops the reader of the log"

LIMITS = {
    "MariaDB": (
        Limit(("INET6",), "the parser does not know the type", STOPS, STOPS, STOPS),
        Limit(("GEOMETRY", "YEAR 0"), "the driver fails", STOPS),
        Limit(("DATE '2024-02-31'", "DATETIME '2023-02-29 12:00:00'"), NO_DAY, DIFFERS, STOPS, STOPS),
        *(LONG_DECIMAL, ROUNDED, NO_NULL, CUTOVER),
    ),
    "MySQL": (
        Limit(("DATE '2024-02-31'",), "the driver fails, and the reader of the log", STOPS, STOPS, STOPS),
        Limit(("DATETIME '2023-02-29 12:00:00'",), NO_DAY, DIFFERS, STOPS, STOPS),
        Limit(("YEAR 0",), "the driver says 2000", DIFFERS),
        *(LONG_DECIMAL, ROUNDED, NO_NULL, CUTOVER),
    ),
    "Postgres": (
        Limit(("date '1582-10-10'",), "java.sql's calendar is Julian before 1582", DIFFERS),
        Limit(
            ("int[] '{{1,2},{3,4}}'", "text[] '{{a,b},{c,NULL}}'"), "arrays of arrays become NULLs or Java's own names", ASIDE, ASIDE, ASIDE
        ),
    ),
}
REFUSED = {
    "MariaDB": {"FLOAT", "FLOAT UNSIGNED", "UUID"},
    "MySQL": {"FLOAT", "FLOAT UNSIGNED"},
    "Postgres": {"bit varying", "interval", "money", "name", "numeric(5,2)[]", "point", "timetz"},
}
"""Declared types of which the format refuses a table by name, until the loss is accepted or the column left out."""
ACCEPTED = {"MariaDB": ("snapshot.mode=initial",), "MySQL": ("snapshot.mode=initial",), "Postgres": ()}


@dataclass(frozen=True)
class Probe:
    """A value: the number of its row, and the one column that is not NULL in it."""

    row: int
    column: str
    declared: str
    literal: str

    def outcome(self, server: DatabaseServer, phase: str) -> str:
        names = {self.declared, f"{self.declared} {self.literal}"}
        [*found] = (limit for limit in LIMITS[server.name] if names & set(limit.values))
        return str(getattr(found[0], phase)) if found else EQUAL


def probes_of(server: DatabaseServer) -> list[Probe]:
    """All values of a server's corpus that its engine lives through."""
    if server.name == "Postgres":
        return [
            Probe(100 * index + number, postgres_name(index), declared, literal)
            for index, (declared, _, literals) in enumerate(POSTGRES_CASES)
            for number, literal in enumerate(literals)
        ]
    every = [*((declared, literal) for declared, literal, _ in cases(server)), *((declared, "'0000-00-00'") for declared in NOT_NULL)]
    columns = {declared: f"c{number}" for number, declared in enumerate(dict.fromkeys(declared for declared, _ in every))}
    probes = (Probe(row, columns[declared], declared, literal) for row, (declared, literal) in enumerate(every))
    return [probe for probe in probes if any(probe.outcome(server, phase) != STOPS for phase in PHASES)]


def create(world: World, probes: list[Probe]) -> None:
    if world.server.name == "Postgres":
        create_postgres_table(world)
        return
    columns = ", ".join(dict.fromkeys(f"{probe.column} {probe.declared}" for probe in probes))
    updated_at = "updated_at TIMESTAMP(6) NOT NULL DEFAULT NOW(6) ON UPDATE NOW(6)"
    world.sql(
        f"CREATE TABLE hostile (id INT PRIMARY KEY, {columns}, {updated_at}) CHARACTER SET utf8mb4", *SESSION, *inserts(world, probes)
    )


def inserts(world: World, probes: list[Probe], phase: str = "snapshot") -> Iterator[str]:
    for probe in probes:
        if probe.outcome(world.server, phase) != STOPS:
            yield f"INSERT INTO hostile (id, {probe.column}) VALUES ({PHASES[phase] + probe.row}, {probe.literal})"


def change(world: World, probes: list[Probe]) -> None:
    inserted, updated = PHASES["insert"], PHASES["update"]
    if world.server.name == "Postgres":
        names = ", ".join('"' + name.replace('"', '""') + '"' for name in dict.fromkeys(probe.column for probe in probes))
        world.sql(
            f"INSERT INTO hostile (id, {names}) SELECT id + {inserted}, {names} FROM hostile",
            f"INSERT INTO hostile (id) SELECT id + {updated} FROM hostile WHERE id < {inserted}",
            f"UPDATE hostile b SET ({names}) = (SELECT {names} FROM hostile a WHERE b.id = a.id + {updated}) WHERE b.id >= {updated}",
        )
        return
    streamed = [probe for probe in probes if probe.outcome(world.server, "update") != STOPS]
    world.sql(
        *SESSION,
        *inserts(world, probes, "insert"),
        "INSERT INTO hostile (id) VALUES " + ", ".join(f"({updated + probe.row})" for probe in streamed),
        *(f"UPDATE hostile SET {probe.column} = {probe.literal} WHERE id = {updated + probe.row}" for probe in streamed),
    )


def archive(world: World, probes: list[Probe]) -> None:
    """Lets the real engine read the table as it is, and follow it through inserts and updates."""
    create(world, probes)
    sink, settings = SinkArchive(world.folder / "archive", world.folder / "sink"), OF_ENGINE.get(world.server.name)
    with running_debezium(world.server, [f"{world.database}.hostile"], sink, world.folder / "engine", settings=settings) as engine:
        engine.catch_up()
        change(world, probes)
        engine.catch_up()


def event_format(server: DatabaseServer, accept_losses: tuple[str, ...] = ()) -> FormatOptions:
    modes = {name: value for name, value in OF_ENGINE.get(server.name, {}).items() if name == "decimal.handling.mode"}
    years = {} if server.name == "Postgres" else {"enable.time.adjuster": "false"}  # Postgres' connector has no such setting
    return FormatOptions(name=FORMATS[server.name], settings=dict(SETTINGS) | years | modes, accept_losses=accept_losses)


def refused(server: DatabaseServer, schema: TableSchema, accept_losses: tuple[str, ...]) -> set[str]:
    """The columns of which the format refuses the table by name."""
    options = event_format(server, accept_losses)
    found = set()
    for column in schema.columns:
        try:
            check_format(format_spec(options.name), options, replace(schema, columns=(schema.columns[0], column)), ("id",))
        except (ConfigError, SourceTableError) as error:
            found.update([column.name] if column.name in str(error) else ["not by name"])
    return found


Rows = dict[int, dict[str, str]]


def shown(frame: DataFrame) -> tuple[dict[str, str], Rows]:
    """The columns of a frame with their types, and its rows with all values as texts that differ where the values do."""
    types = {field.name: field.dataType.simpleString() for field in frame.schema.fields}
    texts = [f"{'hex' if kind == 'binary' else 'string'}(`{name}`) AS `{name}`" for name, kind in types.items()]
    return types, {int(row["id"]): row.asDict() for row in frame.selectExpr(*texts).collect()}


@pytest.mark.parametrize("kind", [*(pytest.param(kind, marks=pytest.mark.long) for kind in ("mariadb", "mysql")), "postgres"])
def test_a_table_holds_the_same_values_by_either_method(
    kind: str, request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path
) -> None:
    server: DatabaseServer = request.getfixturevalue(kind)
    world, probes = World(server, tmp_path, spark), probes_of(server)
    archive(world, probes)
    with closing(open_source(world.pipeline.source, world.url)) as source:
        schema = widened_schema(source.schema(world.name("hostile")))
        # What the query method lands; tests/integration/test_hostile_corpus.py follows it into the lake.
        types, theirs = shown(read_source(spark, source.jdbc_read(schema, ("",)), schema))
    declared = {probe.column: probe.declared for probe in probes}
    assert {declared[name] for name in refused(server, schema, ())} == REFUSED[server.name]
    left_out = refused(server, schema, ACCEPTED[server.name])

    world.configure(method=Method.LOG, cursor=(), except_column_list=tuple(left_out))
    options = event_format(server, ACCEPTED[server.name])
    rules = ArchiveConfig.of(
        url=str(tmp_path / "archive" / "cdc.{schema}.{table}"),
        format=options.name,
        settings=tuple(options.settings.items()),
        accept_losses=options.accept_losses,
        min_file_age=timedelta(0),
        bad_records=OnBadRecord.QUARANTINE,
    )
    world.pipeline = replace(world.pipeline, archive=rules)
    report = world.run(tables=(str(world.name("hostile")),))
    assert not report.failures, [str(failure.error) for failure in report.failures]
    types_of_log, ours = shown(spark.read.format("delta").load(world.path("hostile")))
    del types_of_log[SEQUENCE]
    assert types_of_log == {name: stored for name, stored in types.items() if name not in left_out}
    aside = {
        json.loads(one.raw)["payload"]["after"]["id"] for one in read_quarantine(quarantine_path(world.pipeline, world.name("hostile")))
    }
    assert ours.keys() == theirs.keys() - {row for row in aside if row < PHASES["update"]}

    def comparison(probe: Probe, row: int) -> str:
        if row in aside:
            return ASIDE
        different = {name for name in types_of_log if ours[row][name] != theirs[row][name]}
        assert different <= {probe.column}, "nothing else of the row may differ"
        return DIFFERS if different else EQUAL

    compared = {
        (probe, phase): (comparison(probe, base + probe.row), probe.outcome(server, phase))
        for probe in probes
        if probe.column not in left_out
        for phase, base in PHASES.items()
        if probe.outcome(server, phase) != STOPS
    }
    assert len(compared) >= 150
    wrong = [
        (f"{probe.declared} {probe.literal}", phase, *outcomes, ours.get(PHASES[phase] + probe.row, {}).get(probe.column))
        for (probe, phase), outcomes in compared.items()
        if outcomes[0] != outcomes[1]
    ]
    assert wrong == []
