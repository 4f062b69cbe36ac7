"""What one Spark application gives to each of its tables; the steps themselves are recorded, not run."""

from unittest.mock import Mock

import pytest

from cdc_ops import jobs
from cdc_ops.core.operation.job import JobSpec, Step
from cdc_ops.core.operation.operation import Operation
from cdc_ops.core.operation.results import OperationResult, Outcome
from cdc_ops.core.pipeline.pipeline import SourceConfig, SourceKind
from cdc_ops.core.schema.tables import TableName
from tests.state_values import make_operation

TABLES = tuple(TableName(schema="shop", name=f"t{number}") for number in range(6))

JOB = JobSpec(
    step=Step.SYNC,
    pipeline="shop",
    run_id="r",
    source=SourceConfig(kind=SourceKind.MARIADB, connection="shop_db"),
    operations=tuple(make_operation(number, table=table) for table in TABLES for number in (1, 2)),
    result_path="",
    package_version="1",
)


def test_each_table_of_a_job_asks_a_source_of_its_own_which_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A source is one connection: two tables that asked it at the same time would get each other's answers."""
    opened: list[Mock] = []
    asked: dict[TableName, set[int]] = {table: set() for table in TABLES}

    def open_source(config: SourceConfig, url: str) -> Mock:
        opened.append(Mock())
        return opened[-1]

    def step(spark: object, source: object, operation: Operation, *_: object) -> OperationResult:
        asked[operation.table].add(id(source))
        return OperationResult(op_seq=operation.op_seq, operation_id=operation.operation_id, outcome=Outcome.APPLIED)

    monkeypatch.setattr(jobs, "check_shared", lambda *_: None)
    monkeypatch.setattr(jobs, "open_source", open_source)
    monkeypatch.setattr(jobs, "extract", step)
    monkeypatch.setattr(jobs, "merge", step)
    result = jobs.execute(Mock(), JOB, "mysql://u:p@h/d")
    assert [table.error for table in result.tables] == [None] * len(TABLES)
    assert [len(sources) for sources in asked.values()] == [1] * len(TABLES)
    assert len(set.union(*asked.values())) == len(TABLES)
    assert all(source.close.call_count == 1 for source in opened)


@pytest.mark.parametrize("first_word", ["check_shared", "open_source"])
def test_a_job_that_cannot_begin_fails_each_of_its_tables_and_may_be_tried_again(monkeypatch: pytest.MonkeyPatch, first_word: str) -> None:
    """The JVM or the source may have died since the job before."""

    def refused(*_: object) -> Mock:
        raise ConnectionRefusedError(111, "Connection refused")

    monkeypatch.setattr(jobs, "check_shared", lambda *_: None)
    monkeypatch.setattr(jobs, first_word, refused)
    result = jobs.execute(Mock(), JOB, "mysql://u:p@h/d")
    assert [table.table for table in result.tables] == list(TABLES)
    assert all(table.retryable and table.error for table in result.tables)
    assert "The sync job of pipeline shop failed in Spark with ConnectionRefusedError." in str(result.tables[0].error)


def test_an_error_of_a_python_worker_is_told_with_what_its_traceback_ends_with(monkeypatch: pytest.MonkeyPatch) -> None:
    """What stands in front of the traceback is Spark's, and names no cause; what stands behind it is Java's."""

    def refused(*_: object) -> Mock:
        frames = "".join(f'  File "worker.py", line {number}, in main\n    process()\n' for number in range(20))
        raise RuntimeError(f"Job aborted.\nTraceback (most recent call last):\n{frames}ModuleNotFoundError: no pyarrow\n\n\tat org.x")

    monkeypatch.setattr(jobs, "check_shared", refused)
    result = jobs.execute(Mock(), JOB, "mysql://u:p@h/d")
    error = result.tables[0].error
    assert error is not None
    assert [line.strip() for line in error["why"].splitlines()] == ["Job aborted.", "ModuleNotFoundError: no pyarrow"]


def test_a_url_that_spark_has_no_file_system_for_is_told_in_words_and_not_by_a_stack_trace() -> None:
    known = jobs._known(
        Mock(), "Table shop.orders", RuntimeError('o76.sql: UnsupportedFileSystemException: No FileSystem for scheme "s3"\n at org')
    )
    assert known.what == "Table shop.orders failed: Spark has no file system for s3://."
    assert known.next.startswith("Write s3a:// in its place; 'cdc-ops state rebuild' then discards the operation")
    assert not known.retryable
