"""What a run or a verification found that outlives its line: the ledger keeps it for alerts until another one has found it settled."""

from cdc_ops.core.operation.catalog_entry import CatalogResult
from cdc_ops.core.operation.operation import OperationKind
from cdc_ops.core.pipeline.receivers import AlertKind
from cdc_ops.core.schema.tables import TableName
from cdc_ops.errors import CdcError, DeletesRefusedError, from_payload
from cdc_ops.state.alerts import Finding, Subject
from cdc_ops.state.base import StateStore
from cdc_ops.state.table_run import TableRun


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


def note_verification(store: StateStore, pipeline: str, table: TableName, difference: str) -> None:
    """Notes how a verification ended, in place of what the one before found.

    Args:
        store: The ledger.
        pipeline, table: Which.
        difference: How source and lake differ, "" if they are equal.
    """
    if not difference:
        store.drop_findings(pipeline, table, AlertKind.VERIFICATION)
        return
    subject = Subject(pipeline=pipeline, table=table, kind=AlertKind.VERIFICATION)
    store.put_finding(Finding(subject=subject, text=difference, found_at=store.now()))


def note_failed_run(store: StateStore, pipeline: str, run_id: str, failure: str = "") -> None:
    """Notes a failure of a run that no line of a table tells, so that the receivers can be told of it; or that there is none any more.

    Args:
        store: The ledger.
        pipeline: Of the run.
        run_id: The run.
        failure: Why no table was read, or which tasks failed besides; "" for neither.
    """
    if not failure:
        store.drop_findings(pipeline, None, AlertKind.FAILURE)
        return
    subject = Subject(pipeline=pipeline, table=None, kind=AlertKind.FAILURE)
    store.put_finding(Finding(subject=subject, text=failure, found_at=store.now(), run_id=run_id))
