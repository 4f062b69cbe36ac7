"""The protocol of formats of change records.

A format is opened with its options, once for a scan. It reads records in two steps, so that a topic with many tables is parsed once:
`envelopes` takes a record apart without knowing any table, `reader` says how the text of one column's values becomes the stored value.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cache
from typing import Any, Final, Protocol, Union, runtime_checkable

import msgspec
import pyarrow as pa

from cdc_ops.core.events.format_spec import FormatSpec
from cdc_ops.core.schema.tables import Column
from cdc_ops.events.record import Envelope, FieldType, Record


class NoValue(Enum):
    """What a reader returns in place of a value."""

    UNREADABLE = "unreadable"
    """The text is not a value of the column: the record is bad."""
    UNSTORABLE = "unstorable"
    """The source has such values, the stored type has not, such as the date 0000-00-00: NULL stands for it, or the record is bad."""


UNREADABLE: Final = NoValue.UNREADABLE
UNSTORABLE: Final = NoValue.UNSTORABLE

Read = Callable[[str], Any]
"""Text of a value -> the stored value, or `NoValue`. Never NULL: a reader is not asked for NULLs.

Stored values: int, bool, float, str, bytes, `Decimal`; a date is an int (days since 1970), a timestamp an int (microseconds since 1970, of
an instant in UTC, of a local time as if it were UTC).
"""


def unreadable(_: str) -> NoValue:
    """Reads nothing: how such values are written is not known."""
    return UNREADABLE


_MINUS_ZERO: Final = re.compile(rb"-0\s*[,\]]")


@dataclass(frozen=True, slots=True)
class Bulk:
    """How many values are read at once, if all of them are plain: exactly as `Read` reads each.

    Args:
        kinds: What their JSON is parsed as: of `int`, `float`, `bool`, and `str` or, for base64, `bytes`.
        read: Values so parsed, None for NULL -> the stored values, as an array of the column's type. For what is not plain it raises
            `ValueError` (so do msgspec and Arrow), and every value is read by itself.
    """

    kinds: tuple[type, ...]
    read: Callable[[Sequence[Any]], pa.Array]

    def then(self, change: Callable[[pa.Array], pa.Array]) -> "Bulk":
        """Returns what changes the values that this reads."""
        return Bulk(self.kinds, lambda cells: change(self.read(cells)))

    def of_json(self, data: bytes) -> pa.Array:
        """Reads a JSON array of values, as records spell them.

        Raises:
            ValueError: they are not plain.
        """
        if _MINUS_ZERO.search(data) and {int, float} & {*self.kinds}:
            raise ValueError("-0")  # which msgspec takes for 0
        return self.read(_decoder_of(self.kinds).decode(data))


@cache
def _decoder_of(kinds: tuple[type, ...]) -> Any:
    return msgspec.json.Decoder(list[Union[*kinds, None]])  # type: ignore[valid-type]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reader:
    """How the values of a column are read.

    Args:
        read: Reads one value.
        bulk: Reads many at once; None = there is no quicker way.
        untyped: Shown behind the reason where a record lacks the types without which the text cannot be read; empty = not needed.
    """

    read: Read
    bulk: Bulk | None = None
    untyped: str = ""


class Format(Protocol):
    """A format of change records, opened with its options. Third parties implement it; `cdc_ops.testing.format_suite` checks them."""

    @property
    def spec(self) -> FormatSpec:
        """What the format declares of itself."""
        ...

    def envelopes(self, record: Record) -> Sequence[Envelope]:
        """Takes a record apart; at least one envelope. Records without a value, and those that are not UTF-8, do not come here.

        Raises:
            msgspec.DecodeError: it is not JSON of this format. The record is bad then.
            NotOfFormatError: it is not of this format, for a reason that can be told.
        """
        ...

    def reader(self, column: Column, kind: FieldType | None) -> Reader:
        """Returns how values of a column are read.

        Args:
            column: The column; results have its stored type.
            kind: How the record says that the value is written, None if it does not.
        """
        ...


@runtime_checkable
class ReadsAtOnce(Protocol):
    """A format that reads many records at once, which is quicker; `Format` is enough for all others."""

    def envelopes_of_each(self, records: Sequence[Record]) -> Sequence[Sequence[Envelope]]:
        """Returns what `Format.envelopes` returns of each of some records; images may be left as the JSON that they are.

        Raises:
            msgspec.DecodeError, NotOfFormatError: one of them is not of this format. Each is asked for by itself then.
        """
        ...
