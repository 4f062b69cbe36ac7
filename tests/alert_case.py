"""A ledger in which a table of each kind is wrong, written as the steps and commands write it, and a pipeline file with receivers."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

from cdc_ops.core.approvals import ApprovalRecord, ApprovalStatus, Asked, Decision
from cdc_ops.core.archive.completeness import MissingEvents
from cdc_ops.core.archive.watermarks import Gap
from cdc_ops.core.operation.catalog_entry import CatalogResult
from cdc_ops.core.operation.operation import OperationKind
from cdc_ops.core.operation.results import Counts
from cdc_ops.core.pipeline.receivers import AlertKind
from cdc_ops.core.schema.tables import TableName
from cdc_ops.errors import CatalogNameTakenError, DeletesRefusedError
from cdc_ops.state.sql import SqlStateStore
from cdc_ops.state.table_run import TableRun, TableRunStatus
from cdc_ops.steps.reporting.findings import note_catalog, note_deletes, note_verification
from tests.operations import made
from tests.status_case import ALERT, ERROR, Filler

FILE = """
pipeline: shop
source: {{kind: mysql, connection: shop_db}}
target: {{root: /data/lake, staging: /data/staging}}
notify:
{receivers}
defaults: {{cursor: updated_at, max_lag: {max_lag}}}
tables:
  shop.*: {{}}
"""
HOOK = "  on_call: {webhook: on_call_hook, repeat: 4h}"
ALL = f"[{', '.join(kind.value for kind in AlertKind)}]"

OF_TABLES = [kind for kind in AlertKind if kind not in (AlertKind.PIPELINE_FILE, AlertKind.NO_RUN, AlertKind.SPACE)]
"""Kinds of what is wrong with a table; the others are about a pipeline."""

FAILED = TableName(schema="shop", name="failed")
TABLES = {kind: TableName(schema="shop", name=kind.value) for kind in AlertKind}
GAP = MissingEvents(gaps=(Gap(stream="shop.gap-0", low=(4,), high=(6,)),))
REFUSED = DeletesRefusedError(
    "The comparison of shop.deletes would delete 900 of 1,000 rows.",
    why="More than the guard allows.",
    data="Nothing was written.",
    next="cdc-ops reconcile --accept-deletes shop.deletes",
)
NAME_TAKEN = CatalogNameTakenError(
    "The catalog has lake.catalog already, and it is not shop.catalog.",
    data="The catalog is unchanged.",
    next="Set another 'catalog_name'.",
)

_LINES: Final[dict[AlertKind, dict[str, Any]]] = {
    AlertKind.FAILURE: {"status": TableRunStatus.FAILED, "message": str(ERROR)},
    AlertKind.LAG: {"status": TableRunStatus.IDLE, "message": "no row in the window"},
    AlertKind.GAP: {"alert": GAP.alert("shop.gap"), "missing": GAP},
    AlertKind.DELETES: {"status": TableRunStatus.FAILED, "message": str(REFUSED), "kind": OperationKind.RECONCILE},
    AlertKind.RUN_ALERT: {"alert": ALERT},
    AlertKind.LATE_ROWS: {"late_rows": 3, "advice": "3 late rows were found below the watermark and merged: set lookback to 5m"},
    AlertKind.SCHEMA_CHANGE: {"schema_changes": ("column price added",)},
}
"""What the line of the table's last run says."""


def write_file(folder: Path, receivers: str = HOOK, *, max_lag: str = "1h") -> Path:
    """Writes the pipeline file into a folder of its own, and returns that."""
    pipelines = folder / "pipelines"
    pipelines.mkdir(exist_ok=True)
    (pipelines / "shop.yaml").write_text(FILE.format(receivers=receivers, max_lag=max_lag))
    return pipelines


class Wrong:
    """Makes tables of the pipeline `shop` wrong, and right again."""

    def __init__(self, store: SqlStateStore) -> None:
        self.store, self._filler, self._runs, self._asked = store, Filler(store), 0, ""

    def make(self, kind: AlertKind) -> TableName:
        """Makes the table of a kind wrong in just that way."""
        table = self._filler.table("shop", kind.value, behind=timedelta(hours=3 if kind is AlertKind.LAG else 0), version=7)
        run = self.run(table, **_LINES.get(kind, {}))
        match kind:
            case AlertKind.APPROVAL:
                self.ask(table)
            case AlertKind.DELETES:
                note_deletes(self.store, run, REFUSED)
            case AlertKind.VERIFICATION:
                note_verification(self.store, "shop", table, "Source and lake differ in shop.verification. Rows: 3 missing in the lake.")
            case AlertKind.CATALOG:
                note_catalog(self.store, "shop", table, CatalogResult(error=NAME_TAKEN.to_payload()))
            case _:
                pass  # its line says it, or its state
        return table

    def heal(self, kind: AlertKind) -> None:
        """Makes it right again, as the next run or verification does."""
        table = TABLES[kind]
        match kind:
            case AlertKind.LAG:
                self._filler.now = self.store.now()
                self._filler.table("shop", kind.value, behind=timedelta(0), version=8)
            case AlertKind.APPROVAL:
                self.store.answer_approval(self._asked, ApprovalStatus.REFUSED, "ann")
            case AlertKind.DELETES:
                note_deletes(self.store, self.run(table, kind=OperationKind.RECONCILE), None)
            case AlertKind.VERIFICATION:
                note_verification(self.store, "shop", table, "")
            case AlertKind.CATALOG:
                note_catalog(self.store, "shop", table, CatalogResult(registered="0a"))
            case _:
                self.run(table)

    def ask(self, table: TableName, run_id: str = "", **parts: object) -> ApprovalRecord:
        """Writes a question of a run about a table, of its last run unless another one is given."""
        now, self._runs = self.store.now(), self._runs + 1
        self._asked = f"question-{self._runs}"
        record = ApprovalRecord(
            approval_id=self._asked,
            pipeline="shop",
            table=table,
            run_id=run_id or self.store.history("shop", table, limit=1)[0].run_id,
            asked=Asked(decision=Decision.DELETES, deletes=900, rows=1_000, keys="17"),
            text=str(REFUSED),
            asked_at=now,
            expires_at=now + timedelta(hours=2),
        )
        record = replace(record, **parts)  # type: ignore[arg-type]
        self.store.ask_approval(record)
        return record

    def run(self, table: TableName, status: TableRunStatus = TableRunStatus.COMMITTED, **parts: object) -> TableRun:
        """Records a line of a run, later than all before."""
        self._runs += 1
        started = self._filler.now - timedelta(minutes=10) + timedelta(seconds=self._runs)
        times = {"started_at": started, "finished_at": started}
        parts = {"kind": OperationKind.INCREMENT, "counts": Counts(read=5), **times, **parts}
        parts = {"trigger": "scheduled", "run_id": f"run-{self._runs}", **parts}
        line = made(TableRun, pipeline="shop", table=table, status=status, **parts)
        self.store.record(line)
        return line
