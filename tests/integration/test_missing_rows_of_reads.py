"""Reads that bring fewer rows than there are, end to end: nothing of them is committed, by any reader and method."""

import re
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import cdc_ops.steps.merge
from cdc_ops.core.operation.run_request import ResyncMode, RunKind
from cdc_ops.core.pipeline.pipeline import Reader, SparkConfig
from cdc_ops.dev.servers import MariaDBServer, PostgresServer
from cdc_ops.errors import CountMismatchError, DuplicateKeyError, NullKeyError, SchemaChangedError
from cdc_ops.lake.file_io import open_filesystem
from cdc_ops.sources.mysql.source import MySQLSource
from cdc_ops.steps.query import written_keys
from cdc_ops.steps.runs.run import RunReport
from tests.integration.test_native_files import BY_SPARK, files_of, log_of
from tests.integration.test_native_reader import done, native_world
from tests.world import ORDERS

FILL = "INSERT INTO orders (customer, amount) SELECT CONCAT('c', seq), seq FROM seq_1_to_500"


@pytest.fixture
def hidden(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Gives what makes each later read bring no row, while the source counts them as ever: as a fault of a server would."""
    real = MySQLSource.jdbc_read

    def read(self: Any, schema: Any, slices: tuple[str, ...]) -> Any:
        return real(self, schema, tuple(f"({one or '1 = 1'}) AND 1 = 0" for one in slices or ("",)))

    return lambda: monkeypatch.setattr(MySQLSource, "jdbc_read", read)


def refused(report: RunReport) -> CountMismatchError:
    [failure] = report.failures
    assert isinstance(failure.error, CountMismatchError), failure.error
    return failure.error


@pytest.mark.parametrize("reader", [Reader.NATIVE, Reader.JDBC])
def test_rows_that_no_read_brings_stop_every_method_and_the_next_run_reads_them(
    mariadb: MariaDBServer, spark: SparkSession, tmp_path: Path, reader: Reader, hidden: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    world = native_world(mariadb, tmp_path, spark, reader)
    world.sql(ORDERS, FILL)
    done(world.run())
    before, version = world.lake("orders"), world.state("orders").delta_version
    world.sql("UPDATE orders SET amount = amount + 1 WHERE id <= 100", "DELETE FROM orders WHERE id > 490")
    orders = (str(world.name("orders")),)
    day = {"since": datetime(2000, 1, 1, tzinfo=UTC), "until": datetime(2100, 1, 1, tzinfo=UTC)}
    hidden()
    assert "has read 0 rows, and the source has at least" in refused(world.run()).what  # it stays frozen, and a later run reads it
    assert world.state("orders").delta_version == version
    monkeypatch.undo()
    done(world.run())
    version = world.state("orders").delta_version
    for request in (
        {"mode": ResyncMode.FULL},
        {"mode": ResyncMode.KEYS, "keys": (("1",), ("2",)), "tables": orders},
        {"mode": ResyncMode.RANGE, **day},
    ):
        hidden()
        refused(world.run(kind=RunKind.RESYNC, **request))
        assert world.state("orders").delta_version == version
        monkeypatch.undo()
        done(world.run(kind=RunKind.RESYNC, **request))
        version = world.state("orders").delta_version
    assert world.lake("orders")[100:490] == before[100:490]
    assert world.lake("orders") == world.source("orders")


def test_a_first_load_by_tasks_that_a_limit_of_the_server_cuts_leaves_no_file(
    mariadb: MariaDBServer, spark: SparkSession, tmp_path: Path, hidden: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    world = native_world(mariadb, tmp_path, spark)
    world.sql(ORDERS, FILL)
    hidden()
    refused(world.run())
    assert files_of(world, "orders") == {}
    monkeypatch.undo()
    done(world.run())
    assert world.lake("orders") == world.source("orders")


@pytest.mark.parametrize(
    ("partition_by", "server"),
    [pytest.param((), "", id="plain"), pytest.param(("customer",), "", id="partitioned"), pytest.param((), "sc://there", id="server")],
)
def test_a_first_load_that_spark_writes_is_counted_and_its_keys_are_looked_at_before_the_commit(
    mariadb: MariaDBServer,
    spark: SparkSession,
    tmp_path: Path,
    hidden: Callable[[], None],
    monkeypatch: pytest.MonkeyPatch,
    partition_by: tuple[str, ...],
    server: str,
) -> None:
    world = native_world(mariadb, tmp_path, spark, Reader.JDBC)
    world.pipeline = replace(world.pipeline, spark=SparkConfig(connect=server))  # for the plan: the jobs run here
    world.sql(ORDERS, FILL.replace("CONCAT('c', seq)", "CONCAT('c ', seq % 3)"))
    world.configure(partition_by=partition_by, parallelism=2)
    hidden()
    assert "has read 0 rows, and the source has at least" in refused(world.run()).what
    assert (world.data_commits("orders"), writers_of(world, "orders")) == ([], [])
    for key, error, what in (
        ("IF({0} % 100 = 0, NULL, {0})", NullKeyError, "rows of .* have NULL in (the )?key columns? '?id"),
        ("{0} - {0} % 2", DuplicateKeyError, "Several rows of .* have the same key [(]id[)]: "),
    ):
        monkeypatch.undo()
        stored_key(monkeypatch, key)
        monkeypatch.setattr(written_keys, "MOST_BYTES", 100 if partition_by else 1 << 29)  # more than that is Spark's to search
        [failure] = world.run().failures
        assert isinstance(failure.error, error), failure.error
        assert re.search(what, str(failure.error))
        assert (world.data_commits("orders"), writers_of(world, "orders")) == ([], [])
    monkeypatch.undo()
    [run] = done(world.run()).runs
    assert (run.result.counts.read, run.result.counts.inserted) == (500, 500)
    assert world.data_commits("orders") == [1]
    assert world.lake("orders") == world.source("orders")
    assert writers_of(world, "orders") == [BY_SPARK] * sum("add" in action for action in log_of(world, "orders"))


def stored_key(monkeypatch: pytest.MonkeyPatch, key: str) -> None:
    """Makes each later read store another value as the key `id` ({0}), as a policy or a retyped key would."""
    real = MySQLSource.jdbc_read

    def read(self: Any, schema: Any, slices: tuple[str, ...]) -> Any:
        found = real(self, schema, slices)
        place = schema.names.index("id")
        return replace(found, decoders=(*found.decoders[:place], key.format(found.decoders[place]), *found.decoders[place + 1 :]))

    monkeypatch.setattr(MySQLSource, "jdbc_read", read)


def writers_of(world: Any, table: str) -> list[str]:
    """Returns who wrote the data files of a table, wherever they are in its folder; Spark writes one without rows where there are none."""
    filesystem, inner = open_filesystem(world.path(table))
    names = [name for name in filesystem.find(inner) if name.endswith(".parquet") and "_delta_log" not in name]
    footers = [pq.read_metadata(name, filesystem=filesystem) for name in names]
    return [str(footer.created_by).partition(" ")[0] for footer in footers if footer.num_rows]


def test_a_type_that_changes_right_before_a_first_load_by_tasks_commits_nothing(
    postgres: PostgresServer, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    altered_by(postgres, spark, tmp_path, monkeypatch, after="check_columns_unchanged")


def test_a_type_that_changes_while_a_first_load_is_written_commits_nothing(
    postgres: PostgresServer, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    altered_by(postgres, spark, tmp_path, monkeypatch, after="_check_written")


def altered_by(postgres: PostgresServer, spark: SparkSession, folder: Path, monkeypatch: pytest.MonkeyPatch, after: str) -> None:
    """Changes a column's type after the first check of the columns, or when tasks have written all rows; and expects no commit."""
    world = native_world(postgres, folder, spark)
    world.sql("CREATE TABLE t (id int PRIMARY KEY, x float8, updated_at timestamptz NOT NULL DEFAULT now())")
    world.sql("INSERT INTO t (id, x) SELECT n, n FROM generate_series(1, 50) AS n")
    real = getattr(cdc_ops.steps.merge, after)

    def alter() -> None:
        if world.sql("SELECT 1 FROM pg_attribute WHERE attrelid = 't'::regclass AND attname = 'x' AND atttypid = 'float8'::regtype"):
            world.sql("ALTER TABLE t ALTER x TYPE bigint")

    def altered(*arguments: Any) -> None:
        if after == "_check_written":
            alter()
        real(*arguments)
        alter()

    monkeypatch.setattr(cdc_ops.steps.merge, after, altered)
    [failure] = world.run().failures
    assert isinstance(failure.error, SchemaChangedError), failure.error
    assert "bigint" in str(failure.error)
    assert files_of(world, "t") == {}
    monkeypatch.undo()
    world.sql("ALTER TABLE t ALTER x TYPE float8")
    done(world.run())
    assert world.lake("t", "id, x") == world.source("t", "id, x")


def test_a_key_that_comes_twice_in_rows_that_tasks_write_is_named_and_leaves_no_file(
    mariadb: MariaDBServer, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = native_world(mariadb, tmp_path, spark)
    world.sql(ORDERS, FILL)
    real = MySQLSource.jdbc_read

    def twice(self: Any, schema: Any, slices: tuple[str, ...]) -> Any:
        read = real(self, schema, slices)
        return replace(read, native=replace(read.native, statements=tuple(f"{one} UNION ALL {one}" for one in read.native.statements)))

    monkeypatch.setattr(MySQLSource, "jdbc_read", twice)
    [failure] = world.run().failures
    assert isinstance(failure.error, DuplicateKeyError), failure.error
    assert files_of(world, "orders") == {}
    monkeypatch.undo()
    done(world.run())
    assert world.lake("orders") == world.source("orders")
