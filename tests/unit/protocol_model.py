"""A small world in which the commit protocol runs: workers that die, stall and come back, between a source, a Delta table and a ledger.

Only the surroundings are modelled (tests/unit/protocol_places.py). Whatever the protocol decides, it decides with the functions of
`cdc_ops.core`. Every mechanism that the protocol rests on can be switched off (`Mechanism`), so that the tests can show that the model
notices.
"""

import enum
from collections.abc import Callable
from dataclasses import dataclass, replace

from cdc_ops.core.apply.apply_spec import ApplyMode, Landing
from cdc_ops.core.cursor.cursors import CursorValue
from cdc_ops.core.cursor.windows import Window, contains, next_window
from cdc_ops.core.operation.operation import Operation, OperationKind
from cdc_ops.core.operation.protocol.commit_record import CommitRecord
from cdc_ops.core.operation.protocol.ledger_and_lake import LedgerStatus, check_base, compare
from cdc_ops.core.operation.protocol.table_progress import SnapshotProgress
from cdc_ops.core.operation.protocol.table_state import (
    Phase,
    TableState,
    abandoned,
    adopted,
    committed,
    last_drawn,
    projected,
    rebuilt,
    rebuilt_from_data,
    scanned,
    unchanged,
)
from cdc_ops.core.operation.reads import CompareRead, WindowRead
from cdc_ops.core.operation.results import Outcome
from cdc_ops.core.pipeline.pipeline import Pipeline, SourceConfig, SourceKind, TableConfig, TargetConfig
from cdc_ops.core.pipeline.table_settings import TableSettings
from cdc_ops.core.reconcile.diff import CompareLevel, CompareSpec, DeleteGuard
from cdc_ops.errors import LeaseHeldError, LedgerBehindError, StaleStateError, StateError
from cdc_ops.steps.planning.late_rows import lookback_window, next_range_checksum, window_to_read
from cdc_ops.steps.table.source_table import SourceTable
from tests.operations import operation_with, with_fields
from tests.unit.protocol_places import (
    CURSOR,
    EPOCH,
    KEYS,
    LOOKBACK,
    PIPELINE,
    SCHEMA,
    TABLE,
    Lake,
    Ledger,
    Mechanism,
    Row,
    Source,
    number,
    position,
)

CHUNKS = ("0,1", "2", "3")


COMPARE = CompareSpec(strength=CompareLevel.WHOLE, buckets=None, readers=1, guard=DeleteGuard())


FACTS = SourceTable(
    pipeline=Pipeline(
        name=PIPELINE, source=SourceConfig(kind=SourceKind.MARIADB, connection=""), target=TargetConfig(root="", staging=""), tables=()
    ),
    config=TableConfig(pipeline=PIPELINE, table=TABLE, settings=TableSettings.of(lookback=LOOKBACK), path=""),
    schema=SCHEMA,
    keys=("k",),
    cursor=CURSOR,
    warnings=(),
)
"""The modelled table, as the real plan of the band wants it."""


class ViolationError(Exception):
    """The protocol broke one of its promises."""


class Verb(enum.Enum):
    """Where a worker stands."""

    PLAN = enum.auto()
    FREEZE = enum.auto()
    EXTRACT = enum.auto()
    STAGE = enum.auto()
    MERGE = enum.auto()
    COMMIT_READ = enum.auto()
    COMMIT_WRITE = enum.auto()
    DONE = enum.auto()


class Request(enum.StrEnum):
    """What a run is for."""

    INCREMENT = "increment"
    BACKFILL = "backfill"
    RANGE = "range"
    FULL = "full"
    RECONCILE = "reconcile"


@dataclass(slots=True)
class Worker:
    """One run at work; `copy.copy` makes its double: the same task of the same run, started twice."""

    holder: str
    request: Request
    since: int = 0
    until: int = 0
    verb: Verb = Verb.PLAN
    token: int = 0
    expected: TableState | None = None
    new: TableState | None = None
    settling: Operation | None = None
    planned: tuple[Operation, ...] = ()
    operations: tuple[Operation, ...] = ()
    batches: tuple[frozenset[Row], ...] = ()
    outcomes: tuple[Outcome, ...] = ()
    seals: tuple[Operation, ...] = ()


class World:
    """Everything together, and the promises that hold at every moment."""

    def __init__(self, off: frozenset[Mechanism] = frozenset()) -> None:
        self.off = off
        self.source = Source()
        self.lake = Lake(off)
        self.ledger = Ledger(off=off)
        self.staging: dict[str, frozenset[Row]] = {}
        self.workers: list[Worker] = []
        self.backup = self.ledger.copy()
        self.names = 0
        self.disturbed = False
        """Somebody lost, rewound or cleaned something: from now on the protocol may call an operator."""
        self.alarm = False
        self.absent_at_plan: dict[str, dict[int, int]] = {}
        self.purged: dict[int, int] = {}
        """Keys that a settled full resync or reconcile promised to have removed, with the time of their delete."""

    # ------------------------------------------------------------------------------------------------------------ what runs do

    def start(self, request: Request, holder: str, since: int = 0, until: int = 0) -> Worker:
        worker = Worker(holder=holder, request=request, since=since, until=until)
        self.workers.append(worker)
        return worker

    def step(self, worker: Worker) -> None:
        """Carries a worker one step on; errors of the protocol end the run, as they do in Airflow."""
        verbs: dict[Verb, Callable[[Worker], None]] = {
            Verb.PLAN: self._plan,
            Verb.FREEZE: self._freeze,
            Verb.EXTRACT: self._extract,
            Verb.STAGE: self._stage,
            Verb.MERGE: self._merge,
            Verb.COMMIT_READ: self._commit_read,
            Verb.COMMIT_WRITE: self._commit_write,
        }
        before = len(self.lake.commits)
        try:
            verbs[worker.verb](worker)
        except LeaseHeldError:
            return
        except StaleStateError:
            self._end(worker)
        except StateError as error:
            self._end(worker)
            self._raise_alarm(error)
        if len(self.lake.commits) > before:
            self._check_commit()
        self.check()
        if worker.verb is Verb.DONE:
            self.workers = [one for one in self.workers if one is not worker]

    def _raise_alarm(self, error: StateError) -> None:
        if not self.disturbed:
            raise ViolationError(f"an operator is called, and nothing was lost: {error}")
        self.alarm = True

    def _end(self, worker: Worker) -> None:
        self.ledger.release(worker.holder, worker.token)
        worker.verb = Verb.DONE

    def _standing(self) -> LedgerStatus:
        return compare(self.ledger.state, self.lake.head(), self.ledger.operations, self.ledger.abandoned_ids)

    def _next_settlement(self) -> tuple[TableState, Operation | None] | None:
        """What the ledger has to catch up with, one step of it."""
        state = self.ledger.state
        match self._standing():
            case LedgerStatus.EQUAL:
                return None
            case LedgerStatus.AHEAD_OURS:
                operation = self.ledger.operations[0]
                version = self.lake.find(operation.operation_id)
                if version is None and isinstance(operation.read, CompareRead):
                    return unchanged(state, operation), operation
                if version is None:
                    raise StateError(f"operation {operation.op_seq} must be in the lake, and its log does not show it")
                return committed(state, operation, version), operation
            case LedgerStatus.AHEAD_ABANDONED:
                head = self.lake.head()
                assert head is not None
                assert head.record is not None
                assert head.record_version is not None
                return adopted(state, head.record, head.record_version), None

    def _catch_up(self, token: int) -> None:
        while (found := self._next_settlement()) is not None:
            self._settle(token, self.ledger.state, *found)

    def _settle(self, token: int, expected: TableState, new: TableState, operation: Operation | None) -> None:
        done = operation is None or new.operation_id == operation.operation_id or Mechanism.UNCHANGED_MAY_COMMIT in self.off
        self.ledger.settle(token, expected, new, operation, done=done)
        if operation is not None and _purges(operation):
            self.purged |= self.absent_at_plan.get(operation.operation_id, {})

    def _plan(self, worker: Worker) -> None:
        worker.token = self.ledger.acquire(worker.holder)
        self._catch_up(worker.token)
        worker.expected = state = self.ledger.state
        unfinished = self.ledger.operations if Mechanism.RESUME not in self.off else ()
        if not unfinished or (worker.request is not Request.INCREMENT and len(unfinished) < 3):
            worker.planned = self._draft(worker, projected(state, unfinished))
        worker.operations = unfinished + worker.planned
        worker.seals = self.ledger.given_up
        worker.verb = Verb.FREEZE if worker.planned else Verb.EXTRACT
        if not worker.operations:
            self._end(worker)

    def _freeze(self, worker: Worker) -> None:
        assert worker.expected is not None
        self.ledger.freeze(worker.token, worker.expected, worker.planned)
        for operation in worker.planned:
            if _purges(operation):
                gone = {key: at for key, at in self.source.deleted_at.items() if key not in self.source.rows}
                self.absent_at_plan[operation.operation_id] = gone
        worker.verb = Verb.EXTRACT

    def _extract(self, worker: Worker) -> None:
        """Lands one operation; a complete landing is never redone, and a direct one is read again by each try.

        A comparison is read again, too: two extracts at the same time may find different rows, and here they always do.
        """
        operation = worker.operations[len(worker.batches)]
        if isinstance(operation.read, CompareRead) and Mechanism.SEALED not in self.off:
            self.lake.seal(worker.seals)
        if operation.apply.landing is Landing.STAGED and not isinstance(operation.read, CompareRead):
            batch = self.staging.setdefault(operation.operation_id, self.source.read(operation))
        else:
            batch = self.source.read(operation)
        worker.batches += (batch,)
        if len(worker.batches) == len(worker.operations):
            worker.verb = Verb.STAGE

    def _stage(self, worker: Worker) -> None:
        """Drops what the lake has already of the next operation's band; others may commit between this and the statement."""
        at = len(worker.outcomes)
        operation, batch = worker.operations[at], worker.batches[at]
        if isinstance(operation.read, WindowRead) and operation.read.lookback is not None:
            known = {row for row in self.lake.rows if contains(CURSOR, operation.read.lookback, position(row.cursor))}
            worker.batches = (*worker.batches[:at], batch - known, *worker.batches[at + 1 :])
        if (
            Mechanism.SEEN_BEFORE_READ in self.off
            and operation.after.seen is not None
            and operation.window is not None
            and operation.after.watermark
        ):
            seen = next_range_checksum(self.source, FACTS, operation.window, operation.after.watermark)  # type: ignore[arg-type]
            self._replace(worker, at, with_fields(operation, seen_after=seen))
        worker.verb = Verb.MERGE

    def _replace(self, worker: Worker, at: int, operation: Operation) -> None:
        worker.operations = (*worker.operations[:at], operation, *worker.operations[at + 1 :])
        self.ledger.operations = tuple(operation if one.operation_id == operation.operation_id else one for one in self.ledger.operations)

    def _merge(self, worker: Worker) -> None:
        at = len(worker.outcomes)
        operation, batch = worker.operations[at], worker.batches[at]
        if Mechanism.BOUND_AS_WATERMARK in self.off and operation.kind is OperationKind.INCREMENT and batch:
            operation = with_fields(operation, watermark_after=position(max(row.cursor for row in batch)))
            self._replace(worker, at, operation)
        worker.verb = Verb.COMMIT_READ
        if Mechanism.BASE_CHECK not in self.off:
            try:
                check_base(operation, self.lake.head())
            except StaleStateError:
                return
        outcome = Outcome.APPLIED
        if isinstance(operation.read, CompareRead) and frozenset(self.lake.rows) == batch and not self.lake.has(operation):
            outcome = Outcome.UNCHANGED
        elif self.lake.apply(operation, batch) is None:
            ours = Mechanism.IDENTITY_CHECK in self.off or self.lake.find(operation.operation_id) is not None
            outcome = Outcome.ALREADY_APPLIED if ours else Outcome.NUMBER_TAKEN
        elif isinstance(operation.read, CompareRead) and operation.operation_id in self.ledger.abandoned_ids:
            self._bring_back({row.key for row in batch})
        worker.outcomes += (outcome,)
        if outcome is not Outcome.NUMBER_TAKEN and len(worker.outcomes) < len(worker.operations):
            worker.verb = Verb.STAGE

    def _bring_back(self, keys: set[int]) -> None:
        """A double of a comparison that had found nothing has committed after all; another that finds nothing does not stop it.

        What it brings stays until the next comparison: docs/guarantees.md says so. Of a full resync nothing is taken back.
        """
        self.purged = {key: at for key, at in self.purged.items() if key not in keys}
        for operation in self.ledger.operations:
            if isinstance(operation.read, CompareRead):
                gone = self.absent_at_plan.get(operation.operation_id, {})
                self.absent_at_plan[operation.operation_id] = {key: at for key, at in gone.items() if key not in keys}

    def _commit_read(self, worker: Worker) -> None:
        worker.token = self.ledger.acquire(worker.holder)
        if Outcome.NUMBER_TAKEN in worker.outcomes:
            self._give_way(worker.token)
            self._end(worker)
            return
        found = self._next_settlement() if Mechanism.IDENTITY_CHECK not in self.off else self._believe(worker)
        found = found or self._nothing_to_do(worker)
        if found is None:
            self._end(worker)
            return
        worker.expected = self.ledger.state
        worker.new, worker.settling = found
        worker.verb = Verb.COMMIT_WRITE

    def _nothing_to_do(self, worker: Worker) -> tuple[TableState, Operation | None] | None:
        """The first open operation, if this worker has compared for it and found nothing."""
        reported = {operation.operation_id: outcome for operation, outcome in zip(worker.operations, worker.outcomes, strict=False)}
        for operation in self.ledger.operations[:1]:
            if reported.get(operation.operation_id) is Outcome.UNCHANGED:
                state = self.ledger.state
                burnt = Mechanism.UNCHANGED_IS_BURNT not in self.off
                return (unchanged(state, operation) if burnt else committed(state, operation, state.delta_version or 0)), operation
        return None

    def _believe(self, worker: Worker) -> tuple[TableState, Operation | None] | None:
        """What a commit step would do that takes Spark's word for it."""
        mine = {operation.operation_id for operation in worker.operations[: len(worker.outcomes)]}
        if self.ledger.operations and self.ledger.operations[0].operation_id in mine:
            operation = self.ledger.operations[0]
            return committed(self.ledger.state, operation, len(self.lake.commits) - 1), operation
        return None

    def _commit_write(self, worker: Worker) -> None:
        assert worker.expected is not None
        assert worker.new is not None
        self._settle(worker.token, worker.expected, worker.new, worker.settling)
        worker.verb = Verb.COMMIT_READ

    def _give_way(self, token: int) -> None:
        """The number is somebody else's: follow the table, unless the ledger does so already."""
        try:
            if Mechanism.GIVE_WAY_ONCE in self.off:
                return self._follow_table(token)
            self._catch_up(token)
        except LedgerBehindError:
            head = self.lake.head()
            if not self.disturbed or head is None or head.record is None:
                raise
            self._follow_table(token)

    # ------------------------------------------------------------------------------------------------------------- what is planned

    def _draft(self, worker: Worker, state: TableState) -> tuple[Operation, ...]:
        if worker.request is Request.INCREMENT:
            return self._snapshot(state) if state.progress.watermark is None else self._increment(worker, state, state.progress.watermark)
        if state.phase is not Phase.READY:
            return ()
        operation = self._spec(state, OperationKind.RESYNC)
        if worker.request is Request.FULL:
            return (with_fields(operation, generation=state.generation + 1, mode=ApplyMode.OVERWRITE, landing=Landing.DIRECT),)
        if worker.request is Request.RECONCILE:
            return (with_fields(operation, kind=OperationKind.RECONCILE, compare=COMPARE),)
        kind = OperationKind.BACKFILL if worker.request is Request.BACKFILL else OperationKind.RESYNC
        window = Window(low=position(worker.since), high=position(worker.until))
        moved = position(min(worker.until, self.source.clock)) if Mechanism.STILL_WATERMARK in self.off else operation.after.watermark
        return (with_fields(operation, kind=kind, window=window, watermark_after=moved),)

    def _snapshot(self, state: TableState) -> tuple[Operation, ...]:
        progress, seen = state.progress.snapshot, None
        if progress is None:
            progress = SnapshotProgress(bound=self.source.bound().value, done=0, total=len(CHUNKS), chunks=CHUNKS)
            if Mechanism.BAND not in self.off:
                seen = next_range_checksum(self.source, FACTS, Window(low=None, high=None), progress.bound)  # type: ignore[arg-type]
        generation = state.generation if progress.done else state.generation + 1
        specs = []
        for index in range(progress.done, progress.total):
            last = index + 1 == progress.total
            operation = with_fields(
                self._spec(state, OperationKind.SNAPSHOT_CHUNK, ahead=index - progress.done),
                generation=generation,
                mode=ApplyMode.APPEND,
                landing=Landing.DIRECT,
                slices=(progress.chunks[index],),
                snapshot_before=replace(progress, done=index) if index else None,
                snapshot_after=None if last else replace(progress, done=index + 1),
                watermark_after=progress.bound if last else None,
                seen_after=seen if last else None,
            )
            specs.append(operation)
        return tuple(specs)

    def _increment(self, worker: Worker, state: TableState, watermark: CursorValue) -> tuple[Operation, ...]:
        bound = self.source.bound()
        band: Window | None = None
        if Mechanism.BOUND_AS_WATERMARK in self.off:
            new = any(row.cursor > number(watermark) for row in self.source.rows.values())
            window = Window(low=watermark, high=None) if new else None
        else:
            window = next_window(CURSOR, watermark, bound)
            if Mechanism.BAND not in self.off:
                band = lookback_window(self.source, FACTS, watermark, state.progress.seen)  # type: ignore[arg-type]
        read = window_to_read(CURSOR, window, band, state.progress.seen) if window else None
        if window is None or read is None or not any(contains(CURSOR, read, position(row.cursor)) for row in self.source.rows.values()):
            self.ledger.settle(worker.token, state, scanned(state, bound.value, bound.observed_at), None, done=True)
            return ()
        operation = with_fields(self._spec(state, OperationKind.INCREMENT), window=window, watermark_after=window.high or watermark)
        if Mechanism.BAND in self.off or window.high is None:
            return (operation,)
        seen = next_range_checksum(self.source, FACTS, window, window.high)  # type: ignore[arg-type]
        return (with_fields(operation, slices=(self.source.window_predicate(CURSOR, read),), band=band, seen_after=seen),)

    def _spec(self, state: TableState, kind: OperationKind, ahead: int = 0) -> Operation:
        self.names += 1
        return operation_with(
            pipeline=PIPELINE,
            table=TABLE,
            op_seq=state.op_seq + 1 + ahead,
            operation_id=f"id{self.names}",
            run_id="run",
            kind=kind,
            generation=state.generation,
            planned_at=EPOCH,
            path="",
            staging="",
            schema=SCHEMA,
            keys=("k",),
            cursor=CURSOR,
            slices=(),
            mode=ApplyMode.MERGE,
            landing=Landing.STAGED,
            watermark_before=state.progress.watermark,
            snapshot_before=state.progress.snapshot,
            delta_version_before=state.delta_version,
            watermark_after=state.progress.watermark,
            snapshot_after=state.progress.snapshot,
        )

    # ------------------------------------------------------------------------------------------------------- what operators do

    def abandon(self) -> None:
        """Gives up the first unfinished operation, as a plan does after too many tries."""
        self.ledger.expire()
        token = self.ledger.acquire("operator")
        try:
            self._catch_up(token)
            if self.ledger.operations and not self.ledger.operations[0].kind.is_live:
                operation = self.ledger.operations[0]
                self.ledger.settle(token, self.ledger.state, abandoned(self.ledger.state, operation), operation, done=False)
                self.ledger.given_up += (operation,)
        except StateError as error:
            self._raise_alarm(error)
        finally:
            self.ledger.release("operator", token)

    def rebuild(self) -> None:
        """`cdc-ops state rebuild`, after the protocol has asked for it."""
        self.ledger.expire()
        token = self.ledger.acquire("operator")
        self._follow_table(token)
        self.ledger.release("operator", token)
        self.alarm = False

    def _follow_table(self, token: int) -> None:
        head, state = self.lake.head(), self.ledger.state
        assert head is not None
        taken, settled = head.txn_version, last_drawn(state, (operation.op_seq for operation in self.ledger.operations))
        if Mechanism.NUMBERS_STAY_USED in self.off:
            taken, settled = None, 0
        if head.record is not None:
            new = rebuilt(head.record, head.version, txn_version=taken, settled=settled)
        else:
            low = 0
            if Mechanism.GIVEN_LOW in self.off:
                low = max((row.cursor for row in self.lake.rows), default=0)
            new = rebuilt_from_data(PIPELINE, TABLE, head.txn_version or 0, position(low), delta_version=head.version, settled=settled)
        self.ledger.replace_state(token, new)

    def lose_ledger(self, instead: Ledger | None = None) -> None:
        self.ledger = instead.copy() if instead else Ledger(off=self.off)
        self._disturb()

    def restore_table(self, version: int, *, named: bool) -> None:
        self.lake.restore(version, named=named)
        self._disturb()

    def prune(self) -> None:
        """Maintenance commits, and the log forgets what is older; a RESTORE that nobody has looked at yet is not that old."""
        if self.lake.commits and (self.ledger.state.delta_version or 0) >= self.lake.last_restore:
            self.lake.optimize()
            self.lake.visible_from = len(self.lake.commits) - 1
            self._disturb()

    def _disturb(self) -> None:
        self.disturbed = True
        self.purged.clear()
        self.absent_at_plan.clear()

    # ----------------------------------------------------------------------------------------------------------- what is promised

    def check(self) -> None:
        """The promises of every moment: no row doubled, and no watermark, in lake or ledger, that claims a row which is not there."""
        keys = [row.key for row in self.lake.rows]
        if len(keys) != len(set(keys)):
            raise ViolationError(f"a row is doubled: {self.lake.rows}")
        head = self.lake.head()
        if head is not None and head.record is not None and head.record.progress.watermark is not None:
            self._check_claim("the lake", head.record.progress.watermark)
        state = self.ledger.state
        if state.progress.watermark is not None and self.lake.last_restore <= (state.delta_version or 0):
            self._check_claim("the ledger", state.progress.watermark)

    def _check_claim(self, who: str, watermark: CursorValue) -> None:
        have = {row.key: row.value for row in self.lake.rows}
        for row in self.source.promised(watermark):
            if have.get(row.key, -1) < row.value:
                raise ViolationError(f"{who} claims everything below {watermark}, but lacks {row}")

    def _check_commit(self) -> None:
        """The promises of every commit: numbers rise, ids come once, and only live operations move the watermark, never back."""
        records = [commit.record for commit in self.lake.commits if commit.record]
        newest = records[-1]
        if len(records) > 1 and newest.op_seq <= max(record.op_seq for record in records[:-1]):
            raise ViolationError(f"number {newest.op_seq} does not rise")
        if sum(record.operation_id == newest.operation_id for record in records) > 1:
            raise ViolationError(f"operation {newest.operation_id} was committed twice")
        before = self._record_before()
        if before is None or before.progress.watermark is None:
            return
        if newest.progress.watermark is None or number(newest.progress.watermark) < number(before.progress.watermark):
            raise ViolationError(f"the watermark went back from {before.progress.watermark} to {newest.progress.watermark}")
        if not newest.kind.is_live and newest.progress.watermark != before.progress.watermark:
            raise ViolationError(f"a {newest.kind} moved the watermark from {before.progress.watermark} to {newest.progress.watermark}")

    def _record_before(self) -> CommitRecord | None:
        newest = self.lake.commits.pop()
        head = self.lake.head() if self.lake.commits else None
        self.lake.commits.append(newest)
        return head.record if head else None

    def quiesce(self) -> None:
        """Lets everything finish, runs increments until there is nothing left, and compares the table with the source."""
        for key in list(self.source.open):
            self.source.finish(key)
        self.source.tick()
        for worker in list(self.workers):
            self._run(worker)
        for _ in range(12):
            if self.alarm:
                self.rebuild()
            before = (len(self.lake.commits), self.ledger.state)
            self._run(self.start(Request.INCREMENT, "last"))
            if not self.alarm and not self.ledger.operations and before == (len(self.lake.commits), self.ledger.state):
                break
        else:
            raise ViolationError(f"the table does not come to rest: {self.ledger}")
        self._check_equal()

    def _run(self, worker: Worker) -> None:
        for _ in range(60):
            if worker.verb is Verb.DONE:
                return
            self.ledger.expire()
            self.step(worker)
        raise ViolationError(f"a run does not end: {worker}")

    def _check_equal(self) -> None:
        have = {row.key: row for row in self.lake.rows}
        for key in KEYS:
            there, here = self.source.rows.get(key), have.get(key)
            if there is not None and here != there:
                raise ViolationError(f"the source has {there}, the table {here}")
            if there is None and here is not None and self.purged.get(key) == self.source.deleted_at[key]:
                raise ViolationError(f"{here} was deleted before a full resync or reconcile that succeeded, and is back")


def _purges(operation: Operation) -> bool:
    """True for operations after which no row is there that was deleted before their plan."""
    return operation.apply.mode is ApplyMode.OVERWRITE or isinstance(operation.read, CompareRead)
