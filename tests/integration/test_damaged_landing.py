"""Somebody removes files of a window that has landed and is not merged: the next try reads the same window again, and says so."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import cdc_ops
from cdc_ops.core.operation.job import JobSpec, Step, StepResult
from cdc_ops.core.operation.operation import Operation
from cdc_ops.core.operation.results import Manifest
from cdc_ops.dev.servers import MariaDBServer
from cdc_ops.errors import JobLostError
from cdc_ops.jobs import execute
from cdc_ops.lake.staging.manifests import LandedFile, feed_name, landed_files, read_manifest
from cdc_ops.state.sql import open_store
from tests.integration.test_log_method import ITEMS, Sink, change, log_world
from tests.stores import at
from tests.world import ORDERS, World

Harm = Callable[[Operation, Manifest], None]


def one_file_gone(operation: Operation, manifest: Manifest) -> None:
    at(parquet(operation, manifest)[0].path).unlink()


def one_file_cut_off(operation: Operation, manifest: Manifest) -> None:
    path = at(parquet(operation, manifest)[-1].path)
    path.write_bytes(path.read_bytes()[:-5])


def manifest_half_written(operation: Operation, manifest: Manifest) -> None:
    path = at(f"{operation.target.staging}/manifest.json")
    path.write_bytes(path.read_bytes()[:-20])


def parquet(operation: Operation, manifest: Manifest) -> tuple[LandedFile, ...]:
    files = landed_files(operation.target.staging, manifest.attempt)
    assert len(files) > 1, "else all of the window is gone"
    return files


def open_operation(world: World) -> Operation:
    with open_store(world.ledger) as store:
        [operation] = store.open_operations("shop", world.name("orders"))
    return operation


def step(world: World, job: JobSpec, which: Step) -> StepResult:
    return execute(world.spark, replace(job, step=which), world.url)


@pytest.fixture
def world(mariadb: MariaDBServer, spark: SparkSession, tmp_path: Path) -> World:
    world = World(mariadb, tmp_path, spark)
    world.sql(ORDERS, "INSERT INTO orders (customer, amount) SELECT CONCAT('c', seq), seq / 7 FROM seq_1_to_400")
    assert not world.run().failures
    world.sql("UPDATE orders SET amount = amount + 1 WHERE id > 100", "INSERT INTO orders (customer, amount) VALUES ('new', 1)")
    return world


@pytest.mark.local_store
@pytest.mark.parametrize("harm", [one_file_gone, manifest_half_written])
def test_a_window_that_was_damaged_after_a_kill_is_read_again_by_the_next_run(
    world: World, harm: Harm, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cdc_ops.steps.planning.request.COUNT_LIMIT", 50)  # several slices, so several files

    def killed(job: JobSpec) -> StepResult:
        step(world, job, Step.EXTRACT)
        raise JobLostError("killed after extract")

    assert world.run(execute_with=killed).retryable
    operation = open_operation(world)
    first = read_manifest(operation.target.staging)
    assert first is not None
    harm(operation, first)
    world.sql("INSERT INTO orders (customer, amount) VALUES ('after the window', 2)")
    report = world.run()
    assert not report.failures, report.failures[0].error
    assert any("the landed rows were damaged" in text and "same window was read again" in text for text in report.warnings), report.warnings
    [run] = report.runs
    assert "the same window was read again" in run.messages.message
    assert run.result.window == operation.window
    again = read_manifest(operation.target.staging)
    assert again is not None
    assert again.attempt != first.attempt
    assert (again.landed.rows, bool(again.reread)) == (first.landed.rows, True)
    assert world.lake("orders") == [row for row in world.source("orders") if row[1] != "after the window"]
    assert not world.run().failures
    assert world.lake("orders") == world.source("orders")
    assert world.data_commits("orders") == [1, 2, 3]


@pytest.mark.local_store
def test_a_window_that_is_damaged_before_its_merge_is_read_again_by_the_merge(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("cdc_ops.steps.planning.request.COUNT_LIMIT", 50)
    attempts: list[str] = []

    def apart(job: JobSpec) -> StepResult:
        [operation] = job.operations
        step(world, job, Step.EXTRACT)
        manifest: Any = read_manifest(operation.target.staging)
        attempts.append(manifest.attempt)
        one_file_cut_off(operation, manifest)
        result = step(world, job, Step.MERGE)
        attempts.append(read_manifest(operation.target.staging).attempt)  # type: ignore[union-attr]
        return result

    report = world.run(execute_with=apart)
    assert not report.failures, report.failures[0].error
    assert len(set(attempts)) == 2
    assert [line for line in caplog.messages if "are damaged" in line and "cdc-ops reads the same window again" in line]
    [run] = report.runs
    assert run.result.counts.repairs.reread
    assert world.lake("orders") == world.source("orders")
    assert world.data_commits("orders") == [1, 2]


@pytest.mark.long
@pytest.mark.local_store
def test_events_whose_landed_feed_is_damaged_are_read_again_from_the_same_files(
    mariadb: MariaDBServer, spark: SparkSession, tmp_path: Path
) -> None:
    world = log_world(mariadb, tmp_path, spark)
    world.configure(event_history=True)
    world.sql(ITEMS)
    sink = Sink(tmp_path / "archive", world.database, "items")
    rows = [{"id": number, "name": "n", "price": "1.00"} for number in range(1, 4)]
    sink.write(*(change("c", 10 * number, after=row, database=world.database) for number, row in enumerate(rows, 1)))
    specs: list[Operation] = []

    def apart(job: JobSpec) -> StepResult:
        [operation] = job.operations
        specs.append(operation)
        step(world, job, Step.EXTRACT)
        manifest: Any = read_manifest(operation.target.staging)
        for file in landed_files(operation.target.staging, feed_name(manifest.attempt)):
            at(file.path).unlink()
        sink.write(change("d", 90, before=rows[0], database=world.database))  # a file that the operation has not frozen
        return step(world, job, Step.MERGE)

    report = world.run(execute_with=apart)
    assert not report.failures, report.failures[0].error
    assert any("the same window was read again" in text for text in report.warnings)
    assert len(specs[0].read.batch.files) == 1  # type: ignore[union-attr]
    assert len(world.lake("items")) == 3
    later = datetime(2030, 1, 1, tzinfo=UTC)
    assert cdc_ops.as_of(spark, world.path("items"), later).count() == 3
    assert not world.run().failures
    assert (len(world.lake("items")), cdc_ops.as_of(spark, world.path("items"), later).count()) == (2, 2)
