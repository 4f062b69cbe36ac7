"""Maxwell's envelopes: the layout of a table's events, and the kernel that reads what they say besides the values of columns.

{"database": "shop", "table": "orders", "type": "update", "ts": 1709283600, "position": "binlog.000003:700", "data": {…}, "old": {…}}
"""

# mypy: disable-error-code="return-value, assignment, arg-type, no-any-return"
# numba finds the types of these functions; their annotations are for readers, who need not tell int from int64.

from collections.abc import Iterable
from enum import IntEnum
from typing import Final

from numba import types

from cdc_ops.decode.compiler import BYTES, INT64S, Bytes, Int64s, helper, kernel
from cdc_ops.decode.json.envelopes import EVENTS, digits_before, is_text, note_images, note_moment, number_of, word
from cdc_ops.decode.json.events import Events
from cdc_ops.decode.json.grammar import ABSENT, FALSE, INTEGER, NULL, OBJECT, STRING, TRUE
from cdc_ops.decode.json.layout import ONLY_NULL, SCALARS, TEXTS, WHOLE_NUMBERS, Member, Members, tokens
from cdc_ops.decode.json.members import SPANS, Spans


class Slot(IntEnum):
    """Slots of an envelope's members; those of the columns follow, first of `data` and then of `old`."""

    DATABASE = 0
    TABLE = 1
    TYPE = 2
    MOMENT = 3
    POSITION = 4
    ROW = 5
    COMMIT = 6
    DATA = 7
    OLD = 8


FIRST_COLUMN: Final = len(Slot)
PARTS: Final = 4
"""Parts of a position without the offset: streamed, number of the file, place in it, number of the row."""

_DATABASE, _TABLE, _TYPE, _MOMENT, _POSITION, _ROW, _COMMIT, _DATA, _OLD = range(9)
_READ, _CREATE, _UPDATE, _DELETE = 114, 99, 117, 100
_INSERTED, _UPDATED, _DELETED, _LOADED = word("insert"), word("update"), word("delete"), word("bootstrap-insert")
_LAST_OF_TRANSACTION = 1 << 62


def layout(columns: Iterable[str]) -> Members:
    """Returns the layout of the records of a table. Objects as values are not plain: their members might be there twice."""
    names = tuple(columns)
    data, old = (
        Members(named={name: Member(tokens=SCALARS, slot=first + index) for index, name in enumerate(names)}, closed=True)
        for first in (FIRST_COLUMN, FIRST_COLUMN + len(names))
    )
    return Members(
        named={
            "database": Member(tokens=TEXTS, slot=Slot.DATABASE),
            "table": Member(tokens=TEXTS, slot=Slot.TABLE),
            "type": Member(tokens=TEXTS, slot=Slot.TYPE),
            "ts": Member(tokens=WHOLE_NUMBERS, slot=Slot.MOMENT),
            "xid": Member(tokens=WHOLE_NUMBERS),
            "position": Member(tokens=TEXTS, slot=Slot.POSITION),
            "xoffset": Member(tokens=WHOLE_NUMBERS, slot=Slot.ROW),
            "commit": Member(tokens=tokens(NULL, FALSE, TRUE), slot=Slot.COMMIT),
            "sql": Member(tokens=ONLY_NULL),
            "data": Member(tokens=tokens(OBJECT), slot=Slot.DATA, members=data),
            "old": Member(tokens=tokens(NULL, OBJECT), slot=Slot.OLD, members=old),
            "__cdc_ops_end": Member(tokens=0),
        }
    )


@kernel(types.void(BYTES, SPANS, types.int64, BYTES, BYTES, INT64S, EVENTS, INT64S), makes_arrays=False)
def read_maxwell(
    data: Bytes, spans: Spans, rows: int, database: Bytes, table: Bytes, old_keys: Int64s, events: Events, counts: Int64s
) -> None:
    """Reads the envelopes of plain records; those that are not plain after all get `plain` 0.

    Args:
        data: The input.
        spans: The members.
        rows: How many records there are.
        database: Name of the table's database; another table's records are not plain.
        table: Name of the table.
        old_keys: Slots of the key's columns in `old`: an update that has one of them is not plain.
        events: Filled, its lists of rows too.
        counts: The lengths of the three lists, all 0; they grow.
    """
    for row in range(rows):
        if spans.plain[row] == 0:
            continue
        operation = _operation(data, spans, row)
        mine = is_text(data, spans, _DATABASE, row, database) and is_text(data, spans, _TABLE, row, table)
        known = operation != 0 and mine and spans.token[_DATA, row] == OBJECT
        if operation == _UPDATE:
            for index in range(old_keys.size):
                known = known and spans.token[old_keys[index], row] == ABSENT
        if not known or not _place(data, spans, row, operation, events):
            spans.plain[row] = 0
            continue
        note_images(events, row, operation, operation == _DELETE, counts)


@helper
def _operation(data: Bytes, spans: Spans, row: int) -> int:
    """Returns the letter of an operation on one row, 0 for all others."""
    if is_text(data, spans, _TYPE, row, _INSERTED):
        return _CREATE
    if is_text(data, spans, _TYPE, row, _UPDATED):
        return _UPDATE
    if is_text(data, spans, _TYPE, row, _DELETED):
        return _DELETE
    return _READ if is_text(data, spans, _TYPE, row, _LOADED) else 0


@helper
def _place(data: Bytes, spans: Spans, row: int, operation: int, events: Events) -> bool:
    """Reads position and moment; False if one of them is not plain."""
    if spans.token[_POSITION, row] != STRING:
        return False
    low = spans.low[_POSITION, row]
    pos, begin = digits_before(data, low, spans.high[_POSITION, row])
    if pos < 0 or begin == low or data[begin - 1] != 58:
        return False
    file_number, _ = digits_before(data, low, begin - 1)
    of_row, has_row = number_of(data, spans, _ROW, row, -1)
    if file_number < 0 or not has_row:
        return False
    if spans.token[_ROW, row] != INTEGER and spans.token[_COMMIT, row] == TRUE:
        of_row = _LAST_OF_TRANSACTION
    events.numbers[0, row] = 0 if operation == _READ else 1
    events.numbers[1, row] = file_number
    events.numbers[2, row] = pos
    events.numbers[3, row] = of_row
    events.by_offset[row] = -1
    return note_moment(data, spans, _MOMENT, row, 1000, events)
