"""commit, without Spark: what a run says of operations that another attempt has committed, or whose report is lost."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path

import pytest

from cdc_ops.core.apply.apply_spec import ApplyMode
from cdc_ops.core.cursor.cursors import CursorValue
from cdc_ops.core.cursor.windows import Window
from cdc_ops.core.maintenance import TableStats
from cdc_ops.core.operation.job import StepResult, TableResult
from cdc_ops.core.operation.operation import Operation, OperationKind
from cdc_ops.core.operation.protocol.commit_json import render_record
from cdc_ops.core.operation.protocol.commit_record import commit_record
from cdc_ops.core.operation.protocol.table_state import TableState
from cdc_ops.core.operation.results import Counts, Manifest, OperationResult, Outcome
from cdc_ops.core.operation.run_request import RunKind, RunRequest
from cdc_ops.core.pipeline.pipeline import Pipeline, SourceConfig, SourceKind, TableConfig, TargetConfig
from cdc_ops.core.pipeline.table_settings import TableSettings
from cdc_ops.errors import CdcError, DeletesRefusedError, LakeConflictError, LeaseHeldError
from cdc_ops.lake.staging.manifests import write_manifest
from cdc_ops.state.sql import SqlStateStore, open_store
from cdc_ops.state.table_run import RunResult, RunTiming, TableRun, TableRunStatus
from cdc_ops.steps.context import Context
from cdc_ops.steps.reporting.findings import note_verification
from cdc_ops.steps.runs.table_groups import TableFailure, commit_group
from tests.lake_case import PIPELINE, TABLE, Case
from tests.operations import made, with_fields
from tests.state_values import NOON, TTL
from tests.unit.test_lake_log import ADD, OURS, Log

METRICS = {
    "numTargetRowsInserted": "1",
    "numTargetRowsUpdated": "10",
    "numTargetRowsDeleted": "2",
    "numSourceRows": "13",
    "numTargetBytesAdded": "99",
}
REQUEST = RunRequest(run_id="run", trigger="cli", holder="cli:me")


@dataclass
class Shop:
    """A table with one frozen operation, its ledger and its Delta log."""

    store: SqlStateStore
    context: Context
    config: TableConfig
    operation: Operation
    log: Log

    def commit_in_lake(self) -> None:
        """What Spark does: the operation's commit."""
        record = render_record(commit_record(self.operation, rows=65_255, package_version="1"))
        txn = {"txn": {"appId": OURS, "version": self.operation.op_seq, "lastUpdated": 1}}
        self.log.commit(1, "MERGE", txn, ADD, info={"userMetadata": record, "operationMetrics": METRICS})

    def settle(
        self, *operations: OperationResult, error: Exception | None = None, lost: bool = False
    ) -> tuple[TableRun | None, list[TableFailure]]:
        """The commit step of a run."""
        payload = error.to_payload() if isinstance(error, CdcError) else None
        table = TableResult(table=TABLE, operations=operations, error=payload, retryable=True)
        result = StepResult(step="sync", run_id="run", tables=(table,), started_at=NOON, finished_at=NOON)  # type: ignore[arg-type]
        runs, failures = commit_group(self.context, REQUEST, (self.config,), None if lost else result)
        return (runs[0] if runs else None), list(failures)

    def done(self, outcome: Outcome, **counts: int) -> OperationResult:
        return OperationResult(
            op_seq=self.operation.op_seq,
            operation_id=self.operation.operation_id,
            outcome=outcome,
            delta_version=1,
            counts=Counts(**counts),
        )


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    with opened_shop(tmp_path, kind=OperationKind.INCREMENT) as shop:
        yield shop


@contextmanager
def opened_shop(tmp_path: Path, **parts: object) -> Iterator[Shop]:
    case = Case(root=str(tmp_path))
    operation = with_fields(case.operation(1), run_id="run", **parts)
    pipeline = Pipeline(
        name=PIPELINE,
        source=SourceConfig(kind=SourceKind.MYSQL, connection="c"),
        target=TargetConfig(root=str(tmp_path / "lake"), staging=str(tmp_path / "staging")),
        tables=(),
    )
    with open_store(f"sqlite:///{tmp_path / 'ledger.db'}") as store:
        lease = store.acquire(PIPELINE, TABLE, REQUEST.holder, ttl=TTL, live=True)
        store.freeze(lease, TableState(pipeline=PIPELINE, table=TABLE), (operation,))
        log = Log(case.path)
        log.create()
        context = Context(pipeline=pipeline, store=store, connect=lambda _: pytest.fail("nothing is asked of the source"))
        yield Shop(store, context, TableConfig(pipeline=PIPELINE, table=TABLE, settings=TableSettings(), path=case.path), operation, log)


def test_an_attempt_that_failed_while_another_one_committed_has_the_counts_of_the_commit(shop: Shop) -> None:
    shop.commit_in_lake()
    run, failures = shop.settle(error=LakeConflictError("Somebody else committed"))
    assert not failures
    assert run is not None
    assert (run.status, run.result.delta_version) == (TableRunStatus.COMMITTED, 1)
    assert run.result.counts == Counts(read=65_255, inserted=1, updated=10, deleted=2, bytes=99)
    assert run.messages.note == "operation 1 was committed by another attempt (Delta version 1); the counts are from that commit"
    assert run.messages.note in run.messages.message
    assert "Somebody else" not in run.messages.message


def test_a_run_says_how_the_table_is_after_it(shop: Shop) -> None:
    shop.commit_in_lake()
    stats = TableStats(delta_version=1, files=7, size_bytes=900)
    run, _ = shop.settle(replace(shop.done(Outcome.APPLIED), stats=stats))
    state = shop.store.table_state(PIPELINE, TABLE)
    assert run is not None
    assert (run.result.fresh_at, run.result.files, run.result.size_bytes) == (state.progress.fresh_at, 7, 900)
    assert shop.store.history(PIPELINE, TABLE) == (run,)


def test_an_application_that_is_lost_after_its_commit_has_the_counts_of_the_commit(shop: Shop) -> None:
    shop.commit_in_lake()
    run, failures = shop.settle(lost=True)
    assert not failures
    assert run is not None
    assert run.result.counts.read == 65_255
    assert (
        run.messages.note
        == "operation 1 was committed before its Spark application was lost (Delta version 1); the counts are from that commit"
    )


def test_a_run_that_committed_itself_says_nothing_of_it(shop: Shop) -> None:
    shop.commit_in_lake()
    run, _ = shop.settle(shop.done(Outcome.APPLIED, read=5))
    assert run is not None
    assert (run.result.counts.read, run.messages.note, run.messages.message) == (5, "", "")


def test_a_window_that_was_read_again_is_told_also_if_the_report_is_lost(shop: Shop) -> None:
    shop.commit_in_lake()
    manifest = Manifest.of(
        operation_id=shop.operation.operation_id,
        attempt="b",
        rows=3,
        bytes=9,
        schema_fingerprint=shop.operation.source.schema.fingerprint,
        reread="1 of 2 files",
    )
    write_manifest(shop.operation.target.staging, manifest)
    run, _ = shop.settle(lost=True)
    assert run is not None
    assert "the landed rows were damaged (1 of 2 files), so the same window was read again" in run.messages.message


@pytest.mark.parametrize("written", [True, False])
def test_a_run_that_lost_its_lease_says_whether_its_rows_are_in_the_table(shop: Shop, written: bool) -> None:
    lease = shop.store.lease(PIPELINE, TABLE)
    assert lease is not None
    shop.store.unlock(lease)
    shop.store.acquire(PIPELINE, TABLE, "rival", ttl=timedelta(minutes=5), live=True)
    if written:
        shop.commit_in_lake()
    run, [failure] = shop.settle(*([shop.done(Outcome.APPLIED, read=5)] if written else []))
    assert run is None
    assert isinstance(failure.error, LeaseHeldError)
    assert failure.error.what.startswith(
        "This run lost its lease on shop.orders while it worked. Table shop.orders of pipeline 'shop' is held by rival"
    )
    said = "Committed, once: operation 1 in Delta version 1." if written else "This run committed nothing"
    assert failure.error.data.startswith(said)
    assert "Nothing was read or written" not in str(failure.error)
    assert shop.store.open_operations(PIPELINE, TABLE) == (shop.operation,), "the ledger is the rival's to write"


def test_the_line_of_a_run_that_failed_keeps_the_window_that_it_has_read(shop: Shop) -> None:
    window = Window(low=CursorValue(parts=("10",)), high=CursorValue(parts=("20",)))
    opened = TableRun(
        pipeline=PIPELINE,
        table=TABLE,
        run_id="run",
        trigger="cli",
        kind=OperationKind.INCREMENT,
        status=TableRunStatus.MERGED,
        timing=RunTiming(started_at=NOON),
        result=RunResult(window=window, delta_version=1),
    )
    shop.store.record(opened)
    lease = shop.store.lease(PIPELINE, TABLE)
    assert lease is not None
    shop.store.unlock(lease)
    shop.store.acquire(PIPELINE, TABLE, "rival", ttl=timedelta(minutes=5), live=True)
    shop.commit_in_lake()
    shop.settle(shop.done(Outcome.APPLIED, read=5))
    [run] = shop.store.history(PIPELINE, TABLE)
    assert run.status is TableRunStatus.FAILED
    assert run.result == RunResult(window=window), "without the window the next one would begin behind a hole; no event tells of a version"


def test_a_conflict_with_another_attempt_of_the_same_operation_is_no_failure_and_any_other_is(shop: Shop) -> None:
    from cdc_ops.lake.merge.apply import _found_committed

    with pytest.raises(LakeConflictError), _found_committed(shop.operation):
        raise LakeConflictError("Somebody else committed")
    shop.commit_in_lake()
    with _found_committed(shop.operation):
        raise LakeConflictError("Somebody else committed")
    with pytest.raises(LakeConflictError), _found_committed(replace(shop.operation, operation_id="of another plan")):
        raise LakeConflictError("Somebody else committed")


def test_a_silent_run_stays_silent_when_its_commit_is_tried_again(shop: Shop) -> None:
    silent = RunRequest(run_id="run", trigger="backfill", holder=REQUEST.holder, kind=RunKind.BACKFILL, silent=True)
    line = made(
        TableRun, pipeline=PIPELINE, table=TABLE, run_id="run", trigger="backfill", kind=OperationKind.BACKFILL,
        status=TableRunStatus.PLANNED, started_at=NOON, silent=True,
    )  # fmt: skip
    shop.store.record(line)
    shop.commit_in_lake()
    lease = shop.store.lease(PIPELINE, TABLE)
    assert lease is not None
    shop.store.unlock(lease)
    rival = shop.store.acquire(PIPELINE, TABLE, "rival", ttl=timedelta(minutes=5), live=True)
    _, [failure] = commit_group(shop.context, silent, (shop.config,), None)
    [failed] = shop.store.history(PIPELINE, TABLE)
    assert (failure.error.retryable, failed.status, failed.events.silent) == (True, TableRunStatus.FAILED, True)
    shop.store.release(rival)
    [settled], _ = commit_group(shop.context, silent, (shop.config,), None)
    assert (settled.status, settled.events.silent) == (TableRunStatus.COMMITTED, True)


@pytest.mark.parametrize(("kind", "is_silent"), [(OperationKind.BACKFILL, True), (OperationKind.INCREMENT, False)])
def test_a_silent_run_of_which_the_ledger_has_lost_the_line_is_silent_about_what_it_read_again(
    shop: Shop, kind: OperationKind, is_silent: bool
) -> None:
    silent = RunRequest(run_id="run", trigger="backfill", holder=REQUEST.holder, kind=RunKind.BACKFILL, silent=True)
    lease = shop.store.acquire(PIPELINE, TABLE, REQUEST.holder, ttl=TTL, live=True)
    shop.store.refreeze(lease, (with_fields(shop.operation, kind=kind),))
    shop.commit_in_lake()
    [settled], _ = commit_group(shop.context, silent, (shop.config,), None)
    assert (settled.status, settled.events.silent) == (TableRunStatus.COMMITTED, is_silent)


@pytest.mark.parametrize(("mode", "left"), [(ApplyMode.OVERWRITE, 0), (ApplyMode.MERGE, 1)])
def test_a_commit_that_replaces_the_table_ends_what_a_verification_has_found(tmp_path: Path, mode: ApplyMode, left: int) -> None:
    with opened_shop(tmp_path, kind=OperationKind.RESYNC, mode=mode) as shop:
        note_verification(shop.store, PIPELINE, TABLE, "3 missing in the lake")
        planned = made(
            TableRun, pipeline=PIPELINE, table=TABLE, run_id="run", trigger="cli", kind=OperationKind.RESYNC,
            status=TableRunStatus.PLANNED, started_at=shop.store.now() + timedelta(seconds=1),
        )  # fmt: skip
        shop.store.record(planned)
        _, failures = shop.settle(error=LakeConflictError("Somebody else committed"))
        assert (len(failures), len(shop.store.findings(PIPELINE))) == (1, 1), "nothing is committed yet"
        shop.commit_in_lake()
        run, _ = shop.settle(shop.done(Outcome.APPLIED))
        assert run is not None
        assert run.status is TableRunStatus.COMMITTED
        assert len(shop.store.findings(PIPELINE)) == left


def test_who_sees_the_line_of_refused_deletes_sees_the_refusal_too(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    monkeypatch.setattr(shop.store, "record", lambda run: seen.append(len(shop.store.findings(PIPELINE))))
    shop.settle(error=DeletesRefusedError("900 deletes"))
    assert seen == [1], "alerts would tell of a failure, and then that it is over"
