"""The event history of a table: what the source had at any time, and the table rebuilt from it, whatever came between."""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from typer.testing import CliRunner

import cdc_ops
from cdc_ops.cli import app
from cdc_ops.core.events.event_history import EventHistory, generation_path
from cdc_ops.core.operation.run_request import ResyncMode
from cdc_ops.core.pipeline.pipeline import SourceConfig, SourceKind
from cdc_ops.core.pipeline.tables.paths import history_root
from cdc_ops.core.schema.declared_tables import DeclaredTable, TypeDialect
from cdc_ops.dev.servers import MariaDBServer
from cdc_ops.errors import ChangesUnavailableError, HistoryUnavailableError
from cdc_ops.steps import merge as merge_step
from cdc_ops.steps.history.retention import shorten
from tests.integration.test_log_method import ITEMS, Sink, change, counts, log_world
from tests.world import World

EPOCH = datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)
"""The time of `change(..., pos=0)`."""
PIPELINE = """\
pipeline: shop
source: {{kind: mysql, connection: shop_db}}
target: {{root: {folder}/lake, staging: {folder}/staging}}
archive:
  url: {folder}/archive
  format: maxwell
  settings: {{output_binlog_position: "true", output_xoffset: "true", ignore_producer_error: "false"}}
  accept_losses: [truncate=dropped, fractions=cut]
tables: {{{table}: {{method: log, event_history: true}}}}
"""
COLUMNS = (("id", "int(11) primary key"), ("name", "varchar(20)"), ("price", "decimal(8,2)"))
"""The table, as a pipeline file declares it whose source is gone."""
Rows = dict[int, tuple[str | None, str]]


@dataclass
class Shop:
    """A source that is written by hand: its events go to an archive, and its rows are remembered after each of them."""

    world: World
    sink: Sink
    random: Random = field(default_factory=lambda: Random(7))
    rows: Rows = field(default_factory=dict)
    states: dict[int, Rows] = field(default_factory=dict)
    events: list[dict[str, Any]] = field(default_factory=list)

    def at(self, pos: int) -> datetime:
        return EPOCH + timedelta(milliseconds=pos)

    def happen(self, number: int) -> None:
        """Lets some changes happen, each at a time of its own."""
        for _ in range(number):
            pos = 10 * (len(self.events) + 1)
            self.events.append(self._event(pos, self.random.choice("ccuuudk")))
            self.states[pos] = dict(self.rows)

    def deliver(self, events: Iterable[dict[str, Any]]) -> None:
        self.sink.write(*events)
        assert not self.world.run().failures

    def as_of(self, pos: int) -> DataFrame:
        return cdc_ops.as_of(self.world.spark, self.world.path("items"), self.at(pos))

    def _event(self, pos: int, kind: str) -> dict[str, Any]:
        def image(key: int) -> dict[str, Any]:
            name, price = self.rows[key]
            return {"id": key, "name": name, "price": price}

        new, db = self.random.randint(1, 8), self.world.database
        values = self.random.choice((None, "x", "y", "z")), f"{self.random.randint(1, 99)}.00"
        if kind == "c" or not self.rows:
            old = image(new) if new in self.rows else None
            self.rows[new] = values
            return change("u" if old else "c", pos, before=old, after=image(new), database=db)
        key = self.random.choice(sorted(self.rows))
        before = image(key)
        del self.rows[key]
        if kind == "d" or (kind == "k" and new in self.rows):
            return change("d", pos, before=before, database=db)
        self.rows[new if kind == "k" else key] = values
        return change("u", pos, before=before, after=image(new if kind == "k" else key), database=db)


def new_shop(server: MariaDBServer, folder: Path, spark: SparkSession, **settings: Any) -> Shop:
    world = log_world(server, folder, spark)
    world.configure(**settings)
    world.sql(ITEMS)
    return Shop(world, Sink(folder / "archive", world.database, "items"))


@pytest.fixture(scope="module")
def followed(mariadb: MariaDBServer, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Shop:
    """A table whose events came in two batches: out of order, one late, and some twice."""
    shop = new_shop(mariadb, tmp_path_factory.mktemp("history"), spark, event_history=True)
    late: list[dict[str, Any]] = []
    for number in range(2):
        first = len(shop.events)
        shop.happen(30)
        batch = [*shop.events[first:], *late, *shop.random.sample(shop.events[:first], min(first, 5))]
        late = [batch.pop(12)] if number == 0 else []
        shop.random.shuffle(batch)
        shop.deliver(batch)
    return shop


def plain_rows(rows: DataFrame) -> Rows:
    return {row["id"]: (row["name"], str(row["price"])) for row in rows.collect()}


def lake(shop: Shop) -> Rows:
    return plain_rows(shop.world.spark.read.format("delta").load(shop.world.path("items")))


def test_as_of_a_time_is_the_state_that_the_source_had_then(followed: Shop) -> None:
    assert lake(followed) == followed.rows
    late, later = 130, 310  # the event that came with the second batch, and where that begins
    for pos in {10, late - 10, late, late + 10, later - 10, later, *followed.random.sample(sorted(followed.states), 3), 600}:
        assert plain_rows(followed.as_of(pos)) == followed.states[pos], pos
    place = cdc_ops.as_of(followed.world.spark, followed.world.path("items"), "position:3,300")
    assert plain_rows(place) == followed.states[300]
    with pytest.raises(HistoryUnavailableError, match="its event history begins at 2023-11-14 22:13:20"):
        followed.as_of(9)


def test_the_command_tells_the_rows_of_a_time(followed: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = f"{followed.world.name('items')}"
    file = PIPELINE.format(folder=tmp_path, path=followed.world.path("items"), table=table)
    (tmp_path / "shop.yaml").write_text(file.replace(f"{tmp_path}/lake", followed.world.pipeline.target.root))
    monkeypatch.setattr("cdc_ops.cli.commands.event_history.LocalSpark.session", lambda _: followed.world.spark)
    shown = CliRunner().invoke(app, ["as-of", table, "--at", followed.at(300).isoformat(), "--pipelines", str(tmp_path)])
    assert shown.exit_code == 0, shown.output
    rows = (json.loads(line) for line in shown.stdout.splitlines())
    assert {row["id"]: (row["name"], f"{row['price']:.2f}") for row in rows} == followed.states[300]
    folder = str(tmp_path / "state")
    ends = ["--at", followed.at(300).isoformat(), "--pipelines", str(tmp_path)]
    written = CliRunner().invoke(app, ["as-of", table, *ends, "--delta", folder])
    assert f"are in {folder}" in written.output.replace("\n", "")
    assert plain_rows(followed.world.spark.read.format("delta").load(folder)) == followed.states[300]
    early = CliRunner().invoke(app, ["as-of", table, "--at", "2023-01-01T00:00:00Z", "--pipelines", str(tmp_path)])
    assert (early.exit_code, "its event history begins at 2023-11-14" in early.output.replace("\n", " ")) == (4, True), early.output


def test_an_event_that_is_delivered_twice_is_once_in_the_history(followed: Shop) -> None:
    kept = followed.world.spark.read.format("delta").load(history(followed)).where("kind = 'change'")
    assert kept.count() == len(followed.events) == kept.selectExpr("position[1]").distinct().count()


@pytest.mark.long
def test_what_is_older_than_the_retention_becomes_states_of_rows(followed: Shop) -> None:
    """The last test of these events: it removes some."""
    spark, path = followed.world.spark, history(followed)
    days = spark.read.format("delta").load(path).selectExpr("min(event_date)", "max(event_date)").collect()[0]
    assert (days[0], days[1]) == (EPOCH.date(), EPOCH.date())
    # All events are of one day: the next midnight is behind them.
    cut = datetime(2023, 11, 15, tzinfo=UTC)
    kept = EventHistory(root=path.rpartition("/")[0], path=path, retention=timedelta(days=1))
    assert not shorten(spark, kept, cut - timedelta(days=1))
    assert shorten(spark, kept, cut + timedelta(days=1))
    assert spark.read.format("delta").load(path).where("kind = 'change'").isEmpty()
    assert plain_rows(cdc_ops.as_of(spark, followed.world.path("items"), cut + timedelta(days=1))) == followed.rows
    with pytest.raises(HistoryUnavailableError, match="begins at 2023-11-16"):
        followed.as_of(100)
    followed.happen(10)
    followed.deliver(followed.events[-10:])
    assert followed.world.resync(ResyncMode.REPLAY).failures == ()
    assert lake(followed) == followed.rows


def history(shop: Shop) -> str:
    state = shop.world.state("items")
    return generation_path(history_root(shop.world.pipeline, shop.world.name("items")), state.generation)


def test_a_table_is_rebuilt_from_events_and_from_rows_of_other_reads(mariadb: MariaDBServer, spark: SparkSession, tmp_path: Path) -> None:
    shop = new_shop(mariadb, tmp_path, spark)
    world = shop.world
    shop.happen(10)
    shop.deliver(shop.events)
    world.configure(event_history=True)  # begins with the rows that the table has
    shop.happen(10)
    with pytest.MonkeyPatch.context() as patch:  # the events are kept, and the process dies before its commit
        patch.setattr(merge_step, "apply", killed)
        shop.sink.write(*shop.events[10:])
        assert world.run().failures
    begun = datetime.now(UTC)
    assert not world.run().failures
    world.sql("INSERT INTO items VALUES (99, 'read', 1)")  # never in the archive
    assert not world.resync(ResyncMode.KEYS, tables=(str(world.name("items")),), keys=(("99",),)).failures
    expected = {**shop.rows, 99: ("read", "1.00")}
    assert plain_rows(cdc_ops.as_of(spark, world.path("items"), begun)) == shop.rows
    assert plain_rows(cdc_ops.as_of(spark, world.path("items"), datetime.now(UTC))) == expected  # not noted yet
    shop.happen(1)
    shop.deliver(shop.events[-1:])
    expected = {**shop.rows, 99: ("read", "1.00")}
    spark.sql(f"DELETE FROM delta.`{world.path('items')}` WHERE id % 2 = 1").collect()  # somebody's mistake
    before = world.state("items")
    assert counts(world.resync(ResyncMode.REPLAY))[0] == len(expected)
    assert lake(shop) == expected
    after = world.state("items")
    assert (after.progress.watermark, after.progress.archive, after.generation) == (
        before.progress.watermark,
        before.progress.archive,
        before.generation,
    )
    assert world.data_commits("items") == [1, 2, 3, 4, 5]
    spark.sql(f"DELETE FROM delta.`{world.path('items')}`").collect()
    report = world.resync(ResyncMode.REPLAY, since=shop.at(0))  # only what events have told since the history began
    assert counts(report)[0] == len({event["after"]["id"] for event in shop.events[10:] if event["after"]} & set(shop.rows))
    world.configure(event_history=False)
    shop.happen(1)
    shop.deliver(shop.events[-1:])  # which the history will never know
    with pytest.raises(ChangesUnavailableError, match="the events of operation 7 were not recorded"):
        cdc_ops.as_of(spark, world.path("items"), datetime.now(UTC))
    world.configure(event_history=True)  # so it starts again
    shop.happen(1)
    shop.deliver(shop.events[-1:])
    expected = lake(shop)
    assert plain_rows(cdc_ops.as_of(spark, world.path("items"), datetime.now(UTC))) == expected
    world.sql("DROP TABLE items")  # the source is gone: the pipeline file says what it had
    declared = DeclaredTable(name=str(world.name("items")), columns=COLUMNS)
    source = SourceConfig(kind=SourceKind.NONE, dialect=TypeDialect.MYSQL, tables=(declared,))
    world.pipeline = replace(world.pipeline, source=source)
    spark.sql(f"DELETE FROM delta.`{world.path('items')}`").collect()
    assert counts(world.resync(ResyncMode.REPLAY))[0] == len(expected)
    assert lake(shop) == expected


def killed(*_: object) -> None:
    raise RuntimeError("killed")


@pytest.mark.long
def test_a_table_gets_the_versions_of_its_rows_from_its_events(mariadb: MariaDBServer, spark: SparkSession, tmp_path: Path) -> None:
    shop = new_shop(mariadb, tmp_path, spark, event_history=True)
    shop.happen(25)
    shop.events.append(change("t", 255, database=shop.world.database))
    shop.rows.clear()
    shop.states[255] = {}
    shop.happen(15)
    shop.deliver(shop.events)
    shop.world.configure(stored_as_scd_type=2)
    assert not shop.world.resync(ResyncMode.REPLAY).failures

    def stored() -> list[tuple[int, int, int, str]]:
        rows = shop.world.spark.read.format("delta").load(shop.world.path("items")).collect()
        ends = (((row["__END_AT"] or (0, 0))[1], repr((row["name"], str(row["price"])))) for row in rows)
        return sorted((row["id"], row["__START_AT"][1], *end) for row, end in zip(rows, ends, strict=True))

    assert stored() == sorted(versions(shop))
    shop.happen(5)  # and goes on with them
    shop.deliver(shop.events[-5:])
    assert stored() == sorted(versions(shop))


def versions(shop: Shop) -> list[tuple[int, int, int, str]]:
    """The versions of all rows, by the states that the source had: key, start, end (0 = none), values."""
    found: list[tuple[int, int, int, str]] = []
    living: dict[int, tuple[int, str]] = {}
    for pos, rows in sorted(shop.states.items()):
        values = {key: repr(row) for key, row in rows.items()}
        ended = [key for key, (_, row) in living.items() if values.get(key) != row]
        found += [(key, living[key][0], pos, living.pop(key)[1]) for key in ended]
        living |= {key: (pos, row) for key, row in values.items() if key not in living}
    return found + [(key, start, 0, row) for key, (start, row) in living.items()]
