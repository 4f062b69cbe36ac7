"""Run requests: what a run is asked to do, checked before anything is touched. The CLI and the Airflow DAG both build one."""

import enum
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from cdc_ops.core.approvals import Approval, Decision
from cdc_ops.core.reconcile.diff import CompareLevel
from cdc_ops.core.reconcile.key_buckets import BucketSelection
from cdc_ops.core.run_cost import RunCost
from cdc_ops.errors import CdcError, CostRefusedError, RequestError

_NOTHING: Final = "Nothing was read or written; the watermark stays."
_BOTH_ENDS: Final = "Give both ends of the range: since and until (--since and --until)."
_KEYS: Final = "Give the key values of the rows to read again: keys (--key, once for each row)."
_ONE_TABLE: Final = "Name exactly one table: tables (--table)."
_OF_RECONCILE_DAG: Final = "reconcile__"
_BY_PEOPLE: Final = ("manual", "backfill", "cli")
"""Triggers behind which somebody stands who sees what comes of it, and may have meant something else."""


def ledger_run_id(run_id: str, *, reconcile_dag: bool) -> str:
    """Returns the id under which the ledger keeps a run of one of a pipeline's two DAGs.

    Airflow's ids are unique within a DAG only: when both DAGs are due at the same instant, both have a run of the same id.

    Args:
        run_id: Airflow's.
        reconcile_dag: True for the DAG that reconciles.

    >>> ledger_run_id("scheduled__2026-01-01T00:00:00+00:00", reconcile_dag=True)
    'reconcile__scheduled__2026-01-01T00:00:00+00:00'
    """
    return f"{_OF_RECONCILE_DAG}{run_id}" if reconcile_dag else run_id


def airflow_run_id(run_id: str) -> tuple[str, bool]:
    """Returns Airflow's id of a run in the ledger, and whether it is one of the DAG that reconciles.

    >>> airflow_run_id("reconcile__manual__1"), airflow_run_id("manual__1")
    (('manual__1', True), ('manual__1', False))
    """
    return run_id.removeprefix(_OF_RECONCILE_DAG), run_id.startswith(_OF_RECONCILE_DAG)


def is_wrong_request(trigger: str, error: CdcError) -> bool:
    """True if somebody has asked for what cannot be done, such as a table that there is not: that is no failure of a table or a pipeline.

    Args:
        trigger: Who asked for the run, as its record has it.
        error: Why it failed.
    """
    return trigger in _BY_PEOPLE and isinstance(error, RequestError) and not isinstance(error, CostRefusedError)


class RunKind(enum.StrEnum):
    """The things that a run can be for."""

    INCREMENT = "increment"
    """Carry the tables forward: first the snapshot, then increments. The only kind that moves the watermark."""
    BACKFILL = "backfill"
    """Read a range of the cursor again (Airflow's backfill of a date range)."""
    RESYNC = "resync"
    """Read keys, a range or everything again, on demand."""
    RECONCILE = "reconcile"
    """Compare source and lake by checksums, and bring over only what differs; the watermark stays."""


class ResyncMode(enum.StrEnum):
    """How much a resync reads."""

    KEYS = "keys"
    RANGE = "range"
    FULL = "full"
    REPLAY = "replay"
    """Reads no row at the source: the table's event history is applied again."""
    QUARANTINE = "quarantine"
    """Reads no row at the source: records of the archive that were set aside are read again, by the settings of now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedComparison:
    """What a reconcile compares.

    Args:
        strength: How thoroughly; None = the keys of tables with a cursor, all columns of the others.
        scope: The part of its one table that a verification found to differ; None = whole tables.
    """

    strength: CompareLevel | None = None
    scope: BucketSelection | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepts:
    """What a run may do although a guard would refuse it.

    Args:
        deletes: Deletes that a reconcile of one table may bring, whatever the table's limits; 0 = its limits hold.
        delete_ratio: The same as a share of the table's rows.
        cost: It may cost more than `max_cost`.
        server: Tables go on under the watermark of another server than the one that answers now.
        gaps: Gaps of archives, by their names, whose events are given up: the tables go on behind them.
        why: Why that is acceptable; the ledger keeps it.
        approval: What somebody has granted to the run's one table, after a guard had refused it.
    """

    deletes: int = 0
    delete_ratio: float = 0.0
    cost: bool = False
    server: bool = False
    gaps: tuple[str, ...] = ()
    why: str = ""
    approval: Approval | None = None

    @property
    def more_deletes(self) -> bool:
        """True if the run may bring more deletes than the table's limits allow."""
        return bool(self.deletes or self.delete_ratio)

    @property
    def approved_deletes(self) -> int:
        """Deletes that somebody has granted to the run's one table, 0 if none."""
        return self.approval.asked.deletes if self.approval and self.approval.asked.decision is Decision.DELETES else 0

    @property
    def approved_rows(self) -> int:
        """Rows that the table had when these deletes were granted."""
        return self.approval.asked.rows if self.approval else 0

    @property
    def granted_cost(self) -> RunCost | None:
        """The estimate that somebody has granted to the run's one table, None if none."""
        return self.approval.asked.cost if self.approval else None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRequest:
    """What one run has to do.

    Args:
        run_id: Unique per run of a pipeline: `ledger_run_id` of Airflow's, or the CLI's own.
        trigger: Who asked, for the record: scheduled, manual, backfill, cli, ...
        holder: Name under which the run takes leases; the same for all steps of the run.
        kind: What for.
        tables: `schema.table` names; empty = all of the pipeline.
        mode: How much a resync reads.
        since, until: Half-open range [since, until) of aware instants for backfills and range resyncs.
        keys: Key values as text, one tuple per row, in the order of the table's keys, for resync by keys.
        columns: For a backfill: read these columns only, and set them in the rows that the lake has; all rows if there is no range.
        compare: What a reconcile compares.
        accepts: What the run may do although a guard would refuse it.
        silent: The DAGs behind the tables are not told of it; only of backfills and resyncs.
        dry_run: Only say what would be done.
    """

    run_id: str
    trigger: str
    holder: str
    kind: RunKind = RunKind.INCREMENT
    tables: tuple[str, ...] = ()
    mode: ResyncMode | None = None
    since: datetime | None = None
    until: datetime | None = None
    keys: tuple[tuple[str, ...], ...] = ()
    columns: tuple[str, ...] = ()
    compare: AskedComparison = AskedComparison()
    accepts: Accepts = Accepts()
    silent: bool = False
    dry_run: bool = False

    @property
    def replaces_table(self) -> bool:
        """True if the request replaces the whole table."""
        return self.mode is ResyncMode.FULL or (self.mode is ResyncMode.REPLAY and self.since is None)

    @property
    def is_by_hand(self) -> bool:
        """True if a person has asked for the run: no schedule, event or other DAG has."""
        return self.trigger in _BY_PEOPLE

    def is_wrong_by(self, error: CdcError) -> bool:
        """True if it failed with an error because somebody has asked for what cannot be done; see `is_wrong_request`."""
        return is_wrong_request(self.trigger, error)

    def checked(self) -> "RunRequest":
        """Returns the request itself.

        Raises:
            RequestError: its parts contradict each other; the message names the part.
        """
        for name, value in (("since", self.since), ("until", self.until)):
            if value is not None and value.tzinfo is None:
                raise RequestError(
                    f"{name}={value.isoformat()!r} has no time zone.",
                    why="In each time zone the same text is another instant.",
                    data=_NOTHING,
                    next=f"Add the zone, e.g. {value.isoformat()}Z or {value.isoformat()}+02:00.",
                )
        if self.since and self.until and self.since >= self.until:
            raise RequestError(
                f"since ({self.since.isoformat()}) is not before until ({self.until.isoformat()}).",
                why="The range is half-open, [since, until), and would be empty.",
                data=_NOTHING,
                next="Swap the two, or widen the range.",
            )
        if self.silent and self.kind not in (RunKind.BACKFILL, RunKind.RESYNC):
            raise self._contradiction(
                "Only a backfill or a resync can be silent.",
                "Remove downstream: the DAGs behind a table have to know its new changes.",
            )
        if self.accepts.server and self.kind is not RunKind.INCREMENT:
            what = "Only an increment goes on under the watermark of another server."
            raise self._contradiction(what, "Remove accept_server: a comparison and a full resync settle it by themselves.")
        self._check_gaps()
        self._check_kind()
        return self

    def _check_gaps(self) -> None:
        if bool(self.accepts.gaps) is not bool(self.accepts.why.strip()):
            raise self._contradiction("A gap is accepted by its name and with a reason.", "Give both accept_gaps and why, or neither.")
        if self.accepts.gaps and (self.kind is not RunKind.INCREMENT or not self.tables):
            raise self._contradiction(
                "Only an increment of tables that are named goes on behind a gap.", "Name the tables, without a mode."
            )

    def _check_kind(self) -> None:
        ranged = self.since is not None or self.until is not None
        whole_range = self.since is not None and self.until is not None
        self._check_reconcile(ranged)
        match self.kind, self.mode:
            case _ if self.columns and (self.kind is not RunKind.BACKFILL or self.mode or self.keys or ranged != whole_range):
                what = "Only a backfill takes columns: of a complete range, or of all rows."
                raise self._contradiction(what, "Give both ends of the range or neither, and no keys and no resync mode.")
            case RunKind.INCREMENT, _ if self.mode or ranged or self.keys:
                what = "An increment takes neither range nor keys nor resync mode."
                raise self._contradiction(what, "Choose a resync mode, or remove them.")
            case RunKind.BACKFILL, _ if not (whole_range or self.columns) or self.mode or self.keys:
                raise self._contradiction("A backfill needs since and until, and nothing else.", _BOTH_ENDS)
            case RunKind.RESYNC, None:
                raise self._contradiction("A resync needs a mode.", "Choose keys, range, full, replay or quarantine.")
            case RunKind.RESYNC, ResyncMode.RANGE if not whole_range or self.keys:
                raise self._contradiction("Resync mode 'range' needs since and until, and no keys.", _BOTH_ENDS)
            case RunKind.RESYNC, ResyncMode.KEYS if not self.keys or ranged:
                raise self._contradiction("Resync mode 'keys' needs keys, and no range.", _KEYS)
            case RunKind.RESYNC, ResyncMode.KEYS if len(self.tables) != 1:
                raise self._contradiction("Resync mode 'keys' works on one table.", _ONE_TABLE)
            case RunKind.RESYNC, ResyncMode.FULL | ResyncMode.QUARANTINE if ranged or self.keys:
                what = f"Resync mode '{self.mode}' reads everything and takes neither range nor keys."
                raise self._contradiction(what, "Remove them, or choose another mode.")
            case RunKind.RESYNC, ResyncMode.REPLAY if self.until or self.keys:
                what = "Resync mode 'replay' applies the event history up to its end, and takes no keys."
                raise self._contradiction(what, "Give only since; or neither of them, to rebuild the table.")
            case _:
                return

    def _check_reconcile(self, ranged: bool) -> None:
        if self.kind is not RunKind.RECONCILE:
            if self.compare.strength or self.accepts.more_deletes or self.compare.scope:
                raise self._contradiction("Only a reconcile accepts deletes and takes a part to compare.", "Remove them, or reconcile.")
            return
        if self.mode or ranged or self.keys:
            raise self._contradiction(
                "A reconcile takes neither range nor keys nor resync mode.", "Remove them: a reconcile compares whole tables."
            )
        if self.accepts.more_deletes and len(self.tables) != 1:
            raise self._contradiction("Deletes can be accepted for only one table.", _ONE_TABLE)
        if self.compare.scope and (len(self.tables) != 1 or self.compare.strength is not CompareLevel.ROWS):
            raise self._contradiction(
                "A part to compare belongs to one table, and is compared by rows.", "Name exactly one table, and strength rows."
            )

    def _contradiction(self, what: str, remedy: str) -> RequestError:
        names = ("mode", "since", "until", "keys", "columns", "tables")
        given = ", ".join(name for name in names if getattr(self, name)) or "nothing else"
        return RequestError(what, why=f"The request is for '{self.kind}' and names {given}.", data=_NOTHING, next=remedy)
