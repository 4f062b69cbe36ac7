"""Reads the change events of one table from JSON lines: what is plain comes out as a table of Arrow, all other lines are named.

lines -> members by a layout -> envelopes -> values by the encodings of each record's schema -> rows
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cdc_ops.decode.batch import Batch
from cdc_ops.decode.cells import Cells
from cdc_ops.decode.compiler import Bytes, Int64s
from cdc_ops.decode.json.encodings import Encoded, EncodingArrays
from cdc_ops.decode.json.events import WITH_AFTER, WITH_BEFORE, WITH_BOTH, Events
from cdc_ops.decode.json.grammar import OBJECT
from cdc_ops.decode.json.keys import check_keys, refuse_null_keys, take_keys
from cdc_ops.decode.json.layout import LayoutArrays, Members, layout_arrays
from cdc_ops.decode.json.members import Room, Spans, match_texts, room_for_objects, scan_members
from cdc_ops.decode.json.values import decode_values
from cdc_ops.decode.key_hashes import hash_keys
from cdc_ops.decode.plain_rows import HASH, LINE, MOMENT, OPERATION, PlainRows, column_name, key_name, part_name
from cdc_ops.decode.program import Program

MOST_ROWS: Final = 16_384
"""Lines that are read at once."""
_MOST_SCHEMAS: Final = 16
_NO_SCHEMA: Final = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainFormat(PlainRows):
    """How the events of one table are read.

    Args:
        layouts: Of the records; the first that takes one counts.
        slots: How many slots the layouts have.
        first_columns: The slot of the first column in the image after, and in the image before.
        schema_slot: The slot of the schema that comes with a record; None if none does.
        envelopes: Reads the envelopes: of data, members, rows, and into events and the lengths of their lists.
        encodings: How the values of the columns are spelled, by the text of a record's schema, `b""` for none; None = all are set aside.
        refused: Beginnings of strings that are no values, five bytes each.
        words: The words of columns, see `EncodingArrays`.
        offset_part: The part of the place that is Kafka's offset, -1 for the last one; None = no part is.
    """

    layouts: tuple[Members, ...]
    slots: int
    first_columns: tuple[int, int]
    schema_slot: int | None
    envelopes: Callable[[Bytes, Spans, int, Events, Int64s], None]
    encodings: Callable[[bytes], tuple[Encoded, ...] | None]
    refused: bytes = b""
    words: bytes = b""
    offset_part: int | None = -1


@dataclass(slots=True)
class _Spelling:
    """How the values of records with one schema are read."""

    text: Bytes
    columns: EncodingArrays | None
    keys: EncodingArrays | None


@dataclass(slots=True)
class PlainReader:
    """Reads lines of one table; used again for the next ones.

    Args:
        form: How the events are read.
    """

    form: PlainFormat
    _layouts: list[LayoutArrays] = field(init=False)
    _spans: Spans = field(init=False)
    _events: Events = field(init=False)
    _after: Batch = field(init=False)
    _keys: Batch = field(init=False)
    _columns: Int64s = field(init=False)
    _room: Room = field(init=False, default_factory=room_for_objects)
    _spellings: dict[bytes, _Spelling] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        form = self.form
        self._layouts = [layout_arrays(one) for one in form.layouts]
        self._spans = Spans.empty(form.slots, MOST_ROWS)
        self._events = Events.empty(form.parts + 1, MOST_ROWS)
        self._after = Batch(Program.of(form.columns), MOST_ROWS)
        self._keys = Batch(Program.of(form.columns[index] for index in form.keys), MOST_ROWS)
        self._columns = np.array(form.keys, np.int64)

    def read(self, data: Bytes, starts: Int64s, ends: Int64s, lines: Int64s, first_offset: int) -> tuple[pa.Table, npt.NDArray[np.bool_]]:
        """Reads at most `MOST_ROWS` lines.

        Args:
            data: The input.
            starts: Where each line begins in it.
            ends: Where it ends.
            lines: The number of each line in its file.
            first_offset: Kafka's offset of the file's line 0; negative = offsets are not known, and -1 stands for them.

        Returns:
            The rows of the plain ones, and for each line whether it is one.
        """
        rows = len(starts)
        spans, events, counts = self._spans, self._events, np.zeros(3, np.int64)
        spans.plain[:rows] = 0
        for number, layout in enumerate(tuple(self._layouts)):
            if scan_members(layout, data, starts, ends, rows, spans, self._room) == rows:
                break
            if number == 0 and len(self._layouts) > 1 and not spans.plain[:rows].any():
                self._layouts = [*self._layouts[1:], layout]  # the other one is asked first from now on
        self.form.envelopes(data, spans, rows, events, counts)
        self._after.clear()
        self._keys.clear()
        aside = np.empty(3 * data.size + (1 << 16), np.uint8)
        self._decode(data, rows, counts, aside)
        if first_offset < 0:  # what has the offset for a part of its place has none
            spans.plain[:rows][events.by_offset[:rows] >= 0] = 0
        plain = spans.plain[:rows] == 1
        offsets = lines + first_offset if first_offset >= 0 else np.full(rows, -1, np.int64)
        return self._table(data, aside, rows, plain, lines, offsets), plain

    def _decode(self, data: Bytes, rows: int, counts: Int64s, aside: Bytes) -> None:
        """Makes the values of all rows, and checks the keys."""
        spans, events, at = self._spans, self._events, 0
        after, before, both = (events.rows[which, : counts[which]] for which in (WITH_AFTER, WITH_BEFORE, WITH_BOTH))
        for spelling, of_rows in self._spelled(data, rows):
            if spelling.columns is None or spelling.keys is None:
                spans.plain[of_rows] = 0
                continue
            mine = np.zeros(rows, np.bool_)
            mine[of_rows] = True
            for batch, encodings, listed in ((self._after, spelling.columns, after), (self._keys, spelling.keys, before)):
                wanted = np.ascontiguousarray(listed[mine[listed]])
                at = decode_values(batch.program.arrays, encodings, spans, batch.cells, data, wanted, wanted.size, aside, at)
        keys = self._keys
        check_keys(
            keys.program.arrays, self._after.cells, self._columns, keys.cells, data, aside, spans, np.ascontiguousarray(both), both.size
        )
        take_keys(self._after.cells, self._columns, keys.cells, np.ascontiguousarray(after), after.size)
        refuse_null_keys(keys.cells, spans, rows)

    def _spelled(self, data: Bytes, rows: int) -> list[tuple[_Spelling, Int64s]]:
        """Returns the rows that are plain so far by how their values are spelled."""
        plain, slot = self._spans.plain[:rows] == 1, self.form.schema_slot
        typed = plain & (self._spans.token[slot, :rows] == OBJECT) if slot is not None else np.zeros(rows, np.bool_)
        found = []
        if len(bare := np.flatnonzero(plain & ~typed)):
            found.append((self._spelling(_NO_SCHEMA), bare))
        if slot is None:
            return found
        left = np.flatnonzero(typed)
        known = [one for text, one in self._spellings.items() if text]
        while len(left):
            if known:
                spelling = known.pop(0)
            else:
                low, high = self._spans.low[slot, left[0]], self._spans.high[slot, left[0]]
                if len(self._spellings) > _MOST_SCHEMAS:
                    self._spans.plain[left] = 0
                    break
                spelling = self._spelling(data[low:high].tobytes())
            same, others = np.empty_like(left), np.empty_like(left)
            count = match_texts(data, self._spans, slot, left, left.size, spelling.text, same, others)
            if count:
                found.append((spelling, same[:count]))
            left = np.ascontiguousarray(others[: left.size - count])
        return found

    def _spelling(self, text: bytes) -> _Spelling:
        if text not in self._spellings:
            form, encoded = self.form, self.form.encodings(text)
            columns = keys = None
            if encoded is not None:
                after, before = form.first_columns
                columns = EncodingArrays.of(encoded, [after + index for index in range(len(encoded))], form.refused, form.words)
                of_keys = [before + index for index in form.keys]
                keys = EncodingArrays.of([encoded[index] for index in form.keys], of_keys, form.refused, form.words)
            self._spellings[text] = _Spelling(np.frombuffer(text, np.uint8), columns, keys)
        return self._spellings[text]

    def _table(self, data: Bytes, aside: Bytes, rows: int, plain: npt.NDArray[np.bool_], lines: Int64s, offsets: Int64s) -> pa.Table:
        events, hashes = self._events, np.empty(rows, np.int64)
        for batch in (self._after, self._keys):
            _clear_rows(batch.cells, np.flatnonzero(~plain))
            batch.use_aside(aside)
        hash_keys(self._keys.program.arrays, self._keys.cells, data, aside, rows, hashes)
        numbers = [np.where(events.by_offset[:rows] == part, offsets, events.numbers[part, :rows]) for part in range(self.form.parts + 1)]
        if self.form.offset_part is not None:
            numbers[self.form.offset_part] = offsets
        arrays: dict[str, Any] = {  # copies of what the next lines are read into: Arrow takes an array as it is
            OPERATION: pa.array(events.operation[:rows].view(np.int8).copy()),
            MOMENT: pa.array(events.moment[:rows].copy(), mask=events.has_moment[:rows] == 0),
            LINE: pa.array(lines),
            HASH: pa.array(hashes),
            **{part_name(part): pa.array(values) for part, values in enumerate(numbers)},
        }
        after, keys = (batch.record_batch(data, rows) for batch in (self._after, self._keys))
        arrays |= {column_name(index): values for index, values in enumerate(after.columns)}
        arrays |= {key_name(index): values for index, values in enumerate(keys.columns)}
        table = pa.table(arrays)
        return table if plain.all() else table.filter(pa.array(plain))


def _clear_rows(cells: Cells, rows: Int64s) -> None:
    if rows.size:
        cells.state[:, rows] = 0
        cells.low[:, rows] = 0
        cells.high[:, rows] = 0
