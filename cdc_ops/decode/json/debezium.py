"""Debezium's envelopes: the layouts of a table's events, and the kernel that reads what they say besides the values of columns.

{"before": {…}, "after": {…}, "source": {…}, "op": "u", "ts_ms": …}                       bare
{"schema": {…}, "payload": {"before": {…}, "after": {…}, "source": {…}, "op": "u", …}}    wrapped
"""

# mypy: disable-error-code="return-value, assignment, arg-type, no-any-return"
# numba finds the types of these functions; their annotations are for readers, who need not tell int from int64.

from collections.abc import Iterable
from enum import IntEnum
from typing import Final

import numpy as np
from numba import types

from cdc_ops.decode.compiler import BYTES, Bytes, helper, kernel
from cdc_ops.decode.json.events import Events
from cdc_ops.decode.json.grammar import ABSENT, FALSE, INTEGER, NULL, OBJECT, STRING, TRUE
from cdc_ops.decode.json.layout import ANYTHING, ONLY_NULL, TEXTS, WHOLE_NUMBERS, Member, Members, tokens
from cdc_ops.decode.json.members import SPANS, Spans
from cdc_ops.decode.plain.numbers import plain_integer


class Slot(IntEnum):
    """Slots of an envelope's members; those of the columns follow, first of `after` and then of `before`."""

    OP = 0
    BEFORE = 1
    AFTER = 2
    SOURCE = 3
    SCHEMA = 4
    PAYLOAD = 5
    TRANSACTION = 6
    TOTAL_ORDER = 7
    DATABASE = 8
    TABLE = 9
    FILE = 10
    POS = 11
    ROW = 12
    GTID = 13
    CONNECTOR = 14
    SNAPSHOT = 15
    MOMENT = 16


FIRST_COLUMN: Final = len(Slot)
MYSQL_PARTS: Final = 5
"""Parts of a position without the offset: number of the file, place in it, streamed, order in the transaction, row."""

EVENTS: Final = types.NamedTuple(
    (types.uint8[::1], types.int64[:, ::1], types.int64[::1], types.int64[::1], types.uint8[::1], types.int64[:, ::1]), Events
)

_OBJECT = tokens(NULL, OBJECT)
_FLAG = tokens(NULL, FALSE, TRUE, STRING)
_OP, _BEFORE, _AFTER, _SOURCE, _SCHEMA, _PAYLOAD, _TRANSACTION, _TOTAL = range(8)
_DATABASE, _TABLE, _FILE, _POS, _ROW, _GTID, _CONNECTOR, _SNAPSHOT, _MOMENT = range(8, 17)
_LARGEST_MILLIS = 253_402_300_799_999


def layouts(columns: Iterable[str]) -> tuple[Members, Members]:
    """Returns the layouts of bare and of wrapped records of a table of MySQL or MariaDB."""
    names = tuple(columns)
    bare = _body(names)
    wrapped = {
        "schema": Member(tokens=_OBJECT, slot=Slot.SCHEMA),
        "payload": Member(tokens=tokens(OBJECT), slot=Slot.PAYLOAD, members=Members(named=bare)),
    }
    unwrapped = {"schema": Member(tokens=ONLY_NULL), "payload": Member(tokens=ONLY_NULL)}
    return Members(named=bare | unwrapped), Members(named=wrapped, closed=True)


def _body(columns: tuple[str, ...]) -> dict[str, Member]:
    """Returns the members of an event. Those that the exact way looks at have to be as they nearly always are."""
    numbers = dict.fromkeys(("lsn", "event_serial_no", "txSeq"), Member(tokens=WHOLE_NUMBERS))
    source = {
        "connector": Member(tokens=TEXTS, slot=Slot.CONNECTOR),
        "ts_ms": Member(tokens=WHOLE_NUMBERS, slot=Slot.MOMENT),
        "snapshot": Member(tokens=_FLAG, slot=Slot.SNAPSHOT),
        "db": Member(tokens=TEXTS, slot=Slot.DATABASE),
        "table": Member(tokens=TEXTS, slot=Slot.TABLE),
        "gtid": Member(tokens=TEXTS, slot=Slot.GTID),
        "file": Member(tokens=TEXTS, slot=Slot.FILE),
        "pos": Member(tokens=WHOLE_NUMBERS, slot=Slot.POS),
        "row": Member(tokens=WHOLE_NUMBERS, slot=Slot.ROW),
        **numbers,
    }
    transaction = {"id": Member(tokens=TEXTS), "total_order": Member(tokens=WHOLE_NUMBERS, slot=Slot.TOTAL_ORDER)}
    images = [
        Members(named={name: Member(tokens=ANYTHING, slot=first + index) for index, name in enumerate(columns)}, closed=True)
        for first in (FIRST_COLUMN, FIRST_COLUMN + len(columns))
    ]
    return {
        "before": Member(tokens=_OBJECT, slot=Slot.BEFORE, members=images[1]),
        "after": Member(tokens=_OBJECT, slot=Slot.AFTER, members=images[0]),
        "source": Member(tokens=tokens(OBJECT), slot=Slot.SOURCE, members=Members(named=source)),
        "op": Member(tokens=tokens(STRING), slot=Slot.OP),
        "ts_ms": Member(tokens=WHOLE_NUMBERS),
        "transaction": Member(tokens=_OBJECT, slot=Slot.TRANSACTION, members=Members(named=transaction)),
        **dict.fromkeys(("ddl", "databaseName", "status", "id"), Member(tokens=ONLY_NULL)),
        "__cdc_ops_end": Member(tokens=0),
    }


@kernel(types.void(BYTES, SPANS, types.int64, BYTES, BYTES, EVENTS, types.int64[::1]), makes_arrays=False)
def read_mysql(data: Bytes, spans: Spans, rows: int, database: Bytes, table: Bytes, events: Events, counts: np.ndarray) -> None:
    """Reads the envelopes of plain records; those that are not plain after all get `plain` 0.

    Args:
        data: The input.
        spans: The members.
        rows: How many records there are.
        database: Name of the table's database; another table's records are not plain.
        table: Name of the table.
        events: Filled, its lists of rows too.
        counts: Becomes the lengths of the three lists.
    """
    after, before, both = 0, 0, 0
    for row in range(rows):
        if spans.plain[row] == 0:
            continue
        operation = _operation(data, spans, row)
        known = operation != 0 and _is_text(data, spans, _DATABASE, row, database) and _is_text(data, spans, _TABLE, row, table)
        if not known or not _has_images(spans, row, operation) or not _position(data, spans, row, operation, events):
            spans.plain[row] = 0
            continue
        events.operation[row] = operation
        if operation != 100:
            events.rows[0, after] = row
            after += 1
        if spans.token[_BEFORE, row] == OBJECT:
            events.rows[1, before] = row
            before += 1
            if operation == 117:
                events.rows[2, both] = row
                both += 1
    counts[0], counts[1], counts[2] = after, before, both


@helper
def _operation(data: Bytes, spans: Spans, row: int) -> int:
    """Returns the letter of an operation on one row, 0 for all others."""
    if spans.token[_OP, row] != STRING or spans.high[_OP, row] - spans.low[_OP, row] != 1 or spans.token[_SOURCE, row] != OBJECT:
        return 0
    letter = data[spans.low[_OP, row]]
    return letter if letter == 99 or letter == 117 or letter == 100 or letter == 114 else 0


@helper
def _has_images(spans: Spans, row: int, operation: int) -> bool:
    """True for an insert with the row after, an update with that and maybe the row before, a delete with the row before."""
    before, after = spans.token[_BEFORE, row] == OBJECT, spans.token[_AFTER, row] == OBJECT
    if operation == 117:
        return after
    return before != after and before == (operation == 100)


@helper
def _is_text(data: Bytes, spans: Spans, slot: int, row: int, text: Bytes) -> bool:
    low = spans.low[slot, row]
    if spans.token[slot, row] != STRING or spans.high[slot, row] - low != text.size:
        return False
    for place in range(text.size):
        if data[low + place] != text[place]:
            return False
    return True


@helper
def _number(data: Bytes, spans: Spans, slot: int, row: int, otherwise: int) -> tuple[int, bool]:
    """Returns a whole number; `otherwise` where it is NULL or missing."""
    if spans.token[slot, row] != INTEGER:
        return otherwise, spans.token[slot, row] == NULL or spans.token[slot, row] == ABSENT
    number, taken = plain_integer(data, spans.low[slot, row], spans.high[slot, row], 8)
    return number, taken


@helper
def _number_of_file(data: Bytes, spans: Spans, row: int) -> int:
    """Returns the number at the end of a binlog's name, -1 if there is none of at most 18 digits."""
    if spans.token[_FILE, row] != STRING:
        return -1
    low, high = spans.low[_FILE, row], spans.high[_FILE, row]
    start = high
    while start > low and 48 <= data[start - 1] <= 57:
        start -= 1
    if start == high or high - start > 18:
        return -1
    number = 0
    for place in range(start, high):
        number = number * 10 + (np.int64(data[place]) - 48)
    return number


@helper
def _is_streamed(data: Bytes, spans: Spans, row: int, operation: int) -> bool:
    """True unless a snapshot read the row."""
    token = spans.token[_SNAPSHOT, row]
    if operation == 114 or token == TRUE:
        return False
    if token != STRING:
        return True
    low, high = spans.low[_SNAPSHOT, row], spans.high[_SNAPSHOT, row]
    return high == low or (high - low == 5 and _is_word(data, low, 102, 97, 108, 115) and data[low + 4] == 101)  # "" or "false"


@helper
def _is_word(data: Bytes, at: int, first: int, second: int, third: int, fourth: int) -> bool:
    return data[at] == first and data[at + 1] == second and data[at + 2] == third and data[at + 3] == fourth


@helper
def _is_mariadb(data: Bytes, spans: Spans, row: int) -> bool:
    """True for the connector `mariadb`, and for a GTID without a colon."""
    if spans.token[_CONNECTOR, row] == STRING:
        low = spans.low[_CONNECTOR, row]
        if spans.high[_CONNECTOR, row] - low == 7 and _is_word(data, low, 109, 97, 114, 105) and _is_word(data, low + 3, 105, 97, 100, 98):
            return True
    if spans.token[_GTID, row] != STRING:
        return False
    for place in range(spans.low[_GTID, row], spans.high[_GTID, row]):
        if data[place] == 58:
            return False
    return True


@helper
def _position(data: Bytes, spans: Spans, row: int, operation: int, events: Events) -> bool:
    """Reads position and moment; False if one of them is not plain."""
    file_number = _number_of_file(data, spans, row)
    pos, has_pos = _number(data, spans, _POS, row, -1)
    order, has_order = _number(data, spans, _TOTAL, row, -1)
    of_row, has_row = _number(data, spans, _ROW, row, 0)
    millis, has_moment = _number(data, spans, _MOMENT, row, 0)
    if not (has_pos and has_order and has_row and has_moment) or file_number < 0 or spans.token[_POS, row] != INTEGER:
        return False
    if not 0 <= millis <= _LARGEST_MILLIS:
        return False
    streamed = _is_streamed(data, spans, row, operation)
    events.numbers[0, row] = file_number
    events.numbers[1, row] = pos
    events.numbers[2, row] = 1 if streamed else 0
    events.numbers[3, row] = order
    events.numbers[4, row] = of_row
    vague = spans.token[_TOTAL, row] != INTEGER and streamed and _is_mariadb(data, spans, row)
    events.by_offset[row] = 3 if vague else -1
    events.moment[row] = millis * 1000
    events.has_moment[row] = spans.token[_MOMENT, row] == INTEGER
    return True
