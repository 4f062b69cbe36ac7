"""Canal's messages, and TiCDC's: the layout of those of a table, and the kernel that reads what they say besides the values of columns.

{"database": "shop", "table": "orders", "isDdl": false, "type": "UPDATE", "es": 1709283600000, "data": [{…}], "old": [{…}]}

A message with several rows is not plain.
"""

# mypy: disable-error-code="return-value, assignment, arg-type, no-any-return"
# numba finds the types of these functions; their annotations are for readers, who need not tell int from int64.

from collections.abc import Iterable
from enum import IntEnum
from typing import Final

from numba import types

from cdc_ops.decode.compiler import BYTES, INT64S, Bytes, Int64s, helper, kernel
from cdc_ops.decode.json.envelopes import EVENTS, is_none, is_text, note_images, note_moment, number_of, word
from cdc_ops.decode.json.events import Events
from cdc_ops.decode.json.grammar import ABSENT, FALSE, INTEGER, NULL, OBJECT
from cdc_ops.decode.json.layout import ANYTHING, TEXTS, WHOLE_NUMBERS, Member, Members, tokens
from cdc_ops.decode.json.members import SPANS, Spans


class Slot(IntEnum):
    """Slots of an envelope's members; those of the columns follow, first of `data` and then of `old`."""

    DATABASE = 0
    TABLE = 1
    TYPE = 2
    MOMENT = 3
    DATA = 4
    OLD = 5
    TIDB = 6
    COMMIT = 7
    ELSEWHERE = 8


FIRST_COLUMN: Final = len(Slot)

_DATABASE, _TABLE, _TYPE, _MOMENT, _DATA, _OLD, _TIDB, _COMMIT, _ELSEWHERE = range(9)
_CREATE, _UPDATE, _DELETE = 99, 117, 100
_INSERTED, _UPDATED, _DELETED = word("INSERT"), word("UPDATE"), word("DELETE")


def layout(columns: Iterable[str]) -> Members:
    """Returns the layout of the messages of a table with one row."""
    names = tuple(columns)
    data, old = (
        Members(named={name: Member(tokens=ANYTHING, slot=first + index) for index, name in enumerate(names)}, closed=True, listed=True)
        for first in (FIRST_COLUMN, FIRST_COLUMN + len(names))
    )
    tidb = {
        "commitTs": Member(tokens=WHOLE_NUMBERS, slot=Slot.COMMIT),
        "watermarkTs": Member(tokens=WHOLE_NUMBERS),
        "onlyHandleKey": Member(tokens=tokens(NULL, FALSE)),
        "claimCheckLocation": Member(tokens=TEXTS, slot=Slot.ELSEWHERE),
    }
    return Members(
        named={
            "database": Member(tokens=TEXTS, slot=Slot.DATABASE),
            "table": Member(tokens=TEXTS, slot=Slot.TABLE),
            "isDdl": Member(tokens=tokens(NULL, FALSE)),
            "type": Member(tokens=TEXTS, slot=Slot.TYPE),
            "es": Member(tokens=WHOLE_NUMBERS, slot=Slot.MOMENT),
            "data": Member(tokens=tokens(OBJECT), slot=Slot.DATA, members=data),
            "old": Member(tokens=tokens(NULL, OBJECT), slot=Slot.OLD, members=old),
            "_tidb": Member(tokens=tokens(NULL, OBJECT), slot=Slot.TIDB, members=Members(named=tidb)),
            "__cdc_ops_end": Member(tokens=0),
        }
    )


@kernel(types.void(BYTES, SPANS, types.int64, BYTES, BYTES, INT64S, types.boolean, EVENTS, INT64S), makes_arrays=False)
def read_canal(
    data: Bytes,
    spans: Spans,
    rows: int,
    database: Bytes,
    table: Bytes,
    old_keys: Int64s,
    of_tidb: bool,
    events: Events,
    counts: Int64s,
) -> None:
    """Reads the envelopes of plain messages; those that are not plain after all get `plain` 0.

    The place of a message of Canal is its offset and the number of the row, which is 0; that of TiCDC begins with the time of the commit.

    Args:
        data: The input.
        spans: The members.
        rows: How many messages there are.
        database: Name of the table's database; another table's messages are not plain.
        table: Name of the table.
        old_keys: Slots of the key's columns in `old`: an update that has one of them is not plain.
        of_tidb: True for messages of TiCDC.
        events: Filled, its lists of rows too.
        counts: The lengths of the three lists, all 0; they grow.
    """
    for row in range(rows):
        if spans.plain[row] == 0:
            continue
        operation = _operation(data, spans, row)
        mine = is_text(data, spans, _DATABASE, row, database) and is_text(data, spans, _TABLE, row, table)
        known = operation != 0 and mine and spans.token[_DATA, row] == OBJECT
        known = known and (is_none(spans, _ELSEWHERE, row) or spans.low[_ELSEWHERE, row] == spans.high[_ELSEWHERE, row])
        if operation == _UPDATE:
            for index in range(old_keys.size):
                known = known and spans.token[old_keys[index], row] == ABSENT
        commit, taken = number_of(data, spans, _COMMIT, row, -1)
        if of_tidb:
            known = known and taken and spans.token[_COMMIT, row] == INTEGER
        if not known or not note_moment(data, spans, _MOMENT, row, 1, events):
            spans.plain[row] = 0
            continue
        events.numbers[0, row] = commit
        events.numbers[1, row] = 0
        events.numbers[events.numbers.shape[0] - 1, row] = 0
        events.by_offset[row] = -1 if of_tidb else 0
        note_images(events, row, operation, operation == _DELETE, counts)


@helper
def _operation(data: Bytes, spans: Spans, row: int) -> int:
    """Returns the letter of an operation on one row, 0 for all others."""
    if is_text(data, spans, _TYPE, row, _INSERTED):
        return _CREATE
    if is_text(data, spans, _TYPE, row, _UPDATED):
        return _UPDATE
    return _DELETE if is_text(data, spans, _TYPE, row, _DELETED) else 0
