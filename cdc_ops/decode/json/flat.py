"""Debezium's flat records, of ExtractNewRecordState: their layouts, and the kernels that read what they say besides the values of columns.

{"id": 1, "name": "Lee", "__deleted": "false", "__op": "u", "__source_file": "binlog.000003", …}        bare
{"schema": {…}, "payload": {"id": 1, "name": "Lee", "__deleted": "false", "__op": "u", …}}              wrapped
"""

# mypy: disable-error-code="return-value, assignment, arg-type, no-any-return"
# numba finds the types of these functions; their annotations are for readers, who need not tell int from int64.

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import Final

from numba import types

from cdc_ops.decode.compiler import BYTES, INT64S, Bytes, Int64s, helper, kernel
from cdc_ops.decode.json.debezium import UNKNOWN, commit_lsn
from cdc_ops.decode.json.envelopes import (
    EVENTS,
    is_mariadb,
    is_none,
    is_text,
    is_text_or_none,
    note_images,
    note_moment,
    number_of,
    number_of_file,
    operation_of,
    word,
)
from cdc_ops.decode.json.events import Events
from cdc_ops.decode.json.grammar import ABSENT, FALSE, INTEGER, NULL, OBJECT, TRUE
from cdc_ops.decode.json.layout import Member, Members, tokens
from cdc_ops.decode.json.members import SPANS, Spans


class Slot(IntEnum):
    """Slots of what is no column; those of other added fields follow, and then those of the columns."""

    OP = 0
    DELETED = 1
    SCHEMA = 2
    PAYLOAD = 3
    TOTAL_ORDER = 4
    DATABASE = 5
    TABLE = 6
    FILE = 7
    POS = 8
    ROW = 9
    GTID = 10
    CONNECTOR = 11
    MOMENT = 12
    SEQUENCE = 13
    LSN = 14


_OP, _DELETED, _SCHEMA, _PAYLOAD, _TOTAL, _DATABASE, _TABLE, _FILE = range(8)
_POS, _ROW, _GTID, _CONNECTOR, _MOMENT, _SEQUENCE, _LSN = range(8, 15)
_WORD_TRUE, _WORD_FALSE = word("true"), word("false")
_DELETE = 100
FIRST_FREE: Final = len(Slot)


def layouts(columns: Iterable[str], added: Mapping[str, int]) -> tuple[Members, Members]:
    """Returns the layouts of bare and of wrapped records; all members have a slot, so that none can be there twice.

    Args:
        columns: Names of the table's columns.
        added: The slots of other members by their names; those of the columns follow the largest one.
    """
    first = max(FIRST_FREE, *(slot + 1 for slot in added.values()))
    row = {name: Member(slot=first + index) for index, name in enumerate(columns)} | {
        name: Member(slot=slot) for name, slot in added.items()
    }
    wrapped = {
        "schema": Member(tokens=tokens(NULL, OBJECT), slot=Slot.SCHEMA),
        "payload": Member(tokens=tokens(OBJECT), slot=Slot.PAYLOAD, members=Members(named=row, closed=True)),
    }
    return Members(named=row, closed=True), Members(named=wrapped, closed=True)


@kernel(types.void(BYTES, SPANS, types.int64, BYTES, BYTES, types.boolean, EVENTS, INT64S), makes_arrays=False)
def read_flat_mysql(
    data: Bytes, spans: Spans, rows: int, database: Bytes, table: Bytes, names_table: bool, events: Events, counts: Int64s
) -> None:
    """Reads the envelopes of plain flat records of MySQL or MariaDB; those that are not plain after all get `plain` 0.

    Args:
        data: The input.
        spans: The members.
        rows: How many records there are.
        database: Name of the table's database.
        table: Name of the table.
        names_table: True if records say of which table they are: another table's records are not plain.
        events: Filled, its lists of rows too.
        counts: The lengths of the three lists, all 0; they grow.
    """
    for row in range(rows):
        if spans.plain[row] == 0:
            continue
        operation = _operation(data, spans, row, database, table, names_table)
        if operation == 0 or not _place_in_binlog(data, spans, row, operation, events):
            spans.plain[row] = 0
            continue
        note_images(events, row, operation, operation == _DELETE, counts)


@kernel(types.void(BYTES, SPANS, types.int64, BYTES, BYTES, types.boolean, EVENTS, INT64S), makes_arrays=False)
def read_flat_postgres(
    data: Bytes, spans: Spans, rows: int, schema: Bytes, table: Bytes, names_table: bool, events: Events, counts: Int64s
) -> None:
    """Reads the envelopes of plain flat records of Postgres, as `read_flat_mysql` does; `schema` is the name of the table's schema."""
    for row in range(rows):
        if spans.plain[row] == 0:
            continue
        operation = _operation(data, spans, row, schema, table, names_table)
        if operation == 0 or not _place_in_wal(data, spans, row, operation, events):
            spans.plain[row] = 0
            continue
        note_images(events, row, operation, operation == _DELETE, counts)


@helper
def _operation(data: Bytes, spans: Spans, row: int, schema: Bytes, table: Bytes, names_table: bool) -> int:
    """Returns the letter of an operation on one row of the table, 0 for all others: also for a delete that one of two fields denies."""
    if spans.token[_PAYLOAD, row] == OBJECT and spans.token[_SCHEMA, row] == ABSENT:  # no schema around it
        return 0
    token = spans.token[_DELETED, row]
    deleted = token == TRUE or is_text(data, spans, _DELETED, row, _WORD_TRUE)
    if not deleted and token != FALSE and token != ABSENT and not is_text(data, spans, _DELETED, row, _WORD_FALSE):
        return 0
    operation = operation_of(data, spans, _OP, row)
    if (operation == _DELETE) != deleted:
        return 0
    mine = not names_table or (is_text(data, spans, _DATABASE, row, schema) and is_text(data, spans, _TABLE, row, table))
    return operation if mine else 0


@helper
def _place_in_binlog(data: Bytes, spans: Spans, row: int, operation: int, events: Events) -> bool:
    """Reads position and moment; False if one of them is not plain."""
    file_number = number_of_file(data, spans, _FILE, row)
    pos, has_pos = number_of(data, spans, _POS, row, -1)
    order, has_order = number_of(data, spans, _TOTAL, row, -1)
    of_row, has_row = number_of(data, spans, _ROW, row, 0)
    if not (has_pos and has_order and has_row) or file_number < 0 or spans.token[_POS, row] != INTEGER or spans.token[_ROW, row] == ABSENT:
        return False
    if not (is_text_or_none(spans, _CONNECTOR, row) and is_text_or_none(spans, _GTID, row)):
        return False
    streamed = operation != 114
    events.numbers[0, row] = file_number
    events.numbers[1, row] = pos
    events.numbers[2, row] = 1 if streamed else 0
    events.numbers[3, row] = order
    events.numbers[4, row] = of_row
    unsaid = is_none(spans, _CONNECTOR, row) and is_none(spans, _GTID, row)
    vague = spans.token[_TOTAL, row] != INTEGER and streamed and (unsaid or is_mariadb(data, spans, _CONNECTOR, _GTID, row))
    events.by_offset[row] = 3 if vague else -1
    return note_moment(data, spans, _MOMENT, row, 1, events)


@helper
def _place_in_wal(data: Bytes, spans: Spans, row: int, operation: int, events: Events) -> bool:
    """Reads position and moment; False if one of them is not plain."""
    lsn, has_lsn = number_of(data, spans, _LSN, row, -1)
    order, has_order = number_of(data, spans, _TOTAL, row, -1)
    commit = commit_lsn(data, spans, _SEQUENCE, row, lsn)
    known = has_lsn and has_order and spans.token[_LSN, row] == INTEGER and spans.token[_SEQUENCE, row] != ABSENT
    if not known or commit == UNKNOWN:
        return False
    events.numbers[0, row] = commit
    events.numbers[1, row] = lsn
    events.numbers[2, row] = 1 if operation != 114 else 0
    events.numbers[3, row] = order
    events.by_offset[row] = -1
    return note_moment(data, spans, _MOMENT, row, 1, events)
