"""What one file comes to for one table: its envelopes are typed, counted and written, some thousand at a time."""

import itertools
from base64 import b64encode
from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cdc_ops.core.events.format_spec import WHOLE_ROW, EventOperation, RecordKind
from cdc_ops.events.change import NAMES, ChangeBatch, ChangeTypes, empty_batch
from cdc_ops.events.conversion.values import ValueTooLargeError
from cdc_ops.events.fold.arrays import Bools, Int64s
from cdc_ops.events.fold.places import places_of
from cdc_ops.events.format import Format
from cdc_ops.events.images import take_apart
from cdc_ops.events.places import Place, place_maker
from cdc_ops.events.record import NOT_UTF8, Envelope, Record
from cdc_ops.events.registry import spec_of
from cdc_ops.events.renames import renamer
from cdc_ops.events.scan.facts import Drift, FoundStatement, Order, ShownRecord, TableFacts
from cdc_ops.events.scan.parts import ChangeParts, Parts
from cdc_ops.events.scan.request import FileTask, TableTask
from cdc_ops.events.scan.statements import statement_finder
from cdc_ops.events.table import TableReader

_BATCH: Final = 4096
_SHOWN: Final = 5
_EPOCH: Final = datetime(1970, 1, 1)
_NEVER: Final = -(2**63)
"""Stands for no moment."""
_READ, _TRUNCATE = EventOperation.READ.value, EventOperation.TRUNCATE.value
_SET_ASIDE: Final = (RecordKind.BAD, RecordKind.UNKNOWN)


class TableScan:
    """One file on its way into one table.

    Args:
        form: The format, opened.
        task: What is wanted of the table.
        file: The file.
        neighbours: Tables that are read at once, this one with them: each holds so much less in memory.
    """

    def __init__(self, form: Format, task: TableTask, file: FileTask, neighbours: int = 1) -> None:
        self.task, self.file, self.spec = task, file, form.spec
        self._reader = TableReader(form, task.schema, task.keys, before=task.keeps_all)
        self._rename = renamer(form.spec, task.schema, task.renamed, task.renamings)
        self._changes = ChangeParts(task.changes, file.path, task.buckets, neighbours)
        self._feed = Parts(task.feed, "feed", file.path, neighbours)
        self._seen = _Seen(form, task, file)
        self._records: list[Record] = []
        self._envelopes: list[Envelope] = []
        self.too_large = ""
        """Names the column that does not hold a value and can be widened, "" if there is none: nothing is read for the table then."""

    @property
    def name(self) -> tuple[str, str]:
        """Schema and name of the table."""
        return self.task.schema.table.schema, self.task.schema.table.name

    def add(self, record: Record, envelope: Envelope) -> None:
        """Takes what a record says of this table, of none, or of one that is unknown; `settle` is to follow."""
        if self._rename is not None:
            take_apart([envelope])
            self._rename(envelope)
        self._records.append(record)
        self._envelopes.append(envelope)

    def settle(self) -> None:
        """Reads what was taken, once it is enough."""
        if len(self._records) >= _BATCH:
            self.read()

    def add_unknown(self, record: Record, envelope: Envelope) -> None:
        """Takes a record of a table that nobody knows."""
        name = f"{envelope.schema}.{envelope.table}" if envelope.schema else envelope.table
        reason = f"the record is of table {name}, which the pipeline file does not name"
        place = (envelope.schema, envelope.table)
        self.add(record, Envelope(RecordKind.UNKNOWN, envelope.position, None, *place, reason=reason))

    def add_changes(self, batch: ChangeBatch) -> None:
        """Takes rows that are typed already."""
        self._seen.add(batch)
        changes = _applied(batch, moves_leave=self.task.moves_leave)
        if changes is not None:
            self._changes.add(changes)
        self._feed.add(_kept(batch, self.task))

    def add_plain(self, changes: pa.Table, moments: npt.NDArray[np.int64]) -> None:
        """Takes whole rows and deletes that are typed already, with the columns of `_applied`.

        Args:
            changes: The rows.
            moments: When the source made each: microseconds since 1970.
        """
        self._seen.add_plain(changes, moments)
        self._changes.add(changes)

    def finish(self) -> TableFacts:
        """Writes what is left, and tells what the file shows."""
        self.read()
        self._changes.flush()
        self._feed.flush()
        return self._seen.facts(self._changes, self._feed)

    def read(self) -> None:
        """Reads what was taken."""
        records, envelopes = self._records, self._envelopes
        self._records, self._envelopes = [], []
        if not records or self.too_large:
            return
        try:
            batch = self._reader.read(records, envelopes)
        except ValueTooLargeError as error:  # of this table alone: the others go on
            self.too_large = str(error)
        else:
            self.add_changes(batch)


def _applied(batch: ChangeBatch, *, moves_leave: bool) -> pa.Table | None:
    """Returns the changes of single rows; None if there are none. A changed key is a delete of the old one and an insert of the new one.

    Args:
        batch: The rows.
        moves_leave: False if the row of the old key stays.
    """
    rows: Sequence[int] = range(len(batch))
    if set(batch.kind) != {RecordKind.CHANGE} or _TRUNCATE in batch.op:
        rows = [index for index in rows if batch.kind[index] is RecordKind.CHANGE and batch.op[index] != _TRUNCATE]
    if not rows:
        return None
    moved = [index for index in rows if batch.previous_key[index] is not None]
    every = len(rows) == len(batch)
    took = pa.array(rows, pa.int64())
    ops = list(batch.op)
    for index in moved:
        ops[index] = EventOperation.CREATE.value
    after, position = batch.images(), batch.positions()
    table = pa.table(
        {
            "op": pa.array([ops[index] for index in rows], pa.string()),
            "key": batch.keys([batch.key[index] for index in rows]),
            "after": after if every else after.take(took),
            "present": _names([batch.present[index] for index in rows]),
            "nulled": _names([batch.nulled[index] for index in rows]),
            "position": position if every else position.take(took),
        }
    )
    return pa.concat_tables([table, _left(batch, moved, table.schema)]) if moved and moves_leave else table


def _names(names: Sequence[Sequence[str] | None]) -> pa.Array:
    """Returns names of columns: of nearly all rows there are none, or nothing is said."""
    if names.count(None) == len(names):
        return pa.nulls(len(names), NAMES)
    if not any(names) and None not in names:
        return pa.ListArray.from_arrays(pa.array(np.zeros(len(names) + 1, np.int32)), pa.array([], pa.string()))
    return pa.array(names, NAMES)


def _left(batch: ChangeBatch, moved: list[int], schema: pa.Schema) -> pa.Table:
    """Returns the deletes of keys that rows had before."""
    count = len(moved)
    return pa.table(
        {
            "op": pa.array([EventOperation.DELETE.value] * count, pa.string()),
            "key": batch.keys([batch.previous_key[index] for index in moved]),
            "after": pa.nulls(count, schema.field("after").type),
            "present": pa.nulls(count, NAMES),
            "nulled": pa.array([()] * count, NAMES),
            "position": batch.positions().take(pa.array(moved, pa.int64())),
        }
    )


def _kept(batch: ChangeBatch, task: TableTask) -> pa.Table:
    """Returns the rows that the feed keeps, with the bytes of those that are to be set aside."""
    if not task.keeps_all and set(batch.kind) <= {RecordKind.CHANGE}:
        return pa.table({})
    keeps_unknown = task.watch is not None and task.watch.keeps_raw
    aside = [kind is RecordKind.BAD or (kind is RecordKind.UNKNOWN and keeps_unknown) for kind in batch.kind]
    rows = list(range(len(batch))) if task.keeps_all else [index for index, kind in enumerate(batch.kind) if kind in _SET_ASIDE]
    if not rows:
        return pa.table({})
    raw = [_raw(batch.records[index], batch.reason[index]) if aside[index] else None for index in range(len(batch))]
    return _with_raw(batch, raw).take(pa.array(rows, pa.int64()))


def _with_raw(batch: ChangeBatch, raw: list[str | None]) -> pa.Table:
    return batch.feed().append_column("raw", pa.array(raw, pa.string()))


def empty_feed(task: TableTask) -> pa.Table:
    """Returns the feed of no rows."""
    return _with_raw(empty_batch(ChangeTypes(spec_of(task.archive.format), task.schema, task.keys)), [])


def _raw(record: Record, reason: str | None) -> str:
    value = record.value or b""
    return b64encode(value).decode() if reason == NOT_UTF8 else value.decode()


class _Seen:
    """What the rows of a file have shown so far."""

    def __init__(self, form: Format, task: TableTask, file: FileTask) -> None:
        self._task, self._file = task, file
        order = form.spec.order
        self._order = order
        self._nowhere = (None,) * len(order)
        self._statement_place = place_maker(order, [field.name for field in order if field.of_delivery])
        self._statement = statement_finder(task.schema.table)
        self._events = self._partial = self._bad = self._lacking = self._behind = 0
        self._truncates: set[Place] = set()
        self._lowest: Place = ()
        self._highest: Place = ()
        self._last = self._at = self._behind_at = _NEVER
        self._undeclared: set[str] = set()
        self._named: set[tuple[str, ...]] = set()
        self._unmapped: set[str] = set()
        self._statements: set[FoundStatement] = set()
        self._nulled: Counter[str] = Counter()
        self._unknown: Counter[str] = Counter()
        self._shown: list[ShownRecord] = []

    def add(self, batch: ChangeBatch) -> None:
        """Takes some rows into account."""
        change = RecordKind.CHANGE
        rows = range(len(batch)) if set(batch.kind) == {change} else [index for index, kind in enumerate(batch.kind) if kind is change]
        if rows:
            self._changes(batch, rows)
        if len(rows) < len(batch):
            for index, kind in enumerate(batch.kind):
                if kind is not change:
                    self._other(batch, index)

    def _changes(self, batch: ChangeBatch, rows: Sequence[int]) -> None:
        position = batch.positions()
        places = places_of(position if len(rows) == len(batch) else position.take(pa.array(rows, pa.int64())), self._order)
        envelopes = [batch.envelopes[index] for index in rows]
        moments = np.array([_NEVER if (at := one.source_time) is None else at for one in envelopes], np.int64)
        ops = [batch.op[index] for index in rows]
        self._placed(places, moments, np.array([op != _READ for op in ops]) if _READ in ops else None)
        if _TRUNCATE in ops:
            self._truncates.update(tuple(int(part[index]) for part in places) for index, op in enumerate(ops) if op == _TRUNCATE)
        for index in rows:
            if (present := batch.present[index]) is not None and batch.op[index] != _TRUNCATE:
                self._part(batch, index, present)
        if any(batch.nulled):
            self._nulled.update(itertools.chain.from_iterable(batch.nulled[index] for index in rows))
        if self._task.declared and any(batch.unmapped):
            unmapped = set().union(*(batch.unmapped[index] for index in rows))
            self._undeclared.update(unmapped - set(self._task.declared))

    def _part(self, batch: ChangeBatch, index: int, present: tuple[str, ...]) -> None:
        op = batch.op[index]
        if op == EventOperation.UPDATE:
            self._partial += 1
        elif op in WHOLE_ROW:
            self._lacking += 1
            self._named.add(present)
            self._unmapped.update(batch.unmapped[index])

    def add_plain(self, changes: pa.Table, moments: npt.NDArray[np.int64]) -> None:
        """Takes whole rows and deletes into account that no snapshot read; parts of their places are integers."""
        self._placed(places_of(changes["position"].combine_chunks(), self._order), moments, None)

    def _placed(self, places: Sequence[Int64s], moments: Int64s, streamed: Bools | None) -> None:
        """Takes into account where changes are, and when the source made them.

        Args:
            places: The numbers of their places, most significant first.
            moments: Microseconds since 1970.
            streamed: Which of them no snapshot read; None = all.
        """
        self._events += len(moments)
        lowest = _extreme(places, highest=False)
        self._lowest = min(self._lowest, lowest) if self._lowest else lowest
        self._last = max(self._last, int(moments.max()))
        if streamed is not None:
            places, moments = [numbers[streamed] for numbers in places], moments[streamed]
        if not len(moments):
            return
        self._highest = max(self._highest, _extreme(places, highest=True))
        self._at = max(self._at, int(moments.max()))
        if self._file.newest and lowest < self._file.newest:
            below = _is_below(places, self._file.newest)
            self._behind += int(below.sum())
            self._behind_at = max(self._behind_at, int(moments[below].max(initial=_NEVER)))

    def _other(self, batch: ChangeBatch, index: int) -> None:
        kind, envelope = batch.kind[index], batch.envelopes[index]
        if kind is RecordKind.BAD:
            self._bad += 1
            if len(self._shown) < _SHOWN:
                self._shown.append(ShownRecord(line=batch.records[index].line, reason=batch.reason[index] or ""))
        elif kind is RecordKind.UNKNOWN:
            self._unknown[f"{envelope.schema}.{envelope.table}" if envelope.schema else envelope.table] += 1
        elif kind is RecordKind.DDL and (text := self._statement(envelope)) is not None:
            place = self._statement_place(envelope.position or self._nowhere)
            found = FoundStatement(text=text, schema=envelope.schema, place=place, at=_moment(envelope.source_time))
            self._statements.add(found)

    def facts(self, changes: Parts, feed: Parts) -> TableFacts:
        """Returns what was seen, and where the rows are."""
        return TableFacts(
            events=self._events,
            partial=self._partial,
            truncates=tuple(sorted(self._truncates)),
            order=Order(
                lowest=self._lowest,
                last=_moment(self._last),
                place=self._highest,
                at=_moment(self._at),
                behind=self._behind,
                behind_at=_moment(self._behind_at),
            ),
            drift=Drift(
                undeclared=tuple(sorted(self._undeclared)),
                lacking=self._lacking,
                named=tuple(sorted(self._named)),
                unmapped=tuple(sorted(self._unmapped)),
                statements=tuple(sorted(self._statements, key=repr)),
            ),
            nulled=tuple(sorted(self._nulled.items())),
            bad=self._bad,
            shown=tuple(self._shown),
            unknown=tuple(sorted(self._unknown.items())),
            changes=tuple(changes.written),
            feed=tuple(feed.written),
        )


def _moment(micros: int | None) -> str:
    """Returns an instant as text in UTC, "" for none."""
    if micros is None or micros == _NEVER:
        return ""
    return (_EPOCH + timedelta(microseconds=micros)).isoformat(timespec="microseconds")


def _extreme(places: Sequence[Int64s], *, highest: bool) -> Place:
    """Returns the largest or the smallest of some places, each part of which has an array."""
    rows = np.arange(len(places[0]))
    for numbers in places:
        some = numbers[rows]
        rows = rows[some == (some.max() if highest else some.min())]
    return tuple(int(numbers[rows[0]]) for numbers in places)


def _is_below(places: Sequence[Int64s], newest: Place) -> Bools:
    """True for places before another one."""
    below, same = np.zeros(len(places[0]), np.bool_), np.ones(len(places[0]), np.bool_)
    for numbers, limit in zip(places, newest, strict=False):
        below |= same & (numbers < limit)
        same &= numbers == limit
    return below | (same & (len(places) < len(newest)))
