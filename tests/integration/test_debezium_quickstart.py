"""The page docs/debezium-quickstart.md, done: its connector's settings in the real engine, its pipeline file, a table that follows."""

import json
import re
from pathlib import Path

from pyspark.sql import SparkSession

from cdc_ops.config.loading import load_pipeline
from cdc_ops.core.formats.demanded_settings import archive_settings
from cdc_ops.dev.debezium import running_debezium
from cdc_ops.dev.servers import DatabaseServer
from cdc_ops.dev.sink_archive import SinkArchive
from cdc_ops.events.registry import configuration, format_spec
from tests.world import World

PAGE = (Path(__file__).resolve().parents[2] / "docs/debezium-quickstart.md").read_text("utf-8")
CONNECTOR, OWN, SINK = (json.loads(block) for block in re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL))
LOCAL, ON_S3 = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
FACTS = format_spec("debezium-mysql")


def of_engine(config: dict[str, str]) -> dict[str, str]:
    """The connector's settings as the engine takes them, which has no Kafka: converters are named without 'value.'."""
    own = {name: value for name, value in config.items() if not name.startswith(("key.converter", "value.converter"))}
    converter = {name.removeprefix("value."): value for name, value in config.items() if name.startswith("value.converter.")}
    return own | converter


def test_the_blocks_of_the_page_are_those_that_formats_show_prints(tmp_path: Path) -> None:
    assert CONNECTOR["config"] == configuration(FACTS).tool
    assert SINK["config"] == configuration(FACTS).sink
    for number, text in enumerate((LOCAL, ON_S3)):
        file = tmp_path / f"{number}.yaml"
        file.write_text(text, "utf-8")
        assert dict(load_pipeline(file, {}).archive.events.settings) == {**archive_settings(FACTS), "snapshot.mode": OWN["snapshot.mode"]}


def test_the_blocks_of_the_page_bring_a_table_into_the_lake_and_follow_it(
    mysql: DatabaseServer, spark: SparkSession, tmp_path: Path
) -> None:
    world = World(mysql, tmp_path, spark)
    world.sql(
        "CREATE TABLE orders (id BIGINT PRIMARY KEY, amount DECIMAL(10,2) DEFAULT 1, share FLOAT, born DATE, at DATETIME(6))",
        "INSERT INTO orders VALUES (1, 12.50, 16777217, '0001-01-01', '2024-02-29 12:00:00.000001'), (2, NULL, 2, NULL, NULL)",
    )
    text = LOCAL.replace("shop.orders", f"{world.database}.orders").replace("/data/archive", str(tmp_path / "archive"))
    file = tmp_path / "shop.yaml"
    file.write_text(text.replace("/data/lake", world.pipeline.target.root).replace("/data/staging", world.pipeline.target.staging), "utf-8")
    own = {"snapshot.mode": OWN["snapshot.mode"]}
    loaded = load_pipeline(file, {})
    world.pipeline = loaded
    sink = SinkArchive(tmp_path / "archive", tmp_path / "sink")
    settings = of_engine(CONNECTOR["config"]) | own
    with running_debezium(mysql, [f"{world.database}.orders"], sink, tmp_path / "engine", settings=settings) as engine:
        engine.catch_up()
        world.sql("UPDATE orders SET share = 3 WHERE id = 2")  # the first event: a table without one cannot begin
        engine.catch_up()
        for statement in (
            "INSERT INTO orders VALUES (3, NULL, 3, '0001-01-01', '0099-12-31 00:00:00')",
            "UPDATE orders SET amount = NULL, share = 16777217 WHERE id = 1",
            "DELETE FROM orders WHERE id = 2",
        ):
            report = world.run()
            assert not report.failures, [str(failure.error) for failure in report.failures]
            world.sql(statement)
            engine.catch_up()
        report = world.run()
    assert not report.failures, [str(failure.error) for failure in report.failures]
    lake = spark.read.format("delta").load(world.path("orders"))
    texts = lake.selectExpr("id", "string(amount)", "bigint(share)", "string(born)", "string(at)").orderBy("id").collect()
    assert [tuple(row) for row in texts] == [
        (1, None, 16777216, "0001-01-01", "2024-02-29 12:00:00.000001"),
        (3, None, 3, "0001-01-01", "0099-12-31 00:00:00"),
    ]
