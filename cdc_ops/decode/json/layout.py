"""Layouts: which members of a document a format wants, and what they may be; arrays that the scanner reads.

    Members({"op": Member(slot=0, tokens=TEXTS), "source": Member(slot=1, tokens=..., members=Members({...}))})

A member has a slot, at which the scanner says where its value lies; or none, if it is only to be of certain tokens. A record with another
token, with a member twice, or with a member that closed ones do not have, is not plain.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from cdc_ops.decode.json.grammar import ARRAY, ESCAPED, FALSE, FRACTION, INTEGER, NULL, OBJECT, STRING, TRUE
from cdc_ops.decode.sixteen import SIXTEEN

NOTHING: Final = -1


def tokens(*wanted: int) -> int:
    """Returns a set of tokens as bits."""
    return sum(1 << one for one in set(wanted))


SHORT: Final = 1 << 10
"""Beside the tokens of a member: a whole number has at most 18 signs, so that every reader of 64 bits takes it."""
WHOLE_NUMBERS: Final = tokens(NULL, INTEGER) | SHORT
TEXTS: Final = tokens(NULL, STRING)
SCALARS: Final = tokens(NULL, FALSE, TRUE, INTEGER, FRACTION, STRING, ESCAPED)
ANYTHING: Final = SCALARS | tokens(OBJECT, ARRAY)
ONLY_NULL: Final = tokens(NULL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One member of an object.

    Args:
        tokens: What its value may be.
        slot: Where its place is noted; -1 = nowhere.
        members: Of the object that it may be; it needs a slot then. None = an object is skipped as a whole.
    """

    tokens: int = ANYTHING
    slot: int = NOTHING
    members: "Members | None" = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Members:
    """The members of an object by their names.

    Args:
        named: The members.
        closed: An object that has others is not plain.
        listed: The object is the only element of an array. One without that array is not plain.
    """

    named: Mapping[str, Member] = field(default_factory=dict)
    closed: bool = False
    listed: bool = False


class LayoutArrays(NamedTuple):
    """What the scanner reads of a layout. The first object is the document.

    Args:
        names: All names, one behind the other, and sixteen bytes behind the last, uint8.
        starts: Where the name of each member begins in `names`, and where the last one ends, int64.
        first: The first member of each object, and the number of all members, int64.
        closed: Of each object, 0 or 1, int64.
        listed: The same.
        slots: Of each member, int64.
        tokens: Of each member, bits, int64.
        inner: The object that a member's value may be, -1 for none, int64.
    """

    names: npt.NDArray[np.uint8]
    starts: npt.NDArray[np.int64]
    first: npt.NDArray[np.int64]
    closed: npt.NDArray[np.int64]
    listed: npt.NDArray[np.int64]
    slots: npt.NDArray[np.int64]
    tokens: npt.NDArray[np.int64]
    inner: npt.NDArray[np.int64]


MAX_DEPTH: Final = 8
"""How deep objects with members of their own may nest."""


def layout_arrays(document: Members) -> LayoutArrays:
    """Returns a layout as the scanner reads it."""
    objects, inner_of = [document], {}
    for one in objects:  # grows while it is walked
        for name, member in one.named.items():
            if member.members is not None:
                inner_of[id(one), name] = len(objects)
                objects.append(member.members)
    every = [(one, name, member) for one in objects for name, member in one.named.items()]
    raw = [name.encode() for _, name, _ in every]
    return LayoutArrays(
        names=np.frombuffer(b"".join((*raw, bytes(SIXTEEN))), np.uint8).copy(),
        starts=_sums(len(name) for name in raw),
        first=_sums(len(one.named) for one in objects),
        closed=np.array([one.closed for one in objects], np.int64),
        listed=np.array([one.listed for one in objects], np.int64),
        slots=np.array([member.slot for _, _, member in every], np.int64),
        tokens=np.array([member.tokens for _, _, member in every], np.int64),
        inner=np.array([inner_of.get((id(one), name), NOTHING) for one, name, _ in every], np.int64),
    )


def is_plain_name(name: str) -> bool:
    """True for a name that every writer of JSON spells alike; another one is not found by a layout."""
    return name.isprintable() and '"' not in name and "\\" not in name and "/" not in name


def _sums(sizes: Iterable[int]) -> npt.NDArray[np.int64]:
    return np.cumsum(np.array([0, *sizes], np.int64))
