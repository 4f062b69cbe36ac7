"""What the kernels of envelopes share: texts and numbers of members, and which rows have which images. Numba functions."""

# mypy: disable-error-code="return-value, assignment, arg-type, no-any-return"
# numba finds the types of these functions; their annotations are for readers, who need not tell int from int64.

from typing import Final

import numpy as np
from numba import types

from cdc_ops.decode.compiler import Bytes, Int64s, helper
from cdc_ops.decode.json.events import WITH_AFTER, WITH_BEFORE, WITH_BOTH, Events
from cdc_ops.decode.json.grammar import ABSENT, INTEGER, NULL, STRING, TRUE
from cdc_ops.decode.json.members import Spans
from cdc_ops.decode.plain.numbers import plain_integer

EVENTS: Final = types.NamedTuple(
    (types.uint8[::1], types.int64[:, ::1], types.int64[::1], types.int64[::1], types.uint8[::1], types.int64[:, ::1]), Events
)

_READ, _CREATE, _UPDATE, _DELETE = 114, 99, 117, 100
_LARGEST_MILLIS = 253_402_300_799_999


def word(text: str) -> Bytes:
    """Returns a text as a constant of kernels."""
    return np.frombuffer(text.encode(), np.uint8).copy()


_FALSE, _MARIADB = word("false"), word("mariadb")


@helper
def same_bytes(data: Bytes, low: int, high: int, text: Bytes) -> bool:
    """True if the bytes between two places are that text."""
    if high - low != text.size:
        return False
    for place in range(text.size):
        if data[low + place] != text[place]:
            return False
    return True


@helper
def is_text(data: Bytes, spans: Spans, slot: int, row: int, text: Bytes) -> bool:
    """True if a member is that string, without escapes."""
    return spans.token[slot, row] == STRING and same_bytes(data, spans.low[slot, row], spans.high[slot, row], text)


@helper
def is_none(spans: Spans, slot: int, row: int) -> bool:
    """True if a member is NULL or missing."""
    return spans.token[slot, row] == NULL or spans.token[slot, row] == ABSENT


@helper
def is_text_or_none(spans: Spans, slot: int, row: int) -> bool:
    """True if a member is a string without escapes, NULL or missing."""
    return spans.token[slot, row] == STRING or is_none(spans, slot, row)


@helper
def number_of(data: Bytes, spans: Spans, slot: int, row: int, otherwise: int) -> tuple[int, bool]:
    """Returns a whole number, and whether it is plain; `otherwise` where it is NULL or missing."""
    if spans.token[slot, row] != INTEGER:
        return otherwise, is_none(spans, slot, row)
    number, taken = plain_integer(data, spans.low[slot, row], spans.high[slot, row], 8)
    return number, taken


@helper
def digits_before(data: Bytes, low: int, high: int) -> tuple[int, int]:
    """Returns the number that ends before a place, and where it begins; -1 if there is none of at most 18 digits."""
    start = high
    while start > low and 48 <= data[start - 1] <= 57:
        start -= 1
    if start == high or high - start > 18:
        return -1, start
    number = 0
    for place in range(start, high):
        number = number * 10 + (np.int64(data[place]) - 48)
    return number, start


@helper
def number_of_file(data: Bytes, spans: Spans, slot: int, row: int) -> int:
    """Returns the number at the end of a binlog's name, -1 if there is none of at most 18 digits."""
    if spans.token[slot, row] != STRING:
        return -1
    number, _ = digits_before(data, spans.low[slot, row], spans.high[slot, row])
    return number


@helper
def operation_of(data: Bytes, spans: Spans, slot: int, row: int) -> int:
    """Returns Debezium's letter of an operation on one row, 0 for all others."""
    if spans.token[slot, row] != STRING or spans.high[slot, row] - spans.low[slot, row] != 1:
        return 0
    letter = data[spans.low[slot, row]]
    return letter if letter == _CREATE or letter == _UPDATE or letter == _DELETE or letter == _READ else 0


@helper
def is_streamed(data: Bytes, spans: Spans, slot: int, row: int, operation: int) -> bool:
    """True unless Debezium's snapshot read the row; the slot is that of its mark."""
    token = spans.token[slot, row]
    if operation == _READ or token == TRUE:
        return False
    if token != STRING:
        return True
    low, high = spans.low[slot, row], spans.high[slot, row]
    return high == low or same_bytes(data, low, high, _FALSE)


@helper
def is_mariadb(data: Bytes, spans: Spans, connector: int, gtid: int, row: int) -> bool:
    """True for the connector `mariadb`, and for a GTID without a colon; the slots are theirs."""
    if is_text(data, spans, connector, row, _MARIADB):
        return True
    if spans.token[gtid, row] != STRING:
        return False
    for place in range(spans.low[gtid, row], spans.high[gtid, row]):
        if data[place] == 58:
            return False
    return True


@helper
def note_moment(data: Bytes, spans: Spans, slot: int, row: int, unit: int, events: Events) -> bool:
    """Notes when an event happened, in milliseconds or seconds since 1970; false if that is not plain.

    `unit` says how many milliseconds one is.
    """
    number, taken = number_of(data, spans, slot, row, 0)
    if not taken or not 0 <= number <= _LARGEST_MILLIS // unit:
        return False
    events.moment[row] = number * unit * 1000
    events.has_moment[row] = spans.token[slot, row] == INTEGER
    return True


@helper
def note_images(events: Events, row: int, operation: int, before: bool, counts: Int64s) -> None:
    """Notes an operation, and which images are read of it; `before` is true if the key before is one of them."""
    events.operation[row] = operation
    if operation != _DELETE:
        events.rows[WITH_AFTER, counts[WITH_AFTER]] = row
        counts[WITH_AFTER] += 1
    if before:
        events.rows[WITH_BEFORE, counts[WITH_BEFORE]] = row
        counts[WITH_BEFORE] += 1
        if operation != _DELETE:
            events.rows[WITH_BOTH, counts[WITH_BOTH]] = row
            counts[WITH_BOTH] += 1
