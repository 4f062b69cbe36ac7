"""Debezium's envelopes: the layouts of a table's events, and the kernels that read what they say besides the values of columns.

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

from cdc_ops.decode.compiler import BYTES, INT64S, Bytes, Int64s, helper, kernel
from cdc_ops.decode.json.envelopes import (
    EVENTS,
    is_mariadb,
    is_none,
    is_streamed,
    is_text,
    note_images,
    note_moment,
    number_of,
    number_of_file,
    operation_of,
)
from cdc_ops.decode.json.events import Events
from cdc_ops.decode.json.grammar import ESCAPED, FALSE, INTEGER, NULL, OBJECT, STRING, TRUE
from cdc_ops.decode.json.layout import ANYTHING, ONLY_NULL, TEXTS, WHOLE_NUMBERS, Member, Members, tokens
from cdc_ops.decode.json.members import SPANS, Spans


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
    SEQUENCE = 17
    LSN = 18


FIRST_COLUMN: Final = len(Slot)
MYSQL_PARTS: Final = 5
"""Parts of a position without the offset: number of the file, place in it, streamed, order in the transaction, row."""
POSTGRES_PARTS: Final = 4
"""The same of Postgres: LSN of the commit before, LSN, streamed, order in the transaction."""

_OBJECT = tokens(NULL, OBJECT)
_FLAG = tokens(NULL, FALSE, TRUE, STRING)
_OP, _BEFORE, _AFTER, _SOURCE, _SCHEMA, _PAYLOAD, _TRANSACTION, _TOTAL = range(8)
_DATABASE, _TABLE, _FILE, _POS, _ROW, _GTID, _CONNECTOR, _SNAPSHOT, _MOMENT, _SEQUENCE, _LSN = range(8, 19)

UNKNOWN = -(1 << 62)
"""Stands for an LSN that is not plain."""


def mysql_layouts(columns: Iterable[str]) -> tuple[Members, Members]:
    """Returns the layouts of bare and of wrapped records of a table of MySQL or MariaDB."""
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
        **dict.fromkeys(("lsn", "event_serial_no", "txSeq"), Member(tokens=WHOLE_NUMBERS)),
    }
    return _layouts(tuple(columns), source)


def postgres_layouts(columns: Iterable[str]) -> tuple[Members, Members]:
    """Returns the layouts of bare and of wrapped records of a table of Postgres."""
    source = {
        "ts_ms": Member(tokens=WHOLE_NUMBERS, slot=Slot.MOMENT),
        "snapshot": Member(tokens=_FLAG, slot=Slot.SNAPSHOT),
        "sequence": Member(tokens=tokens(NULL, STRING, ESCAPED), slot=Slot.SEQUENCE),
        "schema": Member(tokens=TEXTS, slot=Slot.DATABASE),
        "table": Member(tokens=TEXTS, slot=Slot.TABLE),
        "lsn": Member(tokens=WHOLE_NUMBERS, slot=Slot.LSN),
        **dict.fromkeys(("pos", "row", "event_serial_no", "txSeq"), Member(tokens=WHOLE_NUMBERS)),
    }
    return _layouts(tuple(columns), source)


def _layouts(names: tuple[str, ...], source: dict[str, Member]) -> tuple[Members, Members]:
    bare = _body(names, source)
    wrapped = {
        "schema": Member(tokens=_OBJECT, slot=Slot.SCHEMA),
        "payload": Member(tokens=tokens(OBJECT), slot=Slot.PAYLOAD, members=Members(named=bare)),
    }
    unwrapped = {"schema": Member(tokens=ONLY_NULL), "payload": Member(tokens=ONLY_NULL)}
    return Members(named=bare | unwrapped), Members(named=wrapped, closed=True)


def _body(columns: tuple[str, ...], source: dict[str, Member]) -> dict[str, Member]:
    """Returns the members of an event. Those that the exact way looks at have to be as they nearly always are."""
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


@kernel(types.void(BYTES, SPANS, types.int64, BYTES, BYTES, EVENTS, INT64S), makes_arrays=False)
def read_mysql(data: Bytes, spans: Spans, rows: int, database: Bytes, table: Bytes, events: Events, counts: Int64s) -> None:
    """Reads the envelopes of plain records; those that are not plain after all get `plain` 0.

    Args:
        data: The input.
        spans: The members.
        rows: How many records there are.
        database: Name of the table's database; another table's records are not plain.
        table: Name of the table.
        events: Filled, its lists of rows too.
        counts: The lengths of the three lists, all 0; they grow.
    """
    for row in range(rows):
        if spans.plain[row] == 0:
            continue
        operation = _operation(data, spans, row, database, table)
        if operation == 0 or not _place_in_binlog(data, spans, row, operation, events):
            spans.plain[row] = 0
            continue
        note_images(events, row, operation, spans.token[_BEFORE, row] == OBJECT, counts)


@kernel(types.void(BYTES, SPANS, types.int64, BYTES, BYTES, EVENTS, INT64S), makes_arrays=False)
def read_postgres(data: Bytes, spans: Spans, rows: int, schema: Bytes, table: Bytes, events: Events, counts: Int64s) -> None:
    """Reads the envelopes of plain records of Postgres, as `read_mysql` does; `schema` is the name of the table's schema."""
    for row in range(rows):
        if spans.plain[row] == 0:
            continue
        operation = _operation(data, spans, row, schema, table)
        if operation == 0 or not _place_in_wal(data, spans, row, operation, events):
            spans.plain[row] = 0
            continue
        note_images(events, row, operation, spans.token[_BEFORE, row] == OBJECT, counts)


@helper
def _operation(data: Bytes, spans: Spans, row: int, schema: Bytes, table: Bytes) -> int:
    """Returns the letter of an operation on one row of the table, whose images are there; 0 for all others."""
    operation = operation_of(data, spans, _OP, row)
    if operation == 0 or spans.token[_SOURCE, row] != OBJECT or not _has_images(spans, row, operation):
        return 0
    return operation if is_text(data, spans, _DATABASE, row, schema) and is_text(data, spans, _TABLE, row, table) else 0


@helper
def _has_images(spans: Spans, row: int, operation: int) -> bool:
    """True for an insert with the row after, an update with that and maybe the row before, a delete with the row before."""
    before, after = spans.token[_BEFORE, row] == OBJECT, spans.token[_AFTER, row] == OBJECT
    if operation == 117:
        return after
    return before != after and before == (operation == 100)


@helper
def _place_in_binlog(data: Bytes, spans: Spans, row: int, operation: int, events: Events) -> bool:
    """Reads position and moment; False if one of them is not plain."""
    file_number = number_of_file(data, spans, _FILE, row)
    pos, has_pos = number_of(data, spans, _POS, row, -1)
    order, has_order = number_of(data, spans, _TOTAL, row, -1)
    of_row, has_row = number_of(data, spans, _ROW, row, 0)
    if not (has_pos and has_order and has_row) or file_number < 0 or spans.token[_POS, row] != INTEGER:
        return False
    streamed = is_streamed(data, spans, _SNAPSHOT, row, operation)
    events.numbers[0, row] = file_number
    events.numbers[1, row] = pos
    events.numbers[2, row] = 1 if streamed else 0
    events.numbers[3, row] = order
    events.numbers[4, row] = of_row
    vague = spans.token[_TOTAL, row] != INTEGER and streamed and is_mariadb(data, spans, _CONNECTOR, _GTID, row)
    events.by_offset[row] = 3 if vague else -1
    return note_moment(data, spans, _MOMENT, row, 1, events)


@helper
def _place_in_wal(data: Bytes, spans: Spans, row: int, operation: int, events: Events) -> bool:
    """Reads position and moment; False if one of them is not plain."""
    lsn, has_lsn = number_of(data, spans, _LSN, row, -1)
    order, has_order = number_of(data, spans, _TOTAL, row, -1)
    commit = commit_lsn(data, spans, _SEQUENCE, row, lsn)
    if not (has_lsn and has_order) or spans.token[_LSN, row] != INTEGER or commit == UNKNOWN:
        return False
    events.numbers[0, row] = commit
    events.numbers[1, row] = lsn
    events.numbers[2, row] = 1 if is_streamed(data, spans, _SNAPSHOT, row, operation) else 0
    events.numbers[3, row] = order
    events.by_offset[row] = -1
    return note_moment(data, spans, _MOMENT, row, 1, events)


@helper
def commit_lsn(data: Bytes, spans: Spans, slot: int, row: int, otherwise: int) -> int:
    r"""Returns the first number of a sequence `[\"24023128\",\"24023129\"]`, and `otherwise` where there is none.

    `UNKNOWN` stands for a sequence that is not plain.
    """
    if is_none(spans, slot, row):
        return otherwise
    low, high = spans.low[slot, row], spans.high[slot, row]
    if spans.token[slot, row] != ESCAPED or high - low < 6 or data[low] != 91:
        return UNKNOWN
    if data[low + 1] == 110 and data[low + 2] == 117 and data[low + 3] == 108 and data[low + 4] == 108 and data[low + 5] == 44:
        return otherwise
    if data[low + 1] != 92 or data[low + 2] != 34:
        return UNKNOWN
    number, place = 0, low + 3
    while place < high and 48 <= data[place] <= 57 and place - low < 21:
        number = number * 10 + (np.int64(data[place]) - 48)
        place += 1
    if place == low + 3 or place + 1 >= high or data[place] != 92 or data[place + 1] != 34:
        return UNKNOWN
    return number
