"""Tries of an operation: what is counted once a run, what is given up, and what never is."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from cdc_ops.airflow.job_files import JobFiles
from cdc_ops.airflow.spark.pending_work import count_attempts, open_work, take_leases
from cdc_ops.airflow.task_context import TaskContext
from cdc_ops.core.apply.apply_spec import Landing
from cdc_ops.core.operation.job import Step
from cdc_ops.core.operation.operation import Operation, OperationKind
from cdc_ops.core.operation.protocol.table_state import abandoned
from cdc_ops.core.operation.results import Manifest
from cdc_ops.core.operation.run_request import RunRequest
from cdc_ops.core.pipeline.pipeline import Pipeline, SourceConfig, SourceKind, TableConfig, TargetConfig
from cdc_ops.core.pipeline.table_settings import TableSettings
from cdc_ops.errors import StaleStateError
from cdc_ops.lake.staging.manifests import write_manifest
from cdc_ops.state.lease import Lease
from cdc_ops.state.sql import SqlStateStore, open_store
from cdc_ops.steps.context import Context
from cdc_ops.steps.plan import build_job
from cdc_ops.steps.recover import MAX_ATTEMPTS, abandon_exhausted
from tests.operations import with_fields
from tests.state_values import ORDERS, PIPELINE, fresh, make_operation, take


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqlStateStore]:
    with open_store(f"sqlite:///{tmp_path / 'ledger.db'}") as store:
        yield store


@pytest.fixture
def context(store: SqlStateStore, tmp_path: Path) -> Context:
    pipeline = Pipeline(
        name=PIPELINE,
        source=SourceConfig(kind=SourceKind.MYSQL, connection="c"),
        target=TargetConfig(root=str(tmp_path / "lake"), staging=str(tmp_path / "staging")),
        tables=(),
    )
    return Context(pipeline=pipeline, store=store, connect=lambda _: pytest.fail("nothing is asked of the source"))


def frozen(store: SqlStateStore, *operations: Operation) -> Lease:
    lease = take(store, "run")
    store.freeze(lease, fresh(), operations)
    return lease


def tried(store: SqlStateStore, lease: Lease, operation: Operation, times: int) -> None:
    for _ in range(times):
        store.start_attempt(lease, operation)


def test_a_backfill_is_given_up_after_its_last_try_and_not_before_and_its_number_is_burnt(store: SqlStateStore, context: Context) -> None:
    backfill = make_operation(1, OperationKind.BACKFILL)
    lease = frozen(store, backfill)
    tried(store, lease, backfill, MAX_ATTEMPTS - 1)
    assert abandon_exhausted(context, lease, fresh()) == fresh()
    assert store.open_operations(PIPELINE, ORDERS) == (backfill,)
    tried(store, lease, backfill, 1)
    state = abandon_exhausted(context, lease, fresh())
    assert (state.op_seq, state.committed_op_seq, state.progress.watermark) == (1, 0, None)
    assert store.table_state(PIPELINE, ORDERS) == state
    assert store.open_operations(PIPELINE, ORDERS) == ()
    assert store.abandoned_ids(PIPELINE, ORDERS) == {backfill.operation_id}


@pytest.mark.parametrize("kind", [kind for kind in OperationKind if kind.is_live])
def test_a_live_operation_is_never_given_up_and_holds_what_is_behind_it(
    store: SqlStateStore, context: Context, kind: OperationKind
) -> None:
    live, behind = make_operation(1, kind), make_operation(2, OperationKind.BACKFILL)
    lease = frozen(store, live, behind)
    for one in (live, behind):
        tried(store, lease, one, MAX_ATTEMPTS + 1)
    assert abandon_exhausted(context, lease, fresh()) == fresh()
    assert store.open_operations(PIPELINE, ORDERS) == (live, behind)
    with pytest.raises(StaleStateError):
        abandoned(fresh(), live)


def task(context: Context, folder: Path, run_id: str, attempt: int = 1) -> TaskContext:
    config = TableConfig(pipeline=PIPELINE, table=ORDERS, settings=TableSettings(), path="/lake/orders")
    request = RunRequest(run_id=run_id, trigger="scheduled", holder="run")
    journal = JobFiles(folder=str(folder / "_jobs" / run_id), map_index=0)
    return TaskContext(context=context, request=request, configs=(config,), journal=journal, attempt=attempt)


def work(here: TaskContext, step: Step) -> tuple[Operation, ...]:
    """What the Airflow operator does before it starts Spark."""
    operations = open_work(here, step).operations
    leases, _ = take_leases(here, operations)
    if operations:
        count_attempts(here, leases, operations)
        here.journal.write(build_job(here.context, here.request, step, operations, ""), here.attempt)
    return operations


def land(operation: Operation) -> None:
    fingerprint = operation.source.schema.fingerprint
    write_manifest(
        operation.target.staging,
        Manifest.of(operation_id=operation.operation_id, attempt="a", rows=0, bytes=0, schema_fingerprint=fingerprint),
    )


def test_each_run_counts_one_try_also_one_that_finds_its_rows_landed_and_fails_to_merge_them(
    store: SqlStateStore, context: Context, tmp_path: Path
) -> None:
    backfill = with_fields(make_operation(1, OperationKind.BACKFILL), staging=str(tmp_path / "staging/1"))
    frozen(store, backfill)
    first = task(context, tmp_path, "one")
    assert work(first, Step.EXTRACT) == (backfill,)
    assert work(replace(first, attempt=2), Step.EXTRACT) == (backfill,), "it was killed"
    land(backfill)
    for attempt in (1, 2):
        assert work(replace(first, attempt=attempt), Step.MERGE) == (backfill,)
    assert store.attempts(backfill) == 1
    for number in range(2, MAX_ATTEMPTS + 1):
        later = task(context, tmp_path, f"run {number}")
        assert work(later, Step.EXTRACT) == ()
        for attempt in (1, 2):
            assert work(replace(later, attempt=attempt), Step.MERGE) == (backfill,)
        assert store.attempts(backfill) == number
    assert abandon_exhausted(context, take(store, "run"), fresh()).op_seq == 1


def test_a_run_counts_what_lands_nowhere_with_its_merge(store: SqlStateStore, context: Context, tmp_path: Path) -> None:
    direct = with_fields(make_operation(1, OperationKind.RESYNC), landing=Landing.DIRECT)
    frozen(store, direct)
    assert work(task(context, tmp_path, "one"), Step.EXTRACT) == ()
    assert work(task(context, tmp_path, "one"), Step.MERGE) == (direct,)
    assert store.attempts(direct) == 1
