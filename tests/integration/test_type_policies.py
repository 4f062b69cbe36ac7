"""Values that no stored type holds, end to end: NULL and counted, the source's own text, or a stop that names the row."""

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from cdc_ops.core.operation.job import JobSpec, StepResult
from cdc_ops.core.operation.run_request import ResyncMode, RunKind
from cdc_ops.core.schema.value_policies import OnOverflow, OnUnstorable
from cdc_ops.dev.servers import MariaDBServer, PostgresServer
from cdc_ops.errors import JobLostError, SourceTableError, UnstorableValueError
from cdc_ops.lake.staging.manifests import read_manifest
from cdc_ops.steps.runs.run import RunReport
from tests.world import World

ALLOWED = "SET sql_mode = 'ALLOW_INVALID_DATES', time_zone = '+00:00'"
MYSQL = (
    "CREATE TABLE people (id INT PRIMARY KEY, born DATE NOT NULL, seen DATETIME(3), since TIMESTAMP NULL, n INT,"
    " updated_at TIMESTAMP(6) NOT NULL DEFAULT NOW(6) ON UPDATE NOW(6), KEY (updated_at, id))",
    ALLOWED,
    "INSERT INTO people (id, born, seen, since) VALUES (1, '0000-00-00', NULL, NULL),"
    " (2, '2024-00-15', '2024-02-31 01:02:03', '0000-00-00'),"
    " (3, '2024-02-29', '2024-02-29 01:02:03', '2024-02-29 01:02:03')",
)
POSTGRES = (
    "CREATE TABLE people (id int PRIMARY KEY, born date, seen timestamp, since timestamptz, n numeric(10,2),"
    " updated_at timestamptz NOT NULL DEFAULT clock_timestamp())",
    "CREATE INDEX ON people (updated_at, id)",
    "INSERT INTO people VALUES (1, 'infinity', '-infinity', NULL, 'NaN'), (2, '-infinity', '294276-12-31', 'infinity', 1.5),"
    " (3, '2024-02-29', NULL, '2024-02-29 01:02:03+00', 2)",
)


@pytest.fixture
def maria(mariadb: MariaDBServer, spark: SparkSession, tmp_path: Path) -> World:
    return World(mariadb, tmp_path, spark)


@pytest.fixture
def postgresql(postgres: PostgresServer, spark: SparkSession, tmp_path: Path) -> World:
    return World(postgres, tmp_path, spark)


def ran(report: RunReport) -> RunReport:
    assert not report.failures, [str(failure.error) for failure in report.failures]
    return report


def nulled(report: RunReport) -> dict[str, int]:
    return {one.column: one.values for one in report.runs[0].result.counts.nulled.columns}


def failure(report: RunReport) -> Any:
    [found] = report.failures
    return found.error


def test_zero_dates_become_null_and_each_one_is_counted_in_a_snapshot_and_in_an_increment(maria: World) -> None:
    maria.sql(*MYSQL)
    first = ran(maria.run())
    assert nulled(first) == {"born": 2, "seen": 1, "since": 1}
    assert "2 in column 'born' (date)" in first.runs[0].messages.message
    assert any("2 in column 'born'" in text for text in first.warnings)
    assert maria.lake("people", "id, CAST(born AS STRING)") == [(1, None), (2, None), (3, "2024-02-29")]
    maria.sql(ALLOWED, "UPDATE people SET seen = '0000-00-00' WHERE id = 3")
    second = ran(maria.run())
    assert nulled(second) == {"seen": 1}
    assert "1 in column 'seen' (datetime(3))" in second.runs[0].messages.message
    maria.sql("UPDATE people SET born = '2024-01-01', n = 4 WHERE id = 3")
    third = ran(maria.run())
    assert nulled(third) == {"seen": 1}
    maria.sql("UPDATE people SET seen = NULL WHERE id = 3")
    assert nulled(ran(maria.run())) == {}


def test_zero_dates_are_kept_as_the_servers_own_text(maria: World) -> None:
    maria.sql(*MYSQL)
    maria.configure(zero_dates=OnUnstorable.STRING)
    assert nulled(ran(maria.run())) == {}
    columns = "id, CAST(born AS {0}), CAST(seen AS {0}), CAST(since AS {0})"
    assert maria.lake("people", columns.format("STRING")) == maria.source("people", columns.format("CHAR"))
    maria.sql(ALLOWED, "UPDATE people SET born = '2024-11-31' WHERE id = 3")
    ran(maria.run())
    assert maria.lake("people", "born") == [("0000-00-00",), ("2024-00-15",), ("2024-11-31",)]


def test_a_zero_date_stops_the_table_with_its_key(maria: World) -> None:
    maria.sql(*MYSQL)
    maria.configure(zero_dates=OnUnstorable.FAIL)
    error = failure(maria.run())
    assert isinstance(error, UnstorableValueError)
    assert "id = 1" in str(error) or "id = 2" in str(error)
    assert maria.state("people").progress.watermark is None
    maria.sql("UPDATE people SET born = '2024-01-01', seen = NULL, since = NULL")
    ran(maria.run())
    maria.sql(ALLOWED, "UPDATE people SET since = '0000-00-00' WHERE id = 2")
    error = failure(maria.run())
    assert isinstance(error, UnstorableValueError)
    assert "'since'" in str(error)
    assert "id = 2" in str(error)
    assert maria.lake("people", "id, since") == [(1, None), (2, None), (3, None)]


def test_an_application_that_dies_after_its_commit_leaves_its_counts_in_the_staging_area(maria: World) -> None:
    maria.sql(*MYSQL)
    ran(maria.run())
    maria.sql(ALLOWED, "UPDATE people SET seen = '0000-00-00' WHERE id = 3")

    def dies(job: JobSpec) -> StepResult:
        maria.execute(job)
        manifest = read_manifest(job.operations[0].target.staging)
        assert manifest is not None
        assert [one.values for one in manifest.nulled.columns] == [1]
        raise JobLostError("killed")

    assert nulled(maria.run(execute_with=dies)) == {"seen": 1}


def test_a_snapshot_whose_counts_are_lost_says_so(maria: World) -> None:
    maria.sql(*MYSQL)

    def dies(job: JobSpec) -> StepResult:
        maria.execute(job)
        raise JobLostError("killed")

    report = maria.run(execute_with=dies)
    assert "not counted" in report.runs[0].messages.message


def test_what_postgres_has_and_no_stored_type_holds_is_counted(postgresql: World) -> None:
    postgresql.sql(*POSTGRES)
    assert nulled(ran(postgresql.run())) == {"born": 2, "seen": 2, "since": 1, "n": 1}
    postgresql.sql("UPDATE people SET n = 'NaN', updated_at = clock_timestamp() WHERE id = 3")
    assert nulled(ran(postgresql.run())) == {"n": 1}
    assert postgresql.lake("people", "id, CAST(n AS STRING)") == [(1, None), (2, "1.50"), (3, None)]


def test_a_frozen_operation_that_failed_for_its_policy_goes_through_once_the_policy_is_null(postgresql: World) -> None:
    postgresql.sql(*POSTGRES)
    postgresql.configure(zero_dates=OnUnstorable.FAIL, nan_values=OnUnstorable.FAIL)
    assert isinstance(failure(postgresql.run()), UnstorableValueError)
    postgresql.configure(zero_dates=OnUnstorable.NULL)
    assert "'n'" in failure(postgresql.run()).what
    postgresql.configure(nan_values=OnUnstorable.NULL)
    assert nulled(ran(postgresql.run())) == {"born": 2, "seen": 2, "since": 1, "n": 1}


def test_what_postgres_has_is_kept_as_text(postgresql: World) -> None:
    postgresql.sql(*POSTGRES)
    postgresql.configure(zero_dates=OnUnstorable.STRING, nan_values=OnUnstorable.STRING)
    assert nulled(ran(postgresql.run())) == {}
    columns = "id, CAST(born AS {0}), CAST(seen AS {0}), CAST(n AS {0})"
    assert postgresql.lake("people", columns.format("STRING")) == postgresql.source("people", columns.format("text"))


def test_a_decimal_that_is_too_long_is_refused_by_name_where_the_policy_says_so(maria: World) -> None:
    maria.configure(decimal_overflow=OnOverflow.FAIL)
    maria.sql("CREATE TABLE t (id INT PRIMARY KEY, rate DECIMAL(65,30), updated_at DATETIME(6) NOT NULL DEFAULT NOW(6))")
    error = failure(maria.run())
    assert isinstance(error, SourceTableError)
    assert "'rate'" in str(error)
    assert "decimal_overflow: string" in error.next


def test_a_key_that_no_partition_of_delta_holds_stops_the_table_with_its_row(postgresql: World) -> None:
    postgresql.configure(partition_by=("country",))
    postgresql.sql(
        "CREATE TABLE k (country text, id int, v int, updated_at timestamptz NOT NULL DEFAULT now(), PRIMARY KEY (country, id))",
        "INSERT INTO k (country, id, v) VALUES ('DE', 1, 1), ('', 2, 2), ('a b', 4, 4)",
    )
    error = failure(postgresql.run())
    assert isinstance(error, UnstorableValueError)
    assert "country = , id = 2" in str(error)
    assert postgresql.state("k").progress.watermark is None
    postgresql.sql("UPDATE k SET country = 'FR' WHERE id = 2")
    ran(postgresql.run())
    postgresql.sql("INSERT INTO k (country, id, v) VALUES ('__HIVE_DEFAULT_PARTITION__', 3, 3)")
    error = failure(postgresql.run())
    assert isinstance(error, UnstorableValueError)
    assert "'__HIVE_DEFAULT_PARTITION__'" in error.what
    assert postgresql.lake("k", "country, id, v") == [("DE", 1, 1), ("FR", 2, 2), ("a b", 4, 4)]


KEYED = (
    "CREATE TABLE jobs (emp int, valid_to {kind}, note text, updated_at timestamptz NOT NULL DEFAULT clock_timestamp(),"
    " PRIMARY KEY (emp, valid_to))",
    "INSERT INTO jobs (emp, valid_to, note) VALUES (1, 'infinity', 'a'), (1, '-infinity', 'b'), (1, '2024-02-29', 'c')",
)


def test_a_key_never_becomes_null_and_the_row_is_named_before_the_commit(postgresql: World) -> None:
    postgresql.configure(cursor=("updated_at",))
    postgresql.sql(*(text.format(kind="date") for text in KEYED))
    report = postgresql.run()
    error = failure(report)
    assert isinstance(error, UnstorableValueError)
    assert "Key column 'valid_to'" in error.what
    assert "emp = 1" in error.what
    assert "'string'" in error.next
    assert any("'valid_to'" in text and "zero_dates: string" in text for text in report.warnings)
    assert postgresql.state("jobs").progress.watermark is None
    postgresql.configure(zero_dates=OnUnstorable.STRING)
    ran(postgresql.run())
    assert postgresql.lake("jobs", "valid_to, note") == [("-infinity", "b"), ("2024-02-29", "c"), ("infinity", "a")]
    postgresql.sql("UPDATE jobs SET note = note || '2', updated_at = clock_timestamp()")
    ran(postgresql.run())
    assert postgresql.lake("jobs", "valid_to, note") == [("-infinity", "b2"), ("2024-02-29", "c2"), ("infinity", "a2")]


def test_a_zero_date_in_a_key_stops_a_snapshot_and_an_increment(maria: World) -> None:
    maria.configure(cursor=("updated_at",))
    maria.sql(
        "CREATE TABLE jobs (emp INT, valid_to DATE, updated_at TIMESTAMP(6) NOT NULL DEFAULT NOW(6), PRIMARY KEY (emp, valid_to))",
        ALLOWED,
        "INSERT INTO jobs (emp, valid_to) VALUES (1, '2024-02-29')",
    )
    ran(maria.run())
    maria.sql(ALLOWED, "INSERT INTO jobs (emp, valid_to) VALUES (1, '0000-00-00'), (1, '2024-00-15')")
    error = failure(maria.run())
    assert isinstance(error, UnstorableValueError)
    assert "Key column 'valid_to'" in error.what
    error = failure(maria.run(kind=RunKind.RESYNC, mode=ResyncMode.FULL))
    assert isinstance(error, UnstorableValueError)
    assert maria.lake("jobs", "emp, CAST(valid_to AS STRING)") == [(1, "2024-02-29")]
