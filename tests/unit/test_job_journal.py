"""The files of a run's Spark applications: what a commit step learns from several tries."""

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from cdc_ops.airflow.job_files import JobFiles, open_journal, summary, written
from cdc_ops.core import json_codec
from cdc_ops.core.operation.job import JobSpec, Step, StepResult, TableResult
from cdc_ops.core.operation.operation import Operation
from cdc_ops.core.operation.results import Counts, OperationResult, Outcome
from cdc_ops.core.pipeline.pipeline import Pipeline, SourceConfig, SourceKind, TargetConfig
from cdc_ops.core.schema.tables import TableName
from cdc_ops.errors import LakeConflictError
from cdc_ops.lake.file_io import write_text
from tests.state_values import make_operation

A, B = TableName(schema="shop", name="a"), TableName(schema="shop", name="b")
SOURCE = SourceConfig(kind=SourceKind.MYSQL, connection="shop_db")
NOW = datetime(2026, 1, 1, tzinfo=UTC)
ERROR = LakeConflictError("conflict").to_payload()


def operation(table: TableName) -> Operation:
    return replace(make_operation(1), table=table, operation_id=f"op-{table}")


def done(table: TableName, outcome: Outcome, rows: int = 0) -> TableResult:
    result = OperationResult(op_seq=1, operation_id=f"op-{table}", outcome=outcome, counts=Counts(read=rows))
    return TableResult(table=table, operations=(result,))


def wrong(table: TableName) -> TableResult:
    return TableResult(table=table, error=ERROR, retryable=True)


def attempt(journal: JobFiles, step: Step, number: int, tables: tuple[TableName, ...], *results: TableResult) -> None:
    job = JobSpec(
        step=step,
        pipeline="shop",
        run_id="r",
        source=SOURCE,
        operations=tuple(operation(table) for table in tables),
        result_path=journal.result_path(step, number),
        package_version="1",
    )
    journal.write(job, number)
    if results:
        write_text(job.result_path, json_codec.dumps(StepResult(step=step, run_id="r", tables=results, started_at=NOW, finished_at=NOW)))


def test_a_retry_that_did_only_what_failed_adds_to_what_the_first_try_did(tmp_path: Path) -> None:
    journal = JobFiles(folder=str(tmp_path), map_index=0)
    attempt(journal, Step.EXTRACT, 1, (A, B), done(A, Outcome.LANDED, 5), done(B, Outcome.LANDED, 6))
    attempt(journal, Step.MERGE, 1, (A, B), done(A, Outcome.APPLIED, 5), wrong(B))
    attempt(journal, Step.MERGE, 10, (B,), done(B, Outcome.APPLIED, 6))
    attempt(JobFiles(folder=str(tmp_path), map_index=1), Step.MERGE, 1, (A,), wrong(A))
    result = summary(journal.tries())
    assert result is not None
    assert {str(t.table): (t.error, [o.counts.read for o in t.operations]) for t in result.tables} == {
        "shop.a": (None, [5]),
        "shop.b": (None, [6]),
    }
    assert written(journal.tries()) == {"op-shop.a", "op-shop.b"}


def test_the_counts_of_the_try_that_wrote_are_kept_when_a_later_one_finds_it_written(tmp_path: Path) -> None:
    journal = JobFiles(folder=str(tmp_path), map_index=-1)
    attempt(journal, Step.SYNC, 1, (A,), done(A, Outcome.APPLIED, 5))
    attempt(journal, Step.SYNC, 2, (A,), done(A, Outcome.ALREADY_APPLIED))
    result = summary(journal.tries())
    assert result is not None
    assert [item.counts.read for item in result.tables[0].operations] == [5]


def test_the_error_of_the_last_try_counts_and_a_lost_try_has_none(tmp_path: Path) -> None:
    journal = JobFiles(folder=str(tmp_path), map_index=0)
    attempt(journal, Step.MERGE, 1, (A, B), wrong(A), wrong(B))
    attempt(journal, Step.MERGE, 2, (A,))
    result = summary(journal.tries())
    assert result is not None
    assert {str(table.table): table.error for table in result.tables} == {"shop.a": None, "shop.b": ERROR}
    assert written(journal.tries()) == frozenset()


def test_a_run_without_any_application_has_no_summary(tmp_path: Path) -> None:
    assert summary(JobFiles(folder=f"{tmp_path}/none", map_index=0).tries()) is None


def test_every_run_id_has_a_folder_of_its_own_with_a_safe_name() -> None:
    pipeline = Pipeline(name="shop", source=SOURCE, target=TargetConfig(root="/l", staging="/s/"), tables=())
    folders = [open_journal(pipeline, run_id, 0).folder for run_id in ("manual__2026:01/01", "manual__2026_01_01", "x" * 500)]
    assert len(set(folders)) == 3
    assert all(folder.startswith("/s/shop/_jobs/") and len(folder.split("/")) == 5 for folder in folders)
