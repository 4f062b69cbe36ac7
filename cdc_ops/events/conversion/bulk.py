"""Columns of values at once: what most records have is plain, and a rule for it stands beside the rule for a single value.

Such a rule (`Bulk`) may be as narrow as it likes, and never more lenient: what it does not take is read value by value.
"""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cdc_ops.core.schema.tables import Column
from cdc_ops.decode.program import Field
from cdc_ops.events.format import Bulk, Read, Reader

FIRST_DAY, LAST_DAY = -719_162, 2_932_896
"""0001-01-01 and 9999-12-31, in days since 1970."""
NARROW: Final = 18
"""Digits of decimals that are numbers of 64 bits."""
_DAY: Final = 86_400_000_000


def quick(read: Read, bulk: Bulk | None) -> Read:
    """Says how many values are read at once by the rule of `read`, and returns `read`; None = there is no quicker way."""
    if bulk is not None:
        read.bulk = bulk  # type: ignore[attr-defined]  # a table of both would keep each for ever, because `bulk` may hold `read`
    return read


def bulk_of(read: Read) -> Bulk | None:
    """Returns how many values are read at once by the rule of `read`, None if there is no quicker way."""
    return getattr(read, "bulk", None)


def reader_of(read: Read, untyped: str = "") -> Reader:
    """Returns the reader of a rule."""
    return Reader(read=read, bulk=bulk_of(read), untyped=untyped)


def first_of(*bulks: Bulk) -> Bulk:
    """Returns what reads a column in the first of some ways that takes it."""

    def read(cells: Sequence[Any]) -> pa.Array:
        found = {*map(type, cells)} - {type(None)}
        able = [bulk for bulk in bulks if found <= {*bulk.kinds}]
        for bulk in able[:-1]:
            try:
                return bulk.read(cells)
            except ValueError:
                pass
        if not able:
            raise ValueError("of several kinds")
        return able[-1].read(cells)

    return Bulk(tuple(dict.fromkeys(kind for bulk in bulks for kind in bulk.kinds)), read)


def stored_as(column: Column, bulk: Bulk) -> Bulk:
    """Returns what reads whole numbers into the stored type of a column."""
    kind = Field.of("", column.delta_type).arrow
    return bulk.then(lambda found: found.cast(kind))


def _of_64_bits(found: Sequence[int | None]) -> pa.Array:
    try:
        return pa.array(found, pa.int64())
    except OverflowError as error:
        raise ValueError(str(error)) from None


INTEGERS: Final = Bulk((int,), _of_64_bits)
"""Reads whole numbers of 64 bits."""
BOOLEANS: Final = Bulk((bool,), lambda cells: pa.array(cells, pa.bool_()))
"""Reads `true` and `false`."""
BITS: Final = BOOLEANS.then(lambda found: found.cast(pa.int64()))
"""Reads `true` and `false` as 1 and 0."""
ONES: Final = INTEGERS.then(lambda found: within(found, 0, 1).cast(pa.bool_()))
"""Reads 1 and 0 as true and false."""
FLOATS: Final = Bulk((float,), lambda cells: pa.array(cells, pa.float64()))
"""Reads numbers of 64 bits."""
TEXTS: Final = Bulk((str,), lambda cells: pa.array(cells, pa.string()))
"""Reads texts as they are."""
OCTETS: Final = Bulk((bytes,), lambda cells: pa.array(cells, pa.binary()))
"""Reads bytes in base64."""


def matching(pattern: str) -> Bulk:
    """Returns what reads texts that match a pattern, all of them."""
    return TEXTS.then(lambda found: _matched(found, pattern))


def digits(pattern: str) -> Bulk:
    """The same of numbers, each of which may be a JSON number or a text."""
    texts = matching(pattern)
    return first_of(texts, Bulk((int, str), lambda cells: texts.read([str(one) if one.__class__ is int else one for one in cells])))


def _matched(found: pa.Array, pattern: str) -> pa.Array:
    if pc.all(pc.match_substring_regex(found, rf"\A(?:{pattern})\z")).as_py() is False:
        raise ValueError("not plain")
    return found


def within(found: pa.Array, lowest: int, highest: int) -> pa.Array:
    """Returns numbers unless one is beyond some limits."""
    extremes = pc.min_max(found)
    if extremes["min"].is_valid and not lowest <= extremes["min"].as_py() <= extremes["max"].as_py() <= highest:
        raise ValueError("beyond the limits")
    return found


def days(found: pa.Array) -> pa.Array:
    """Returns days since 1970 as dates of the years 1 to 9999."""
    return within(found.cast(pa.int32()), FIRST_DAY, LAST_DAY).view(pa.date32())


def moments(micros: pa.Array, zone: str | None = None) -> pa.Array:
    """Returns microseconds since 1970, of the years 1 to 9999, as timestamps."""
    return within(micros.cast(pa.int64()), FIRST_DAY * _DAY, (LAST_DAY + 1) * _DAY - 1).view(pa.timestamp("us", tz=zone))


def float32(found: pa.Array) -> pa.Array:
    """Rounds numbers of 64 bits to 32, unless one of them may have been rounded before."""
    wide = found.fill_null(0.0).to_numpy()
    with np.errstate(over="ignore", under="ignore"):
        near = wide.astype(np.float32)
    if ((wide.view(np.int64) & 0x0FFFFFFF == 0) & (near != wide)).any():
        raise ValueError("half way between two numbers")
    return pa.array(near, pa.float32(), mask=found.is_null().to_numpy(zero_copy_only=False))


def finite(found: pa.Array) -> pa.Array:
    """Returns numbers, unless one of them is infinite: its digits were too large."""
    if np.isinf(found.fill_null(0.0).to_numpy()).any():
        raise ValueError("an infinite number")
    return found


def scaled(found: Sequence[int | None], precision: int, scale: int) -> pa.Array:
    """Returns decimals of up to 18 digits from their digits as whole numbers."""
    limit = 10**precision - 1
    low = within(_of_64_bits(found), -limit, limit)
    wide = np.empty((len(low), 2), np.int64)
    wide[:, 0] = low.fill_null(0).to_numpy()
    wide[:, 1] = wide[:, 0] >> 63
    return pa.Array.from_buffers(pa.decimal128(precision, scale), len(low), [low.buffers()[0], pa.py_buffer(wide.tobytes())])
