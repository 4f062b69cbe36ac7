"""`cdc-ops run --limit`: the first rows of tables, read by a bounded statement; ledger, lake, staging and source stay as they are."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from cdc_ops.cli import trial
from cdc_ops.cli.commands import pipelines
from cdc_ops.core.pipeline.pipeline import TableRule
from cdc_ops.core.pipeline.table_settings import Method, TableSettings
from cdc_ops.dev.servers import DatabaseServer, PostgresServer
from cdc_ops.lake.log.delta_log import DeltaLog
from tests.world import World

ROWS = 3000


class Session:
    """Stands in for `LocalSpark` with the session of the tests."""

    spark: SparkSession

    def __init__(self, *_: Any) -> None:
        pass

    def __enter__(self) -> "Session":
        return self

    def __exit__(self, *_: Any) -> None:
        pass

    def session(self) -> SparkSession:
        return self.spark


@pytest.fixture(params=["mariadb", "postgres"])
def world(request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    server: DatabaseServer = request.getfixturevalue(request.param)
    world = World(server, tmp_path, spark)
    numbers = f"generate_series(1, {ROWS}) AS s(seq)" if isinstance(server, PostgresServer) else f"seq_1_to_{ROWS}"
    world.sql(
        "CREATE TABLE orders (id BIGINT PRIMARY KEY, note VARCHAR(40), updated_at TIMESTAMP(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6))",
        f"INSERT INTO orders (id, note) SELECT {ROWS + 1} - seq, CONCAT('n', {ROWS + 1} - seq) FROM {numbers}",
        "CREATE TABLE loose (code VARCHAR(10), n INT)",
        "INSERT INTO loose VALUES ('a', 1), ('a', 2), (NULL, 3)",
        "CREATE TABLE fed (id BIGINT PRIMARY KEY)",
    )
    schema = world.schema
    world.configure(cursor=("updated_at", "id"))
    rules = (
        TableRule(pattern=f"{schema}.orders", settings=world.settings),
        TableRule(pattern=f"{schema}.loose", settings=TableSettings.of(keys=("code",))),
        TableRule(pattern=f"{schema}.fed", settings=TableSettings.of(method=Method.LOG)),
        TableRule(pattern=f"{schema}.gone", settings=TableSettings()),
    )
    world.pipeline = replace(world.pipeline, tables=rules)
    monkeypatch.setattr(Session, "spark", spark, raising=False)
    monkeypatch.setattr(trial, "chosen_pipelines", lambda folder, names: (world.pipeline,))
    monkeypatch.setattr(trial, "connect", world._connect)
    monkeypatch.setattr(trial, "LocalSpark", Session)
    return world


def test_first_rows_are_shown_as_they_would_be_stored_and_nothing_else_is_touched(
    world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, schema = tmp_path / "look", world.schema
    seen = trial.try_pipelines(None, [], (), 7, str(folder), quiet=True)
    tables = {one.table: one for one in seen.tables}
    assert set(tables) == {f"{schema}.orders", f"{schema}.loose"}
    orders = tables[f"{schema}.orders"]
    assert (orders.rows, orders.keys, orders.cursor) == (7, ("id",), ("updated_at", "id"))
    assert [column.values[:3] for column in orders.columns[:2]] == [("1", "2", "3"), ("n1", "n2", "n3")]
    assert [column.stored_as for column in orders.columns][:2] == ["bigint", "string"]
    assert [row["id"] for row in world.spark.read.format("delta").load(orders.path).select("id").orderBy("id").collect()] == list(
        range(1, 8)
    )
    remarks = " ".join(tables[f"{schema}.loose"].remarks)
    assert "1 of these rows have NULL in a key column (code)" in remarks
    assert "keys that several of these rows have (code): a" in remarks
    assert {name: type(error).__name__ for name, error in seen.refused.items()} == {
        f"{schema}.fed": "RequestError",
        f"{schema}.gone": "ConfigError",
    }
    trial.print_trial(seen)
    said = capsys.readouterr()
    assert f"rm -r {folder}" in said.out
    assert "refused" in said.err

    assert not Path(world.ledger.removeprefix("sqlite:///")).exists()
    assert DeltaLog(world.path("orders")).newest() is None
    assert sorted(path.name for path in tmp_path.iterdir()) == ["look"]


def test_the_server_ends_the_read_at_the_limit_along_the_primary_key(world: World) -> None:
    source = world._connect(world.pipeline.source)
    try:
        schema = source.schema(world.name("orders"))
        [relation] = source.first_rows(schema, 7).relations
    finally:
        source.close()
    plan = world.sql(f"EXPLAIN SELECT * FROM {relation}")
    text = " ".join(str(value) for row in plan for value in row)
    if isinstance(world.server, PostgresServer):
        assert "Limit" in text
        assert "Index Scan" in text
        assert "Sort" not in text
    else:
        [inner] = [row for row in plan if "orders" in row]
        assert "PRIMARY" in inner
        assert "filesort" not in text
        counted = world.sql(f"SELECT COUNT(*) FROM {relation}", "SHOW SESSION STATUS LIKE 'Handler_read%'")
        steps = sum(int(value) for _, value in counted)
        assert 7 <= steps < 100  # of 3,000 rows


def test_a_folder_that_is_there_is_refused_and_into_needs_a_limit(tmp_path: Path, world: World, capsys: pytest.CaptureFixture[str]) -> None:
    import typer

    for options in ({"limit": 5, "into": str(tmp_path)}, {"into": str(tmp_path / "new")}):
        with pytest.raises(typer.Exit) as ended:
            pipelines.run(given=None, pipeline=None, verbose=False, **options)  # type: ignore[arg-type]
        assert ended.value.exit_code == 2
    assert capsys.readouterr().err.count("RequestError") == 2
