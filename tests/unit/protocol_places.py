"""The places of the modelled world: a source, a Delta table and a ledger, and the mechanisms that can be switched off in them."""

import enum
import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from cdc_ops.core import json_codec
from cdc_ops.core.apply.apply_spec import ApplyMode
from cdc_ops.core.cursor.cursors import Cursor, CursorColumn, CursorType, CursorValue, format_datetime
from cdc_ops.core.cursor.windows import SafeBound, Window, contains
from cdc_ops.core.operation.operation import Operation, OperationKind, app_id
from cdc_ops.core.operation.protocol.commit_record import CommitRecord, ForeignChange, LakeHead, commit_record
from cdc_ops.core.operation.protocol.table_state import TableState
from cdc_ops.core.operation.reads import CompareRead
from cdc_ops.core.schema.tables import TableName, TableSchema
from cdc_ops.errors import LeaseHeldError, StaleStateError
from tests.operations import changed

PIPELINE = "p"
TABLE = TableName(schema="s", name="t")
CURSOR = Cursor(columns=(CursorColumn(name="c", type=CursorType.DATETIME, precision=6),))
SCHEMA = TableSchema(table=TABLE, columns=(), primary_key=("k",))
EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
KEYS = range(4)
BAND = 3
"""Ticks of the clock after which a row is visible at the latest, whoever stamped it; the lookback of the modelled table."""
LOOKBACK = timedelta(microseconds=BAND)
_ORIGIN = datetime(2026, 1, 1)


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
    GIVE_WAY_ONCE = "who finds its number taken rebuilds the ledger only if that is really behind"
    UNCHANGED_IS_BURNT = "an operation that ended without a commit is not taken for a committed one"
    UNCHANGED_MAY_COMMIT = "a double of an operation that ended without a commit may still commit, and is known then"
    SEALED = "before a comparison looks at the table, it takes the number of what was given up"
    BAND = "the band below the watermark is looked at again"
    SEEN_BEFORE_READ = "what a plan saw of the band is taken before its operation reads"
    GIVEN_LOW = "without records, the watermark is somebody's decision and not MAX(cursor) of the table"


@dataclass(frozen=True, slots=True, order=True)
class Row:
    """A row version; `value` grows with every write of the world."""

    key: int
    cursor: int
    value: int


def position(at: int) -> CursorValue:
    """A tick of the clock as a cursor value."""
    return CursorValue(parts=(format_datetime(_ORIGIN + timedelta(microseconds=at)),))


def number(at: CursorValue) -> int:
    return CURSOR.order(at)[0] - (_ORIGIN - datetime.min) // timedelta(microseconds=1)


class Source:
    """Keyed rows, each with the cursor of its last write; a transaction may commit later than others that began after it.

    Some writers are `unseen`: the bound does not count them. Their rows are visible `BAND` ticks later at the latest. None of them changes
    a row within the tick, a microsecond, of its last change: a checksum over keys and cursors could not tell the two.
    """

    def __init__(self) -> None:
        self.clock = 1
        self.values = 0
        self.rows: dict[int, Row] = {}
        self.open: dict[int, Row] = {}
        self.unseen: set[Row] = set()
        self.deleted_at: dict[int, int] = {}

    def write(self, key: int, *, tick: bool, late: bool, unseen: bool = False) -> None:
        if key in self.open:
            return
        if tick or (unseen and key in self.rows and self.rows[key].cursor == self.clock):
            self.tick()
        self.values += 1
        row = Row(key, self.clock, self.values)
        if unseen:
            self.unseen.add(row)
        if late:
            self.open[key] = row
        else:
            self._commit(row)

    def tick(self) -> None:
        self.clock += 1
        for row in list(self.open.values()):
            if row in self.unseen and row.cursor <= self.clock - BAND:
                self.finish(row.key)

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
        safe = min((row.cursor for row in self.open.values() if row not in self.unseen), default=self.clock)
        return SafeBound(value=position(safe), clock=position(self.clock), method="oldest-writer", observed_at=EPOCH)

    def read(self, operation: Operation) -> frozenset[Row]:
        rows: Iterable[Row] = self.rows.values()
        if operation.kind is OperationKind.SNAPSHOT_CHUNK:
            keys = {int(key) for key in operation.slices[0].split(",")}
            return frozenset(row for row in rows if row.key in keys)
        window = json_codec.loads(Window, operation.slices[0]) if operation.slices else operation.window
        return frozenset(row for row in rows if window is None or contains(CURSOR, window, position(row.cursor)))

    def window_predicate(self, cursor: Cursor, window: Window) -> str:
        return json_codec.dumps(window)

    def checksum(self, table: TableName, expressions: tuple[str, ...], where: str) -> tuple[int, str]:
        window = json_codec.loads(Window, where)
        found = sorted((row.key, row.cursor) for row in self.rows.values() if contains(CURSOR, window, position(row.cursor)))
        return len(found), hashlib.sha256(repr(found).encode()).hexdigest()

    def promised(self, watermark: CursorValue) -> list[Row]:
        """The rows that a table with this watermark must have at least; a row that has moved on comes with a later window.

        What an unseen writer wrote is promised for later.
        """
        limit = number(watermark)
        return [row for row in self.rows.values() if row.cursor < limit and row not in self.unseen]


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

    def apply(self, operation: Operation, batch: frozenset[Row]) -> int | None:
        """One statement, one commit; returns its version, None if Delta skips it."""
        if self.has(operation):
            return None
        app = self.app_id(operation.generation)
        replaced = {row.key for row in batch}
        match operation.apply.mode:
            case _ if isinstance(operation.read, CompareRead):
                kept = ()  # what the read has not brought is deleted
            case ApplyMode.APPEND:
                kept = self.rows
            case ApplyMode.MERGE:
                kept = tuple(row for row in self.rows if row.key not in replaced)
            case ApplyMode.OVERWRITE:
                kept = ()
        record = commit_record(operation, rows=len(batch), package_version="0")
        self.commits.append(DeltaCommit(rows=tuple(sorted((*kept, *batch))), record=record))
        self.txns[app] = operation.op_seq
        return len(self.commits) - 1

    def has(self, operation: Operation) -> bool:
        """True if Delta would skip an operation."""
        return self.txns.get(self.app_id(operation.generation), 0) >= operation.op_seq and Mechanism.TXN_CHECK not in self.off

    def seal(self, given_up: tuple[Operation, ...]) -> None:
        """Takes the number of the last operation that was given up, without rows, as `lake.table.fence` does."""
        head = self.head()
        if given_up and head is not None and head.record is not None and not self.has(given_up[-1]):
            last = given_up[-1]
            record = changed(head.record, op_seq=last.op_seq, operation_id=last.operation_id, kind=last.kind)
            self.commits.append(DeltaCommit(rows=self.rows, record=record))
            self.txns[self.app_id(last.generation)] = last.op_seq

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
    """The ledger of one table, with the semantics of `cdc_ops.state.base.StateStore`; losing it also starts its lease tokens again."""

    off: frozenset[Mechanism]
    state: TableState = field(default_factory=lambda: TableState(pipeline=PIPELINE, table=TABLE))
    operations: tuple[Operation, ...] = ()
    abandoned_ids: frozenset[str] = frozenset()
    given_up: tuple[Operation, ...] = ()
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

    def freeze(self, token: int, expected: TableState, operations: tuple[Operation, ...]) -> None:
        self._check_lease(token)
        last = self.operations[-1].op_seq if self.operations else self.state.op_seq
        if Mechanism.RESUME in self.off:
            self.operations = operations
            return
        if self.state != expected or operations[0].op_seq != last + 1:
            raise StaleStateError("the plan does not follow the ledger")
        self.operations += operations

    def settle(self, token: int, expected: TableState, new: TableState, operation: Operation | None, *, done: bool) -> None:
        self._check_lease(token)
        if self.state != expected and Mechanism.COMPARE_AND_SET not in self.off:
            raise StaleStateError("the state is not the expected one")
        self.state = new
        if operation is not None:
            self.operations = tuple(one for one in self.operations if one.operation_id != operation.operation_id)
            if not done:
                self.abandoned_ids |= {operation.operation_id}

    def replace_state(self, token: int, new: TableState) -> None:
        self._check_lease(token)
        self.state, self.operations = new, ()
