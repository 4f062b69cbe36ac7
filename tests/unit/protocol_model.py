"""A small world in which the commit protocol runs: a source, a Delta table, a ledger, and workers that die, stall and come back.

Only the surroundings are modelled. Whatever the protocol decides, it decides with the functions of `cdc_ops.core`. Every mechanism that the
protocol rests on can be switched off (`Mechanism`), so that the tests can show that the model notices.
"""

import enum
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from cdc_ops.core.cursors import Cursor, CursorColumn, CursorType, CursorValue
from cdc_ops.core.operations import (
    ApplyMode,
    CommitRecord,
    ForeignChange,
    LakeHead,
    Landing,
    OperationKind,
    OperationSpec,
    Outcome,
    SnapshotProgress,
    app_id,
    commit_record,
)
from cdc_ops.core.runs import (
    Phase,
    Standing,
    TableState,
    abandoned,
    adopted,
    check_base,
    committed,
    compare,
    projected,
    rebuilt,
    rebuilt_from_data,
    scanned,
)
from cdc_ops.core.tables import TableName, TableSchema
from cdc_ops.core.windows import SafeBound, Window, contains, next_window
from cdc_ops.errors import LeaseHeldError, LedgerBehindError, StaleStateError, StateError

PIPELINE = "p"
TABLE = TableName(schema="s", name="t")
CURSOR = Cursor(columns=(CursorColumn(name="c", type=CursorType.INTEGER),))
SCHEMA = TableSchema(table=TABLE, columns=(), primary_key=("k",))
EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
KEYS = range(4)
CHUNKS = ("0,1", "2", "3")


class ViolationError(Exception):
    """The protocol broke one of its promises."""


class Mechanism(enum.StrEnum):
    """What the protocol rests on; a world without one of these has to break."""

    TXN_CHECK = "Delta skips a number that the table already has"
    IDENTITY_CHECK = "after a skip, the commit's operation_id is compared"
    RESUME = "an unfinished operation is resumed, not planned over"
    ONE_APP_ID = "the appId is the same for all generations"
    COMPARE_AND_SET = "the ledger settles only from the expected state"
    BOUND_AS_WATERMARK = "the watermark is the safe bound, not MAX(cursor) of the data"
    STILL_WATERMARK = "a backfill leaves the watermark alone"
    BASE_CHECK = "an operation is applied only where its plan found the table"
    RESTORE_SEEN = "a RESTORE is followed back to what it restored"
    NUMBERS_STAY_USED = "a rebuilt ledger starts behind the largest number that the log has seen"
    GIVEN_LOW = "without records, the watermark is somebody's decision and not MAX(cursor) of the table"


@dataclass(frozen=True, slots=True, order=True)
class Row:
    """A row version; `value` grows with every write of the world."""

    key: int
    cursor: int
    value: int


def position(at: int) -> CursorValue:
    return CursorValue(parts=(str(at),))


def number(at: CursorValue) -> int:
    return CURSOR.order(at)[0]


class Source:
    """Keyed rows, each with the cursor of its last write; a transaction may commit later than others that began after it."""

    def __init__(self) -> None:
        self.clock = 1
        self.values = 0
        self.rows: dict[int, Row] = {}
        self.open: dict[int, Row] = {}
        self.deleted_at: dict[int, int] = {}

    def write(self, key: int, *, tick: bool, late: bool) -> None:
        if key in self.open:
            return
        self.clock += tick
        self.values += 1
        row = Row(key, self.clock, self.values)
        if late:
            self.open[key] = row
        else:
            self._commit(row)

    def finish(self, key: int) -> None:
        if row := self.open.pop(key, None):
            self._commit(row)

    def delete(self, key: int) -> None:
        if key in self.rows and key not in self.open:
            del self.rows[key]
            self.deleted_at[key] = self.values

    def _commit(self, row: Row) -> None:
        self.rows[row.key] = row

    def bound(self) -> SafeBound:
        """Nothing can still commit below the oldest open writer; new writers take the clock, which the bound excludes."""
        safe = min((row.cursor for row in self.open.values()), default=self.clock)
        return SafeBound(value=position(safe), clock=position(self.clock), method="oldest-writer", observed_at=EPOCH)

    def read(self, spec: OperationSpec) -> frozenset[Row]:
        rows: Iterable[Row] = self.rows.values()
        if spec.kind is OperationKind.SNAPSHOT_CHUNK:
            keys = {int(key) for key in spec.slices[0].split(",")}
            return frozenset(row for row in rows if row.key in keys)
        window = spec.window
        return frozenset(row for row in rows if window is None or contains(CURSOR, window, position(row.cursor)))

    def promised(self, watermark: CursorValue) -> list[Row]:
        """The rows that a table with this watermark must have at least; a row that has moved on comes with a later window."""
        limit = number(watermark)
        return [row for row in self.rows.values() if row.cursor < limit]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaCommit:
    """One version of the table."""

    rows: tuple[Row, ...]
    record: CommitRecord | None = None
    restore: bool = False
    restored_to: int | None = None


class Lake:
    """One Delta table: versions, transaction numbers, RESTORE, and a log that forgets."""

    def __init__(self, off: frozenset[Mechanism]) -> None:
        self.off = off
        self.commits: list[DeltaCommit] = []
        self.txns: dict[str, int] = {}
        self.visible_from = 0
        self.last_restore = -1

    @property
    def rows(self) -> tuple[Row, ...]:
        return self.commits[-1].rows if self.commits else ()

    def app_id(self, generation: int) -> str:
        name = app_id(PIPELINE, TABLE)
        return name if Mechanism.ONE_APP_ID not in self.off else f"{name}/{generation}"

    def apply(self, spec: OperationSpec, batch: frozenset[Row]) -> int | None:
        """One statement, one commit; returns its version, None if Delta skips it."""
        app = self.app_id(spec.generation)
        if self.txns.get(app, 0) >= spec.op_seq and Mechanism.TXN_CHECK not in self.off:
            return None
        replaced = {row.key for row in batch}
        match spec.mode:
            case ApplyMode.APPEND:
                kept = self.rows
            case ApplyMode.MERGE:
                kept = tuple(row for row in self.rows if row.key not in replaced)
            case ApplyMode.OVERWRITE:
                kept = ()
        record = commit_record(spec, rows=len(batch), package_version="0")
        self.commits.append(DeltaCommit(rows=tuple(sorted((*kept, *batch))), record=record))
        self.txns[app] = spec.op_seq
        return len(self.commits) - 1

    def find(self, operation_id: str) -> int | None:
        for version in range(len(self.commits) - 1, self.visible_from - 1, -1):
            record = self.commits[version].record
            if record is not None and record.operation_id == operation_id:
                return version
        return None

    def restore(self, version: int, *, named: bool) -> None:
        """RESTORE brings rows back, and neither txn nor record; a target given as a timestamp is not named in the log."""
        target = version if named else None
        self.commits.append(DeltaCommit(rows=self.commits[version].rows, restore=True, restored_to=target))
        self.last_restore = len(self.commits) - 1

    def optimize(self) -> None:
        self.commits.append(DeltaCommit(rows=self.rows))

    def head(self) -> LakeHead | None:
        if not self.commits:
            return None
        at, changes = self._in_force()
        record = self.commits[at].record if at is not None else None
        newest = record or next((commit.record for commit in reversed(self.commits) if commit.record), None)
        return LakeHead(
            version=len(self.commits) - 1,
            txn_version=self.txns.get(self.app_id(newest.generation)) if newest else None,
            record=record,
            record_version=at,
            foreign_app_ids=(),
            columns=(),
            foreign_changes=changes,
        )

    def _in_force(self) -> tuple[int | None, tuple[ForeignChange, ...]]:
        """The version whose record the rows stand for, and the RESTOREs on the way to it."""
        at = len(self.commits) - 1
        changes: list[ForeignChange] = []
        while at >= self.visible_from:
            commit = self.commits[at]
            if commit.record is not None:
                return at, tuple(changes)
            if commit.restore and Mechanism.RESTORE_SEEN not in self.off:
                changes.append(ForeignChange(version=at, operation="RESTORE"))
                if commit.restored_to is None:
                    return None, tuple(changes)
                at = commit.restored_to + 1
            at -= 1
        return None, tuple(changes)


@dataclass(slots=True)
class Ledger:
    """The ledger of one table, with the semantics of `cdc_ops.state.base.StateStore`; losing it starts its lease tokens anew, too."""

    off: frozenset[Mechanism]
    state: TableState = field(default_factory=lambda: TableState(pipeline=PIPELINE, table=TABLE))
    operations: tuple[OperationSpec, ...] = ()
    abandoned_ids: frozenset[str] = frozenset()
    holder: str = ""
    token: int = 0

    def copy(self) -> "Ledger":
        return replace(self)

    def acquire(self, holder: str) -> int:
        if self.holder and self.holder != holder:
            raise LeaseHeldError(f"{self.holder} holds the table")
        if self.holder != holder:
            self.holder, self.token = holder, self.token + 1
        return self.token

    def expire(self) -> None:
        self.holder = ""

    def release(self, holder: str, token: int) -> None:
        if (self.holder, self.token) == (holder, token):
            self.holder = ""

    def _check_lease(self, token: int) -> None:
        # An expired lease that nobody has taken is still good here: the proof must not need the clock.
        if self.token != token:
            raise StaleStateError("the lease is lost")

    def freeze(self, token: int, expected: TableState, operations: tuple[OperationSpec, ...]) -> None:
        self._check_lease(token)
        last = self.operations[-1].op_seq if self.operations else self.state.op_seq
        if Mechanism.RESUME in self.off:
            self.operations = operations
            return
        if self.state != expected or operations[0].op_seq != last + 1:
            raise StaleStateError("the plan does not follow the ledger")
        self.operations += operations

    def settle(self, token: int, expected: TableState, new: TableState, spec: OperationSpec | None, *, done: bool) -> None:
        self._check_lease(token)
        if self.state != expected and Mechanism.COMPARE_AND_SET not in self.off:
            raise StaleStateError("the state is not the expected one")
        self.state = new
        if spec is not None:
            self.operations = tuple(one for one in self.operations if one.operation_id != spec.operation_id)
            if not done:
                self.abandoned_ids |= {spec.operation_id}

    def replace_state(self, token: int, new: TableState) -> None:
        self._check_lease(token)
        self.state, self.operations = new, ()


class Verb(enum.Enum):
    """Where a worker stands."""

    PLAN = enum.auto()
    FREEZE = enum.auto()
    EXTRACT = enum.auto()
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
    settling: OperationSpec | None = None
    planned: tuple[OperationSpec, ...] = ()
    operations: tuple[OperationSpec, ...] = ()
    batches: tuple[frozenset[Row], ...] = ()
    outcomes: tuple[Outcome, ...] = ()


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
        """Keys that a settled full resync promised to have removed, with the time of their delete."""

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

    def _standing(self) -> Standing:
        return compare(self.ledger.state, self.lake.head(), self.ledger.operations, self.ledger.abandoned_ids)

    def _next_settlement(self) -> tuple[TableState, OperationSpec | None] | None:
        """What the ledger has to catch up with, one step of it."""
        state = self.ledger.state
        match self._standing():
            case Standing.EQUAL:
                return None
            case Standing.AHEAD_OURS:
                spec = self.ledger.operations[0]
                version = self.lake.find(spec.operation_id)
                if version is None:
                    raise StateError(f"operation {spec.op_seq} must be in the lake, and its log does not show it")
                return committed(state, spec, version), spec
            case Standing.AHEAD_ABANDONED:
                head = self.lake.head()
                assert head is not None
                assert head.record is not None
                assert head.record_version is not None
                return adopted(state, head.record, head.record_version), None

    def _catch_up(self, token: int) -> None:
        while (found := self._next_settlement()) is not None:
            self._settle(token, self.ledger.state, *found)

    def _settle(self, token: int, expected: TableState, new: TableState, spec: OperationSpec | None) -> None:
        self.ledger.settle(token, expected, new, spec, done=True)
        if spec is not None and spec.mode is ApplyMode.OVERWRITE:
            self.purged |= self.absent_at_plan.get(spec.operation_id, {})

    def _plan(self, worker: Worker) -> None:
        worker.token = self.ledger.acquire(worker.holder)
        self._catch_up(worker.token)
        worker.expected = state = self.ledger.state
        unfinished = self.ledger.operations if Mechanism.RESUME not in self.off else ()
        if not unfinished or (worker.request is not Request.INCREMENT and len(unfinished) < 3):
            worker.planned = self._draft(worker, projected(state, unfinished))
        worker.operations = unfinished + worker.planned
        worker.verb = Verb.FREEZE if worker.planned else Verb.EXTRACT
        if not worker.operations:
            self._end(worker)

    def _freeze(self, worker: Worker) -> None:
        assert worker.expected is not None
        self.ledger.freeze(worker.token, worker.expected, worker.planned)
        for spec in worker.planned:
            if spec.mode is ApplyMode.OVERWRITE:
                gone = {key: at for key, at in self.source.deleted_at.items() if key not in self.source.rows}
                self.absent_at_plan[spec.operation_id] = gone
        worker.verb = Verb.EXTRACT

    def _extract(self, worker: Worker) -> None:
        """Lands one operation; a complete landing is never redone, and a direct one is read anew by each try."""
        spec = worker.operations[len(worker.batches)]
        if spec.landing is Landing.STAGED:
            batch = self.staging.setdefault(spec.operation_id, self.source.read(spec))
        else:
            batch = self.source.read(spec)
        worker.batches += (batch,)
        if len(worker.batches) == len(worker.operations):
            worker.verb = Verb.MERGE

    def _merge(self, worker: Worker) -> None:
        at = len(worker.outcomes)
        spec, batch = worker.operations[at], worker.batches[at]
        if Mechanism.BOUND_AS_WATERMARK in self.off and spec.kind is OperationKind.INCREMENT and batch:
            spec = replace(spec, watermark_after=position(max(row.cursor for row in batch)))
            worker.operations = (*worker.operations[:at], spec, *worker.operations[at + 1 :])
            self.ledger.operations = tuple(spec if one.operation_id == spec.operation_id else one for one in self.ledger.operations)
        worker.verb = Verb.COMMIT_READ
        if Mechanism.BASE_CHECK not in self.off:
            try:
                check_base(spec, self.lake.head())
            except StaleStateError:
                return
        outcome = Outcome.APPLIED
        if self.lake.apply(spec, batch) is None:
            ours = Mechanism.IDENTITY_CHECK in self.off or self.lake.find(spec.operation_id) is not None
            outcome = Outcome.ALREADY_APPLIED if ours else Outcome.NUMBER_TAKEN
        worker.outcomes += (outcome,)
        if outcome is not Outcome.NUMBER_TAKEN and len(worker.outcomes) < len(worker.operations):
            worker.verb = Verb.MERGE

    def _commit_read(self, worker: Worker) -> None:
        worker.token = self.ledger.acquire(worker.holder)
        if Outcome.NUMBER_TAKEN in worker.outcomes:
            self._give_way(worker.token)
            self._end(worker)
            return
        found = self._next_settlement() if Mechanism.IDENTITY_CHECK not in self.off else self._believe(worker)
        if found is None:
            self._end(worker)
            return
        worker.expected = self.ledger.state
        worker.new, worker.settling = found
        worker.verb = Verb.COMMIT_WRITE

    def _believe(self, worker: Worker) -> tuple[TableState, OperationSpec | None] | None:
        """What a commit step would do that takes Spark's word for it."""
        mine = {spec.operation_id for spec in worker.operations[: len(worker.outcomes)]}
        if self.ledger.operations and self.ledger.operations[0].operation_id in mine:
            spec = self.ledger.operations[0]
            return committed(self.ledger.state, spec, len(self.lake.commits) - 1), spec
        return None

    def _commit_write(self, worker: Worker) -> None:
        assert worker.expected is not None
        assert worker.new is not None
        self._settle(worker.token, worker.expected, worker.new, worker.settling)
        worker.verb = Verb.COMMIT_READ

    def _give_way(self, token: int) -> None:
        """The number is somebody else's: follow the table, unless the ledger does so already."""
        try:
            self._catch_up(token)
        except LedgerBehindError:
            head = self.lake.head()
            if not self.disturbed or head is None or head.record is None:
                raise
            self._follow_table(token)

    # ------------------------------------------------------------------------------------------------------------- what is planned

    def _draft(self, worker: Worker, state: TableState) -> tuple[OperationSpec, ...]:
        if worker.request is Request.INCREMENT:
            return self._snapshot(state) if state.watermark is None else self._increment(worker, state, state.watermark)
        if state.phase is not Phase.READY:
            return ()
        spec = self._spec(state, OperationKind.RESYNC)
        if worker.request is Request.FULL:
            return (replace(spec, generation=state.generation + 1, mode=ApplyMode.OVERWRITE, landing=Landing.DIRECT),)
        kind = OperationKind.BACKFILL if worker.request is Request.BACKFILL else OperationKind.RESYNC
        window = Window(low=position(worker.since), high=position(worker.until))
        moved = position(min(worker.until, self.source.clock)) if Mechanism.STILL_WATERMARK in self.off else spec.watermark_after
        return (replace(spec, kind=kind, window=window, watermark_after=moved),)

    def _snapshot(self, state: TableState) -> tuple[OperationSpec, ...]:
        progress = state.snapshot or SnapshotProgress(bound=self.source.bound().value, done=0, total=len(CHUNKS), chunks=CHUNKS)
        generation = state.generation if progress.done else state.generation + 1
        specs = []
        for index in range(progress.done, progress.total):
            last = index + 1 == progress.total
            spec = replace(
                self._spec(state, OperationKind.SNAPSHOT_CHUNK, ahead=index - progress.done),
                generation=generation,
                mode=ApplyMode.APPEND,
                landing=Landing.DIRECT,
                slices=(progress.chunks[index],),
                snapshot_before=replace(progress, done=index) if index else None,
                snapshot_after=None if last else replace(progress, done=index + 1),
                watermark_after=progress.bound if last else None,
            )
            specs.append(spec)
        return tuple(specs)

    def _increment(self, worker: Worker, state: TableState, watermark: CursorValue) -> tuple[OperationSpec, ...]:
        bound = self.source.bound()
        if Mechanism.BOUND_AS_WATERMARK in self.off:
            new = any(row.cursor > number(watermark) for row in self.source.rows.values())
            window = Window(low=watermark, high=None) if new else None
        else:
            window = next_window(CURSOR, watermark, bound)
        if window is None or not any(contains(CURSOR, window, position(row.cursor)) for row in self.source.rows.values()):
            self.ledger.settle(worker.token, state, scanned(state, bound.value, bound.observed_at), None, done=True)
            return ()
        return (replace(self._spec(state, OperationKind.INCREMENT), window=window, watermark_after=window.high or watermark),)

    def _spec(self, state: TableState, kind: OperationKind, ahead: int = 0) -> OperationSpec:
        self.names += 1
        return OperationSpec(
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
            watermark_before=state.watermark,
            snapshot_before=state.snapshot,
            delta_version_before=state.delta_version,
            watermark_after=state.watermark,
            snapshot_after=state.snapshot,
        )

    # ------------------------------------------------------------------------------------------------------- what operators do

    def abandon(self) -> None:
        """Gives up the first unfinished operation, as a plan does after too many tries."""
        self.ledger.expire()
        token = self.ledger.acquire("operator")
        try:
            self._catch_up(token)
            if self.ledger.operations and not self.ledger.operations[0].kind.is_live:
                spec = self.ledger.operations[0]
                self.ledger.settle(token, self.ledger.state, abandoned(self.ledger.state, spec), spec, done=False)
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
        taken, settled = head.txn_version, state.op_seq
        if Mechanism.NUMBERS_STAY_USED in self.off:
            taken, settled = None, 0
        if head.record is not None:
            new = rebuilt(head.record, head.version, txn_version=taken, settled=settled)
        else:
            low = 0
            if Mechanism.GIVEN_LOW in self.off:
                low = max((row.cursor for row in self.lake.rows), default=0)
            new = rebuilt_from_data(PIPELINE, TABLE, head.txn_version or 0, position(low), delta_version=head.version, settled=state.op_seq)
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
        if head is not None and head.record is not None and head.record.watermark is not None:
            self._check_claim("the lake", head.record.watermark)
        state = self.ledger.state
        if state.watermark is not None and self.lake.last_restore <= (state.delta_version or 0):
            self._check_claim("the ledger", state.watermark)

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
        if before is None or before.watermark is None:
            return
        if newest.watermark is None or number(newest.watermark) < number(before.watermark):
            raise ViolationError(f"the watermark went back from {before.watermark} to {newest.watermark}")
        if not newest.kind.is_live and newest.watermark != before.watermark:
            raise ViolationError(f"a {newest.kind} moved the watermark from {before.watermark} to {newest.watermark}")

    def _record_before(self) -> CommitRecord | None:
        newest = self.lake.commits.pop()
        head = self.lake.head() if self.lake.commits else None
        self.lake.commits.append(newest)
        return head.record if head else None

    def quiesce(self) -> None:
        """Lets everything finish, runs increments until there is nothing left, and compares the table with the source."""
        for key in list(self.source.open):
            self.source.finish(key)
        self.source.clock += 1
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
                raise ViolationError(f"{here} was deleted before a full resync that succeeded, and is back")
