"""Mistakes about tables that have rows in the lake, typed at 80 and 120 columns; what `next:` says is typed too, with Spark."""

import os
import shlex
import subprocess
import sys
import uuid
from pathlib import Path

import pytest

from cdc_ops.core.pipeline.connections import ConnectionUrl
from cdc_ops.dev.servers import MariaDBServer
from tests.mistakes import Desk, Mistake

FILE = """\
pipeline: shop
source: {{kind: mariadb, connection: shop_db}}
target: {{root: "${{DESK}}/lake", staging: "${{DESK}}/staging"}}
spark: {{driver_memory: 1g, conf: {{spark.master: "local[2]", spark.sql.shuffle.partitions: "2"}}}}
defaults: {{lookback: 0s}}
tables:
  {schema}.orders: {{cursor: [updated_at, id]}}
  {schema}.countries: {{cursor: []}}
"""
TABLES = (
    "CREATE TABLE orders (id BIGINT PRIMARY KEY, amount INT, updated_at DATETIME(6) NOT NULL DEFAULT NOW(6) ON UPDATE NOW(6),"
    " KEY (updated_at, id))",
    "INSERT INTO orders (id, amount) SELECT seq, seq FROM seq_1_to_10",
    "CREATE TABLE countries (code CHAR(2) PRIMARY KEY)",
    "INSERT INTO countries VALUES ('de')",
)
SINCE, UNTIL = "--since 2026-01-01T00:00:00Z", "--until 2036-01-01T00:00:00Z"


def spawned(desk: Desk, command: str) -> str:
    """Types a command that starts Spark, in a process of its own, and returns what it says."""
    call = [sys.executable, "-m", "cdc_ops.cli", *shlex.split(command)]
    done = subprocess.run(call, env=dict(os.environ), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_what_is_asked_of_tables_in_the_lake_and_cannot_be_meant(
    mariadb: MariaDBServer, tmp_path: Path, jar_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk, schema = Desk(tmp_path, monkeypatch), f"loaded_{uuid.uuid4().hex[:6]}"
    mariadb.create_database(schema)
    mariadb.execute(*TABLES, database=schema)
    desk.file.write_text(FILE.format(schema=schema))
    url = ConnectionUrl.from_parts("mysql", mariadb.host, mariadb.port, mariadb.user, mariadb.password, schema)
    desk.set("CDC_OPS_CONN_SHOP_DB", url.render())
    desk.set("CDC_OPS_JARS", str(jar_folder))
    orders, countries = f"{schema}.orders", f"{schema}.countries"

    early = Mistake(
        typed=f"resync --mode full --table {orders}",
        says=(f"{orders} cannot be read again: its first snapshot is not complete", "phase 'new'"),
        next=f"cdc-ops run --pipeline shop --table {orders}",
        follow=lambda desk: spawned(desk, desk.command_of_next()) and None,  # type: ignore[func-returns-value]
        then="status",
        end=(0, "orders"),
    )
    early.check(desk)
    spawned(desk, "run")
    done = 0
    for mistake in (
        Mistake(
            typed=f"backfill --table {countries} {SINCE} {UNTIL}", says=(countries,), next="every run compares the whole table", code=2
        ),
        Mistake(typed=f"resync --mode range --table {countries} {SINCE} {UNTIL}", says=(countries,), next="every run compares the whole"),
        Mistake(typed=f"resync --mode keys --table {orders} --key 1,2", says=(orders,), next="one value per key column"),
        Mistake(typed=f"resync --mode replay --table {orders}", says=(orders,), next="Set 'event_history: true'"),
        Mistake(typed=f"show {orders} --columns amout", says=("no column 'amout'", "'amount'?"), next="'cdc-ops show' without --columns"),
        Mistake(typed=f"show {orders} --where id", says=("'id' is no condition",), next="--where id=4711"),
        Mistake(typed=f"show {orders} --version 99", says=("does not have version 99",), next="'cdc-ops runs --table' shows those"),
    ):
        Mistake(**{name: getattr(mistake, name) for name in ("typed", "says", "next", "code")}, then="status").check(desk)
        done += 1
    assert done == 7
    assert orders.partition(".")[2] in desk.type(f"runs --table {orders}")[1], "this is what tells of versions"
    shown = spawned(desk, f"show {orders} --where id=7 --columns amount,id")
    assert f"{orders}: 1 row of Delta version" in shown
    assert "committed" in spawned(desk, f"resync --mode keys --table {orders} --key 1 --key 2")
