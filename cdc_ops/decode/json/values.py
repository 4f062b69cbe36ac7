"""The kernels that make values of members, in the cells of their columns; a record with a value that is not plain is not plain."""

# mypy: disable-error-code="return-value, assignment, arg-type, call-overload, operator"
# numba finds the types of these functions; their annotations are for readers, who need not tell int from int64.

from typing import Final

import numpy as np
from numba import types

from cdc_ops.decode.cells import Cells
from cdc_ops.decode.compiler import BYTES, BYTES_OUT, INT64S, Bytes, Int64s, helper, kernel
from cdc_ops.decode.json.encodings import EncodingArrays
from cdc_ops.decode.json.grammar import ABSENT, ESCAPED, FALSE, FRACTION, INTEGER, NULL, STRING, TRUE
from cdc_ops.decode.json.members import SPANS, Spans
from cdc_ops.decode.json.texts import (
    are_labels,
    big_endian,
    is_label,
    is_time,
    of_base64,
    of_latin,
    reverse,
    spaced_document,
    time_of_day,
    unescaped,
    without_padding,
)
from cdc_ops.decode.plain.floats import float_of_double, plain_double
from cdc_ops.decode.plain.numbers import plain_decimal, plain_integer
from cdc_ops.decode.plain.times import plain_date, plain_date_time, plain_instant
from cdc_ops.decode.program import ProgramArrays
from cdc_ops.decode.text_columns import CELLS, PROGRAM

ENCODINGS: Final = types.NamedTuple((*[types.int64[::1]] * 3, *[types.uint8[::1]] * 2), EncodingArrays)

_NULL, _VALUE, _ASIDE = 0, 1, 2
_AS_DECIMAL, _AS_FLOAT = 2, 3
_INTEGER, _UNSIGNED, _EXCEPT, _DECIMAL, _DECIMAL_BYTES, _FLOATING, _DAYS, _MICROS = range(8)
_INSTANT, _TIME, _BOOLEAN, _TEXT, _BYTES, _DOCUMENT, _BITS, _NOTHING = range(8, 16)
_DATE, _MOMENT, _CLOCK, _LABELS, _LABEL_SET, _LATIN = range(16, 22)
_FIRST_DAY, _LAST_DAY = -719_162, 2_932_896
_FIRST_MICRO, _LAST_MICRO = -62_135_596_800_000_000, 253_402_300_799_999_999
_HIGHEST = 1 << 62
_MINUS_ZERO = np.uint64(1 << 63)
_PREFIX = 5
_PADDED, _NO_OBJECT = 1, 2


@kernel(types.int64(PROGRAM, ENCODINGS, SPANS, CELLS, BYTES, INT64S, types.int64, BYTES_OUT, types.int64), makes_arrays=False)
def decode_values(
    program: ProgramArrays,
    encodings: EncodingArrays,
    spans: Spans,
    cells: Cells,
    data: Bytes,
    wanted: Int64s,
    count: int,
    aside: Bytes,
    at: int,
) -> int:
    """Makes the values of all columns of some records; `plain` becomes 0 for those with a value, or without one, that is not plain.

    Args:
        program: What the columns are.
        encodings: How their values are spelled, and where.
        spans: The members.
        cells: Filled, at the same rows.
        data: The input.
        wanted: The rows.
        count: How many they are.
        aside: Takes texts and bytes that are not in the input as they stand.
        at: Where it is free.

    Returns:
        Where it is free then.
    """
    for column in range(program.kind.size):
        slot = encodings.slot[column]
        code, argument, kind = encodings.code[column], encodings.argument[column], np.int64(program.kind[column])
        _settle_null(spans.token[slot], spans.plain, cells.state[column], wanted, count)
        if code == _NOTHING:
            _refuse(spans.token[slot], spans.plain, wanted, count)
        elif code == _INSTANT or code == _DECIMAL or code == _DATE or code == _MOMENT:
            _short_strings(program, encodings, spans, cells, data, wanted, count, column)
        elif code == _DECIMAL_BYTES or code == _BITS:
            _decimal_bytes(program, encodings, spans, cells, data, wanted, count, column, aside, at)
        elif code == _CLOCK or code == _LABELS or code == _LABEL_SET:
            _chosen_strings(encodings, spans, cells, data, wanted, count, column)
        elif code >= _TEXT:
            at = _strings(encodings, spans, cells, data, wanted, count, column, aside, at)
        elif code == _TIME:
            at = _times(encodings, spans, cells, data, wanted, count, column, aside, at)
        elif code == _FLOATING:
            _floats(spans, cells, data, wanted, count, column, slot, kind == _AS_FLOAT, argument == 1)
        else:
            width = 8 if kind == _AS_DECIMAL or code > _EXCEPT else np.int64(program.width[column])
            _numbers(spans, cells, data, wanted, count, column, slot, code, argument, width, kind == _AS_DECIMAL)
    return at


@helper
def _settle_null(tokens: Bytes, plain: Bytes, state: Bytes, wanted: Int64s, count: int) -> None:
    """Sets records aside that lack the column; what is NULL, is so."""
    for index in range(count):
        row = wanted[index]
        if tokens[row] == NULL:
            state[row] = _NULL
        elif tokens[row] == ABSENT:
            plain[row] = 0


@helper
def _settle(spans: Spans, cells: Cells, column: int, row: int, taken: bool, low: int, high: int) -> None:
    """Fills the cell of a value that was taken; sets the record of another aside."""
    if taken:
        cells.low[column, row] = low
        cells.high[column, row] = high
        cells.state[column, row] = _VALUE
    else:
        spans.plain[row] = 0


@helper
def _settle_aside(spans: Spans, cells: Cells, column: int, row: int, at: int, stop: int) -> int:
    """The same for a value that stands in the buffer up to `stop`, negative if it could not be written; returns where that is free."""
    if stop < 0:
        spans.plain[row] = 0
        return at
    cells.low[column, row] = at
    cells.high[column, row] = stop
    cells.state[column, row] = _ASIDE
    return stop


@helper
def _refuse(tokens: Bytes, plain: Bytes, wanted: Int64s, count: int) -> None:
    """Sets records aside in which the column is not NULL."""
    for index in range(count):
        if tokens[wanted[index]] != NULL:
            plain[wanted[index]] = 0


@helper
def _numbers(
    spans: Spans,
    cells: Cells,
    data: Bytes,
    wanted: Int64s,
    count: int,
    column: int,
    slot: int,
    code: int,
    argument: int,
    width: int,
    decimal: bool,
) -> None:
    """Reads whole numbers, true and false."""
    for index in range(count):
        row = wanted[index]
        token = spans.token[slot, row]
        if token == NULL or spans.plain[row] == 0:
            continue
        number, taken = 0, False
        quoted = token == STRING and (code <= _EXCEPT or code == _BOOLEAN)
        if token == INTEGER or quoted:
            number, taken = plain_integer(data, spans.low[slot, row], spans.high[slot, row], width)
            if code == _UNSIGNED:
                taken = taken and number >= 0
            elif code == _EXCEPT:
                taken = taken and number != argument
            elif code == _DAYS:
                taken = taken and _FIRST_DAY <= number <= _LAST_DAY
            elif code == _MICROS:
                taken = taken and -_HIGHEST // argument < number < _HIGHEST // argument and _FIRST_MICRO <= number * argument <= _LAST_MICRO
                number *= argument
            elif code == _BOOLEAN:
                taken = taken and argument == 1 and 0 <= number <= 1
        elif token == TRUE or token == FALSE:
            number = 1 if token == TRUE else 0
            taken = code == _BOOLEAN or (code == _INTEGER and not decimal)
        _settle(spans, cells, column, row, taken, number, -1 if number < 0 and decimal else 0)


@helper
def _floats(
    spans: Spans, cells: Cells, data: Bytes, wanted: Int64s, count: int, column: int, slot: int, single: bool, unsigned_zero: bool
) -> None:
    """Reads floating-point numbers."""
    for index in range(count):
        row = wanted[index]
        token = spans.token[slot, row]
        if token == NULL or spans.plain[row] == 0:
            continue
        bits, taken, start = np.uint64(0), False, spans.low[slot, row]
        # Spark reads -0 as an integer, which has no sign then; -0.0 keeps it.
        without_sign = token == INTEGER and data[start] == 45 and data[start + 1] == 48
        if (token == INTEGER or token == FRACTION or token == STRING) and not without_sign:
            bits, taken = plain_double(data, start, spans.high[slot, row])
            taken = taken and not (unsigned_zero and token != STRING and bits == _MINUS_ZERO)
            if taken and single:
                bits, taken = float_of_double(bits)
        _settle(spans, cells, column, row, taken, np.int64(bits), 0)


@helper
def _short_strings(
    program: ProgramArrays, encodings: EncodingArrays, spans: Spans, cells: Cells, data: Bytes, wanted: Int64s, count: int, column: int
) -> None:
    """Reads decimals, dates, local times and instants."""
    slot, argument, code = encodings.slot[column], encodings.argument[column], encodings.code[column]
    precision, scale = np.int64(program.precision[column]), np.int64(program.scale[column])
    for index in range(count):
        row = wanted[index]
        token, low, high = spans.token[slot, row], spans.low[slot, row], spans.high[slot, row]
        if token == NULL or spans.plain[row] == 0:
            continue
        first, second, taken = 0, 0, False
        if code == _DECIMAL:
            if token == STRING or (argument == 1 and (token == INTEGER or token == FRACTION)):
                first, second, taken = plain_decimal(data, low, high, precision, scale)
        elif token != STRING:
            pass
        elif code == _DATE:
            first, taken = plain_date(data, low, high)
        elif code == _MOMENT:
            if high - low >= 19:
                first, taken = plain_date_time(data, low, high, 84 if data[low + 10] == 84 else 32)
                first -= argument
                taken = taken and _FIRST_MICRO <= first <= _LAST_MICRO
        else:
            first, taken = plain_instant(data, low, high, 84)
            is_zero = argument == 1 and 0 <= first < 1_000_000
            taken = taken and not is_zero and _FIRST_MICRO <= first <= _LAST_MICRO
        _settle(spans, cells, column, row, taken, first, second)


@helper
def _decimal_bytes(
    program: ProgramArrays,
    encodings: EncodingArrays,
    spans: Spans,
    cells: Cells,
    data: Bytes,
    wanted: Int64s,
    count: int,
    column: int,
    aside: Bytes,
    at: int,
) -> None:
    """Reads decimals from the bytes of their unscaled numbers, and bits; the bytes are written behind what is put aside, and forgotten."""
    slot, precision, is_bits = encodings.slot[column], np.int64(program.precision[column]), encodings.code[column] == _BITS
    decimal = program.kind[column] == _AS_DECIMAL
    limit = 1
    for _ in range(min(precision, 18)):
        limit *= 10
    if not decimal:
        limit = 1 << min(8 * np.int64(program.width[column]) - 1, 62)
    for index in range(count):
        row = wanted[index]
        token, low, high = spans.token[slot, row], spans.low[slot, row], spans.high[slot, row]
        if token == NULL or spans.plain[row] == 0:
            continue
        if is_bits and (token == TRUE or token == FALSE):
            _settle(spans, cells, column, row, True, 1 if token == TRUE else 0, 0)
            continue
        stop = -1
        if token == STRING and high - low <= 12 and at + 64 <= aside.size:
            stop = of_base64(data, low, high, aside, at)
        if not 1 <= stop - at <= 8:
            spans.plain[row] = 0
            continue
        if is_bits:
            reverse(aside, at, stop)
        number = big_endian(aside, at, stop)
        taken = (precision > 18 or -limit < number < limit) and not (is_bits and (number < 0 or stop - at > 7))
        _settle(spans, cells, column, row, taken, number, -1 if number < 0 else 0)


@helper
def _times(
    encodings: EncodingArrays,
    spans: Spans,
    cells: Cells,
    data: Bytes,
    wanted: Int64s,
    count: int,
    column: int,
    aside: Bytes,
    at: int,
) -> int:
    """Writes times as text; returns where the buffer is free then."""
    slot, fraction = encodings.slot[column], encodings.argument[column]
    for index in range(count):
        row = wanted[index]
        token = spans.token[slot, row]
        if token == NULL or spans.plain[row] == 0:
            continue
        stop = -1
        if token == INTEGER and at + 64 <= aside.size:
            micros, taken = plain_integer(data, spans.low[slot, row], spans.high[slot, row], 8)
            if taken:
                stop = time_of_day(micros, fraction, aside, at)
        at = _settle_aside(spans, cells, column, row, at, stop)
    return at


@helper
def _chosen_strings(encodings: EncodingArrays, spans: Spans, cells: Cells, data: Bytes, wanted: Int64s, count: int, column: int) -> None:
    """Reads strings that are taken as they stand, if they are times or labels."""
    slot, code, argument, words = encodings.slot[column], encodings.code[column], encodings.argument[column], encodings.words
    for index in range(count):
        row = wanted[index]
        token, low, high = spans.token[slot, row], spans.low[slot, row], spans.high[slot, row]
        if token == NULL or spans.plain[row] == 0:
            continue
        taken = False
        if token == STRING:
            if code == _CLOCK:
                taken = is_time(data, low, high, argument)
            elif code == _LABELS:
                taken = is_label(words, argument, data, low, high)
            else:
                taken = are_labels(words, argument, data, low, high)
        _settle(spans, cells, column, row, taken, low, high)


@helper
def _strings(
    encodings: EncodingArrays,
    spans: Spans,
    cells: Cells,
    data: Bytes,
    wanted: Int64s,
    count: int,
    column: int,
    aside: Bytes,
    at: int,
) -> int:
    """Reads texts, documents and bytes; returns where the buffer is free then."""
    slot, code, argument, refused = encodings.slot[column], encodings.code[column], encodings.argument[column], encodings.refused
    for index in range(count):
        row = wanted[index]
        token, low, high = spans.token[slot, row], spans.low[slot, row], spans.high[slot, row]
        if token == NULL or spans.plain[row] == 0:
            continue
        stop = -1
        if token == STRING and not _is_refused(refused, data, low, high):
            if code == _TEXT:
                taken = argument != _NO_OBJECT or high == low or data[low] != 123
                _settle(spans, cells, column, row, taken, low, without_padding(data, low, high) if argument == _PADDED else high)
                continue
            if at + 3 * (high - low) + 512 <= aside.size:
                stop = _of_plain_string(data, low, high, code, argument, aside, at)
        elif token == ESCAPED and code != _BYTES and at + 3 * (high - low) + 512 <= aside.size:
            stop = unescaped(data, low, high, aside, at, 0 if code == _LATIN else 1)
            if stop >= 0 and _is_refused(refused, aside, at, stop):
                stop = -1
            if stop >= 0 and code == _DOCUMENT:
                low, high, at = at, stop, stop
                stop = spaced_document(aside, low, high, aside, at)
            elif stop >= 0 and code == _LATIN:
                low, high, at = at, stop, stop
                stop = _of_plain_string(aside, low, high, code, argument, aside, at)
            elif stop >= 0 and argument == _PADDED:
                stop = without_padding(aside, at, stop)
            elif stop > at and argument == _NO_OBJECT and aside[at] == 123:
                stop = -1
        at = _settle_aside(spans, cells, column, row, at, stop)
    return at


@helper
def _of_plain_string(data: Bytes, low: int, high: int, code: int, argument: int, aside: Bytes, at: int) -> int:
    """Writes a document, or bytes; returns the place behind them."""
    if code == _DOCUMENT:
        return spaced_document(data, low, high, aside, at)
    stop = of_latin(data, low, high, aside, at) if code == _LATIN else of_base64(data, low, high, aside, at)
    if stop >= 0:
        while stop - at < argument:
            aside[stop] = 0
            stop += 1
    return stop


@helper
def _is_refused(refused: Bytes, data: Bytes, low: int, high: int) -> bool:
    """True for a string that begins like one of those that are no values."""
    if high - low < _PREFIX:
        return False
    for begin in range(0, refused.size, _PREFIX):
        same = 0
        while same < _PREFIX and refused[begin + same] == data[low + same]:
            same += 1
        if same == _PREFIX:
            return True
    return False
