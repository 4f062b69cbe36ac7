"""The kernel that finds the members of JSON records by a layout: where each value lies, and what it is. Values are not read here."""

# mypy: disable-error-code="return-value, assignment, arg-type"
# numba finds the types of these functions; their annotations are for readers, who need not tell int from int64.

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
from numba import types

from cdc_ops.decode.compiler import BYTES, INT64S, Bytes, Int64s, helper, kernel
from cdc_ops.decode.json.grammar import ABSENT, ESCAPED, INTEGER, OBJECT, STRING, after_blanks, string_end, value_end
from cdc_ops.decode.json.layout import MAX_DEPTH, SHORT, LayoutArrays
from cdc_ops.decode.sixteen import SIXTEEN, same_bytes


class Spans(NamedTuple):
    """Where the values of members lie: the first index is the slot, the second the row.

    Args:
        low: Where a value begins, int64; of strings behind the quote.
        high: Where it ends, int64; of strings before the quote. Of objects with members of their own it says nothing.
        token: What it is, uint8; ABSENT where the record does not have the member.
        plain: Of each row, uint8: 1 for a record that is plain so far.
    """

    low: npt.NDArray[np.int64]
    high: npt.NDArray[np.int64]
    token: npt.NDArray[np.uint8]
    plain: npt.NDArray[np.uint8]

    @classmethod
    def empty(cls, slots: int, rows: int) -> "Spans":
        """Makes room for so many slots and rows."""
        numbers = np.zeros((2, slots, rows), np.int64)
        return cls(numbers[0], numbers[1], np.zeros((slots, rows), np.uint8), np.zeros(rows, np.uint8))


SPANS: Final = types.NamedTuple((types.int64[:, ::1], types.int64[:, ::1], types.uint8[:, ::1], types.uint8[::1]), Spans)
LAYOUT: Final = types.NamedTuple((types.uint8[::1], *[types.int64[::1]] * 7), LayoutArrays)

_SHORTEST = 18
_LONGEST = 8_000_000
"""Bytes of a record; parsers have limits, which are reached beyond."""

Room = npt.NDArray[np.int64]
"""Two rows of `MAX_DEPTH` numbers: the objects that are open, and the member that is expected next in each."""


def room_for_objects() -> Room:
    """Makes room for the objects of a record that are open."""
    return np.zeros((2, MAX_DEPTH), np.int64)


@kernel(types.int64(LAYOUT, BYTES, INT64S, INT64S, types.int64, SPANS, types.int64[:, ::1]), makes_arrays=False)
def scan_members(layout: LayoutArrays, data: Bytes, starts: Int64s, ends: Int64s, rows: int, spans: Spans, room: Room) -> int:
    """Finds the members of the records that are not plain yet.

    Args:
        layout: What is wanted.
        data: The input.
        starts: Where each record begins in it.
        ends: Where it ends.
        rows: How many records there are.
        spans: Filled for records with `plain` 0; that is 1 for those that the layout takes.
        room: See `room_for_objects`; what is in it means nothing.

    Returns:
        How many records are plain.
    """
    objects, following = room[0], room[1]
    plain = 0
    for row in range(rows):
        if spans.plain[row] == 0:
            for slot in range(spans.token.shape[0]):
                spans.token[slot, row] = ABSENT
            start, end = after_blanks(data, starts[row], ends[row]), ends[row]
            if start < end <= start + _LONGEST and data[start] == 123:
                stop = _document_end(layout, data, start + 1, end, row, spans, objects, following)
                if stop >= 0 and after_blanks(data, stop, end) == end:
                    spans.plain[row] = 1
        plain += spans.plain[row]
    return plain


@helper
def _document_end(layout: LayoutArrays, data: Bytes, at: int, end: int, row: int, spans: Spans, objects: Int64s, following: Int64s) -> int:
    """Returns the place behind a document, -1 if it is not plain; `at` is behind its first brace.

    `objects` and `following` are room for the objects that are open, and for the member that is expected next in each. What is called here
    gets single arrays: numba counts who holds an array at each call.
    """
    names, begins, inner_of, allowed, slots = layout.names, layout.starts, layout.inner, layout.tokens, layout.slots
    listed = layout.listed
    depth = 0
    objects[0] = 0
    following[0] = layout.first[0]
    opened = True
    while True:
        at = after_blanks(data, at, end)
        if at >= end:
            return -1
        if data[at] == 125:
            at += 1
            if listed[objects[depth]] == 1:
                at = after_blanks(data, at, end)
                if at >= end or data[at] != 93:
                    return -1
                at += 1
            depth -= 1
            opened = False
            if depth < 0:
                return at
            continue
        if not opened:
            if data[at] != 44:
                return -1
            at = after_blanks(data, at + 1, end)
        opened = False
        if at >= end or data[at] != 34:
            return -1
        start = at + 1
        member = following[depth]
        last = layout.first[objects[depth] + 1]
        close = _end_of_name(names, begins, member, data, start, end) if member < last else -1
        if close < 0:  # another one than is expected
            close, escaped = string_end(data, start, end)
            if close < 0 or escaped:
                return -1
            member = _find(names, begins, layout.first[objects[depth]], last, following[depth], data, start, close)
        at = _value_start(data, close + 1, end)
        if at < 0:
            return -1
        if member < 0:
            if layout.closed[objects[depth]] == 1:
                return -1
            at, _ = value_end(data, at, end)
            if at < 0:
                return -1
            continue
        following[depth] = member + 1
        start = at
        slot = slots[member]
        inner = inner_of[member]
        if inner >= 0 and data[at] == (91 if listed[inner] == 1 else 123):
            if data[at] == 91:
                at = after_blanks(data, at + 1, end)
                if at >= end or data[at] != 123:
                    return -1
            token = OBJECT
            depth += 1
            objects[depth] = inner
            following[depth] = layout.first[inner]
            opened = True
            at += 1
        else:
            at, token = value_end(data, at, end)
            if at < 0 or (token == OBJECT and inner >= 0):  # an object that should be in an array
                return -1
        if (allowed[member] >> token) & 1 == 0 or (token == INTEGER and allowed[member] & SHORT != 0 and at - start > _SHORTEST):
            return -1
        if slot >= 0:
            if spans.token[slot, row] != ABSENT:
                return -1
            quoted = 1 if token == STRING or token == ESCAPED else 0
            spans.token[slot, row] = token
            spans.low[slot, row] = start + quoted
            spans.high[slot, row] = at - quoted


@helper
def _end_of_name(names: Bytes, begins: Int64s, member: int, data: Bytes, start: int, end: int) -> int:
    """Returns the place of the quote behind a member's name if that is what stands there, else -1. Names in layouts have no escapes."""
    begin = begins[member]
    size = begins[member + 1] - begin
    close = start + size
    if close >= end or data[close] != 34 or size > SIXTEEN or start + SIXTEEN > data.size:
        return -1
    return close if same_bytes(names, begin, data, start) >= size else -1


@helper
def _value_start(data: Bytes, at: int, end: int) -> int:
    if at + 1 < end and data[at] == 58 and data[at + 1] > 32:
        return at + 1
    at = after_blanks(data, at, end)
    if at >= end or data[at] != 58:
        return -1
    at = after_blanks(data, at + 1, end)
    return at if at < end else -1


@helper
def _find(names: Bytes, begins: Int64s, first: int, last: int, expected: int, data: Bytes, start: int, end: int) -> int:
    """Returns the member of that name, of those from `first` to `last`, -1 for none; the expected one is looked at first."""
    size = end - start
    for step in range(last - first):
        member = expected + step
        if member >= last:
            member -= last - first
        begin = begins[member]
        if begins[member + 1] - begin == size:
            place = 0
            while place < size and names[begin + place] == data[start + place]:
                place += 1
            if place == size:
                return member
    return -1


@kernel(types.int64(BYTES, SPANS, types.int64, INT64S, types.int64, BYTES, INT64S, INT64S), makes_arrays=False)
def match_texts(data: Bytes, spans: Spans, slot: int, wanted: Int64s, count: int, text: Bytes, same: Int64s, others: Int64s) -> int:
    """Splits rows by whether the value of a member is that text; returns how many are of it."""
    found = 0
    for index in range(count):
        row = wanted[index]
        low = spans.low[slot, row]
        equal = spans.high[slot, row] - low == text.size
        place = 0
        while equal and place < text.size:
            equal = data[low + place] == text[place]
            place += 1
        if equal:
            same[found] = row
            found += 1
        else:
            others[index - found] = row
    return found
