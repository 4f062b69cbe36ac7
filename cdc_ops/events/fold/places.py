"""Positions of events as numbers of one type, and their order."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cdc_ops.core.events.format_spec import OrderField
from cdc_ops.events.fold.arrays import Bools, Int64s

_BILLION: Final = np.uint64(10**9)
_LIMB: Final = np.uint64(32)
_LOW_LIMB: Final = np.uint64(0xFFFFFFFF)


def places_of(positions: pa.StructArray, order: Sequence[OrderField]) -> list[Int64s]:
    """Returns the fields of positions, most significant first, as numbers of one type: what SEQUENCE has of an event.

    A decimal becomes two numbers: the leading digits, and the last 18 digits; the leading ones of a negative number are -1.

    >>> positions = pa.array([{"lsn": 5 * 10**18 + 7, "n": 3}], pa.struct([("lsn", pa.decimal128(25, 0)), ("n", pa.int32())]))
    >>> kinds = (OrderField(name="lsn", type="decimal(25,0)", meaning=""), OrderField(name="n", type="int", meaning=""))
    >>> [numbers.tolist() for numbers in places_of(positions, kinds)]
    [[5], [7], [3]]

    Args:
        positions: Positions of changes, with fields of these names.
        order: The fields.

    Raises:
        ValueError: a position lacks one of them, or has a number that no two bigints hold.
    """
    numbers: list[Int64s] = []
    names = [field.name for field in positions.type]
    parts = positions.flatten()
    for field in order:
        part = parts[names.index(field.name)]
        if part.null_count:
            raise ValueError(f"a change has no {field.name} in its position")
        if pa.types.is_decimal(part.type):
            numbers += _halves(part.cast(pa.decimal128(38, 0)))
        else:
            numbers.append(part.cast(pa.int64()).to_numpy())
    return numbers


def _halves(decimals: pa.Array) -> tuple[Int64s, Int64s]:
    """Returns the digits of decimals without a fraction: the leading ones, and the last 18."""
    words = np.frombuffer(decimals.buffers()[1], np.uint64)[2 * decimals.offset : 2 * (decimals.offset + len(decimals))]
    low, high = words[0::2].copy(), words[1::2].copy()
    negative = high.view(np.int64) < 0
    if negative.any():
        high = np.where(negative, ~high + (low == 0), high)
        low = np.where(negative, ~low + np.uint64(1), low)
    quotient = [high >> _LIMB, high & _LOW_LIMB, low >> _LIMB, low & _LOW_LIMB]
    quotient, ones = _by_a_billion(quotient)
    quotient, billions = _by_a_billion(quotient)
    head = ((quotient[2] << _LIMB) | quotient[3]).view(np.int64)
    if ((quotient[0] | quotient[1]) != 0).any() or (head < 0).any():
        raise ValueError("a number in a position has more than 36 digits")
    tail = (billions * _BILLION + ones).view(np.int64)
    return np.where(negative, -1, head), np.where(negative & (tail > 0), 10**18 - tail, tail)


def _by_a_billion(limbs: list[Any]) -> tuple[list[Any], Any]:
    """Divides numbers of four limbs of 32 bits; returns quotients and remainders."""
    quotient, rest = [], np.zeros_like(limbs[0])
    for limb in limbs:
        number = (rest << _LIMB) | limb
        quotient.append(number // _BILLION)
        rest = number % _BILLION
    return quotient, rest


def is_above(places: Sequence[Int64s], barrier: Sequence[int]) -> Bools:
    """True for places behind a barrier.

    Raises:
        ValueError: the barrier has not the numbers of a place.
    """
    above, undecided = np.zeros(len(places[0]), np.bool_), np.ones(len(places[0]), np.bool_)
    for numbers, least in zip(places, barrier, strict=True):
        above |= undecided & (numbers > least)
        undecided &= numbers == least
    return above


@dataclass(frozen=True, slots=True)
class PlaceOrder:
    """The order of events by their places; events at one place stay in the order in which they came, unless their delivery orders them.

    Args:
        numbers: Numbers of the events in this order; None if that is how they came.
        is_next: For each but the last one in this order: True if the next one has the same place.
    """

    numbers: Int64s | None
    is_next: Bools

    def ordered(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Returns values of events in this order."""
        return values if self.numbers is None else values[self.numbers]

    def events(self, at: Int64s) -> Int64s:
        """Returns the numbers of the events that stand somewhere in this order."""
        return at if self.numbers is None else self.numbers[at]


def place_order(places: Sequence[Int64s], delivery: Sequence[Int64s] = ()) -> PlaceOrder:
    """Orders events by their places; those that came in order cost nearly nothing.

    Args:
        places: The numbers of the places, most significant first.
        delivery: Numbers that order those at one place, in place of how they came.
    """
    found = _by_place(places)
    if not delivery or not found.is_next.any():
        return found
    return PlaceOrder(np.lexsort((*reversed(delivery), *reversed(places))).astype(np.int64, copy=False), found.is_next)


def _by_place(places: Sequence[Int64s]) -> PlaceOrder:
    count = len(places[0])
    varying = [numbers for numbers in places if count and (numbers != numbers[0]).any()]
    same = np.ones(max(count - 1, 0), np.bool_)
    for numbers in varying:
        if (same & (numbers[1:] < numbers[:-1])).any():
            break
        same &= numbers[1:] == numbers[:-1]
    else:
        return PlaceOrder(None, same)
    order = _sorted(varying)
    same = np.ones(count - 1, np.bool_)
    for numbers in varying:
        in_order = numbers[order]
        same &= in_order[1:] == in_order[:-1]
    return PlaceOrder(order, same)


def _sorted(places: Sequence[Int64s]) -> Int64s:
    """Returns the order of places: sorted as one number, which is faster, if all digits that vary fit into one."""
    count = len(places[0])
    lowest = [int(numbers.min()) for numbers in places]
    widths = [(int(numbers.max()) - low).bit_length() for numbers, low in zip(places, lowest, strict=True)]
    of_index = (count - 1).bit_length()
    if sum(widths) + of_index > 64:
        return np.lexsort(tuple(reversed(places))).astype(np.int64, copy=False)
    packed = np.zeros(count, np.uint64)
    for numbers, low, width in zip(places, lowest, widths, strict=True):
        packed = (packed << np.uint64(width)) | (numbers - np.int64(low)).view(np.uint64)
    packed = (packed << np.uint64(of_index)) | np.arange(count, dtype=np.uint64)
    packed.sort()
    return (packed & np.uint64((1 << of_index) - 1)).view(np.int64)
