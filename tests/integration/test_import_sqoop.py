"""An import of Sqoop as a pipeline on a real MariaDB: its runs keep the table equal to the rows that Sqoop's condition keeps."""

import shlex
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from cdc_ops.cli import app
from cdc_ops.cli.session import LocalSpark
from cdc_ops.config.loading import load_pipeline
from cdc_ops.core.pipeline.connections import ConnectionUrl
from cdc_ops.dev.servers import DatabaseServer
from tests.world import ORDERS, World

COMMAND = """sqoop import --connect jdbc:mariadb://{host}:{port}/{database} --username {user} --password {password} --table orders
  --incremental lastmodified --check-column updated_at --last-value '2026-01-01 00:00:00' --merge-key id
  --columns id,amount --where 'id > 2 AND amount < 100' -m 2 --target-dir /raw/orders --as-parquetfile"""


def test_an_imported_pipeline_keeps_its_table_equal_to_the_source(
    mariadb: DatabaseServer, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(mariadb, tmp_path, spark)
    world.sql(ORDERS, "INSERT INTO orders (customer, amount) SELECT CONCAT('c', seq), seq FROM seq_1_to_120")
    url = ConnectionUrl.parse(world.url)
    parts = {
        "host": url.host,
        "port": url.default_port,
        "user": url.user,
        "password": shlex.quote(url.password),
        "database": world.database,
    }
    (tmp_path / "imports.sh").write_text(COMMAND.format(**parts).replace("\n", " \\\n"))
    folder = tmp_path / "pipelines"
    places = ("--root", world.pipeline.target.root, "--staging", world.pipeline.target.staging, "--name", "shop")
    written = CliRunner().invoke(
        app, ["import-sqoop", "--file", str(tmp_path / "imports.sh"), "--pipelines", str(folder), *places, "--connection", "shop_db"]
    )
    assert written.exit_code == 0, written.output
    monkeypatch.setenv("CDC_OPS_CONN_SHOP_DB", world.url)
    monkeypatch.setenv("CDC_OPS_LEDGER", world.ledger)
    monkeypatch.setenv("CDC_OPS_HOME", str(tmp_path / "home"))
    checked = CliRunner().invoke(app, ["check", "--pipelines", str(folder), "--json"])
    assert '"what": "source"' in checked.output
    assert "failed" not in checked.output, checked.output
    monkeypatch.setattr(LocalSpark, "session", lambda self, small=False: spark)

    def run() -> None:
        done = CliRunner().invoke(app, ["run", "--pipelines", str(folder), "--json"])
        assert done.exit_code == 0, done.output

    kept = "SELECT id, amount, updated_at FROM orders WHERE id > 2 AND amount < 100"
    run()
    assert load_pipeline(folder / "shop.yaml").tables[0].settings.load.parallelism == 2
    first = world.lake("orders", "id, amount, updated_at")
    assert len(first) == 97
    assert [row[:2] for row in first] == [tuple(row)[:2] for row in world.sql(f"{kept} ORDER BY id")]
    world.sql("UPDATE orders SET amount = 500 WHERE id = 5", "UPDATE orders SET amount = 7 WHERE id = 110")
    world.sql("INSERT INTO orders (id, customer, amount) VALUES (500, 'new', 9)")
    run()
    second = world.lake("orders", "id, amount, updated_at")
    assert [row[:2] for row in second] == [tuple(row)[:2] for row in world.sql(f"{kept} ORDER BY id")]
    assert {5, 110, 500} & {row[0] for row in second} == {110, 500}
