"""What a run or a verification found that outlives its line: the ledger keeps it for alerts until another one has found it settled."""

from collections.abc import Iterable
from typing import Final

from cdc_ops.core.apply.apply_spec import ApplyMode
from cdc_ops.core.operation.catalog_entry import CatalogResult
from cdc_ops.core.operation.operation import Operation, OperationKind
from cdc_ops.core.operation.reads import CompareRead
from cdc_ops.core.operation.run_request import RunRequest, airflow_run_id
from cdc_ops.core.pipeline.receivers import AlertKind
from cdc_ops.core.reconcile.diff import CompareLevel
from cdc_ops.core.schema.tables import TableName
from cdc_ops.errors import CdcError, DeletesRefusedError, from_payload
from cdc_ops.state.base import StateStore
from cdc_ops.state.notices.alerts import Finding, Subject
from cdc_ops.state.table_run import TableRun

_DUPLICATES: Final = "duplicates"
"""Detail of a finding of which a comparison is no end."""
_KEYS: Final = "keys"
"""Detail of a finding of which a comparison of keys is an end."""

_CARRYING: Final = "tasks"
_COMPARING: Final = "tasks that compare"
"""Details of failed tasks: the DAG that reconciles has other tasks, and other tables in a job."""

_COMMAND_LINE: Final = "cli"


def note_deletes(store: StateStore, run: TableRun, error: CdcError | None) -> None:
    """Notes that a comparison refused to delete rows, until one has come through: increments in between settle nothing.

    Args:
        store: The ledger.
        run: The table's line, which has ended.
        error: Why it failed, None if it did not.
    """
    if isinstance(error, DeletesRefusedError):
        subject = Subject(pipeline=run.pipeline, table=run.table, kind=AlertKind.DELETES)
        at = run.timing.finished_at or run.timing.started_at
        store.put_finding(Finding(subject=subject, text=str(error), found_at=at, run_id=run.run_id))
    elif error is None and run.kind is OperationKind.RECONCILE:
        store.drop_findings(run.pipeline, run.table, AlertKind.DELETES)


def note_catalog(store: StateStore, pipeline: str, table: TableName, result: CatalogResult | None, run_id: str = "") -> str:
    """Notes that Spark's catalog did not take a table, until it has.

    Args:
        store: The ledger.
        pipeline, table: Which.
        result: How the registration ended; None settles nothing.
        run_id: The run that tried, "" for none.

    Returns:
        What to say of it, "" if it went well.
    """
    if result is None or result.error is None:
        if result is not None:
            store.drop_findings(pipeline, table, AlertKind.CATALOG)
        return ""
    error = from_payload(result.error)
    subject = Subject(pipeline=pipeline, table=table, kind=AlertKind.CATALOG)
    store.put_finding(Finding(subject=subject, text=str(error), found_at=store.now(), run_id=run_id))
    return f"{error.what} {error.why}".strip()


def note_verification(
    store: StateStore, pipeline: str, table: TableName, difference: str, *, values: bool = True, duplicates: bool = False
) -> None:
    """Notes how a verification ended, in place of what the one before found.

    Args:
        store: The ledger.
        pipeline, table: Which.
        difference: How source and lake differ, "" if they are equal.
        values: Rows with the same keys differ, which a comparison of keys does not see.
        duplicates: A side has keys several times, which a comparison does not change.
    """
    store.drop_findings(pipeline, table, AlertKind.VERIFICATION)
    if difference:
        detail = _DUPLICATES if duplicates else "" if values else _KEYS
        subject = Subject(pipeline=pipeline, table=table, kind=AlertKind.VERIFICATION, detail=detail)
        store.put_finding(Finding(subject=subject, text=difference, found_at=store.now()))


def note_equal(store: StateStore, operations: Iterable[Operation]) -> None:
    """Forgets what a verification found, if a run that began later has made the table equal to its source.

    Args:
        store: The ledger.
        operations: What a run has settled of one table: committed, or compared and found to be equal.
    """
    for operation in operations:
        settled = _settled_details(operation)
        line = store.table_run(operation.pipeline, operation.table, operation.plan.run_id) if settled else None
        if line is None:
            continue
        for finding in store.findings(operation.pipeline):
            subject = finding.subject
            if subject.kind is not AlertKind.VERIFICATION or subject.table != operation.table:
                continue
            if finding.found_at < line.timing.started_at and subject.detail in settled:
                store.drop_findings(operation.pipeline, operation.table, AlertKind.VERIFICATION)


def _settled_details(operation: Operation) -> tuple[str, ...]:
    """Returns the details of verifications' findings that an operation settles: what it has compared, or all if it replaces the table."""
    read = operation.read
    if operation.kind is OperationKind.RESYNC and operation.apply.mode is ApplyMode.OVERWRITE:
        return ("", _KEYS, _DUPLICATES)
    if not isinstance(read, CompareRead) or read.compare.scope is not None:
        return ()
    return (_KEYS,) if read.compare.strength is CompareLevel.KEYS else ("", _KEYS)


def note_failed_run(store: StateStore, pipeline: str, request: RunRequest, failure: str = "", *, began: bool = False) -> None:
    """Notes a failure of a run that no line of a table tells, so that the receivers can be told of it; or that there is none any more.

    That a run came to no table is over when any run of the pipeline comes to one. That tasks failed is over when a run of the same DAG,
    of all of its tables, ends without that.

    Args:
        store: The ledger.
        pipeline: Of the run.
        request: The run.
        failure: Why no table was read, or which tasks failed besides; "" for neither.
        began: The run came to its tables.
    """
    of_tasks = _COMPARING if airflow_run_id(request.run_id)[1] else _CARRYING
    if began:
        store.drop_findings(pipeline, None, AlertKind.FAILURE, detail="")
        if not failure and not request.tables and request.trigger != _COMMAND_LINE:
            store.drop_findings(pipeline, None, AlertKind.FAILURE, detail=of_tasks)
    if failure:
        subject = Subject(pipeline=pipeline, table=None, kind=AlertKind.FAILURE, detail=of_tasks if began else "")
        store.put_finding(Finding(subject=subject, text=failure, found_at=store.now(), run_id=request.run_id))
