"""How events spell the values of columns. Each encoding says what is plain; every other value sets its record aside."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

import numpy as np
import numpy.typing as npt


class Encoding(IntEnum):
    """What the value of a member is, by its token and its text; NULL is plain in all of them."""

    INTEGER = 0
    """A whole number, or a string with one; true and false are 1 and 0. Into an integer, or a decimal without fraction."""
    UNSIGNED = 1
    """A whole number from 0 to 2^63 - 1, or a string with one."""
    EXCEPT = 2
    """A whole number, not the one that is the argument; or a string with one."""
    DECIMAL = 3
    """A string with a decimal; if the argument is 1, also a number with its digits as they are."""
    DECIMAL_BYTES = 4
    """A string with at most eight bytes in base64: the unscaled number, of the column's scale."""
    FLOATING = 5
    """A number, or a string with one, into a float or a double; if the argument is 1, not a number that is -0.0."""
    DAYS = 6
    """Days since 1970, of the years 1 to 9999."""
    MICROS = 7
    """Units since 1970, of the years 1 to 9999; the argument says how many microseconds a unit has."""
    INSTANT = 8
    """A string such as 2024-02-29T12:00:00.123456Z. Not within the second 0 if the argument is 1."""
    TIME = 9
    """Microseconds of a time, into its text; the argument is the number of digits behind the point, -1 for as many as are not zeros."""
    BOOLEAN = 10
    """true or false; if the argument is 1, also 0 and 1, or strings with them."""
    TEXT = 11
    """A string; without the blanks at its end if the argument is 1. Not one that begins with a brace if it is 2."""
    BYTES = 12
    """A string with base64; fewer bytes than the argument are filled up with zeros."""
    DOCUMENT = 13
    """A string with a JSON document, into one with a blank behind each separator."""
    BITS = 14
    """A string with at most seven bytes in base64, least significant first; true and false are 1 and 0. Into a whole number."""
    NOTHING = 15
    """No value but NULL."""
    DATE = 16
    """A string with a date such as 2024-02-29."""
    MOMENT = 17
    """A string with date and time, without a zone; the argument says how many microseconds its zone is ahead of UTC."""
    CLOCK = 18
    """A string with a time as its column prints it; the argument is the number of digits behind the point."""
    LABELS = 19
    """A string that is one of some words, or empty; the argument says where these begin among all words."""
    LABEL_SET = 20
    """The same for several of the words, with commas between them."""
    LATIN = 21
    """A string of which each sign is a byte; fewer bytes than the argument are filled up with zeros."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Encoded:
    """How the values of one column are spelled."""

    encoding: Encoding
    argument: int = 0


class EncodingArrays(NamedTuple):
    """What kernels read of encodings, one element a column.

    Args:
        code: Of `Encoding`, int64.
        argument: Its argument, int64.
        slot: Of the member that has the value, int64.
        refused: Beginnings of strings that are no values, five bytes each, uint8.
        words: The words of columns: of each their number, and of each word its length and its bytes; numbers have two bytes, uint8.
    """

    code: npt.NDArray[np.int64]
    argument: npt.NDArray[np.int64]
    slot: npt.NDArray[np.int64]
    refused: npt.NDArray[np.uint8]
    words: npt.NDArray[np.uint8]

    @classmethod
    def of(cls, columns: Iterable[Encoded], slots: Sequence[int], refused: bytes = b"", words: bytes = b"") -> "EncodingArrays":
        """Makes the arrays of some columns, whose members have these slots."""
        own = tuple(columns)
        return cls(
            code=np.array([one.encoding for one in own], np.int64),
            argument=np.array([one.argument for one in own], np.int64),
            slot=np.array(slots, np.int64),
            refused=np.frombuffer(refused, np.uint8).copy(),
            words=np.frombuffer(words, np.uint8).copy(),
        )
