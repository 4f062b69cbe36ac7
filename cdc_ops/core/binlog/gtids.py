"""Sets of transactions: MySQL's GTID sets, and MariaDB's last transaction of each domain. Pure.

    PREVIOUS_GTIDS or GTID_LIST of a file, text of a variable -> MySqlGtids | MariaDbGtids -> contains, with_gtid, minus

MySQL numbers the transactions of a server without order, so a set has intervals. MariaDB numbers those of a domain in their order, so the
last number of a domain stands for all before it.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from cdc_ops.core.binlog.byte_reader import ByteReader, MalformedBytesError

_MYSQL_SOURCE: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_TAG: Final = re.compile(r"[a-z_][a-z0-9_]{0,31}")
_INTERVAL: Final = re.compile(r"(\d+)(?:-(\d+))?")
_MARIADB_GTID: Final = re.compile(r"(\d+)-(\d+)-(\d+)")

Interval = tuple[int, int]
"""The first number and the one behind the last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MySqlGtids:
    """A GTID set of MySQL.

    >>> some = MySqlGtids.parse("3e11fa47-71ca-11e1-9e33-c80aa9429562:1-5:7")
    >>> str(some.with_gtid("3e11fa47-71ca-11e1-9e33-c80aa9429562:6"))
    '3e11fa47-71ca-11e1-9e33-c80aa9429562:1-7'
    >>> some.contains(MySqlGtids.parse("3e11fa47-71ca-11e1-9e33-c80aa9429562:2-4"))
    True

    Args:
        intervals: The sorted intervals of each source; a source is the UUID of a server, with a tag behind a colon where there is one.
    """

    intervals: Mapping[str, tuple[Interval, ...]] = field(default_factory=dict)

    @classmethod
    def parse(cls, text: str) -> "MySqlGtids":
        """Reads a set as MySQL writes it, such as `uuid:1-5:7,uuid:tag:1-3`.

        Raises:
            ValueError: no set is written so.
        """
        found: dict[str, list[Interval]] = {}
        for part in filter(None, (part.strip().lower() for part in text.replace("\n", "").split(","))):
            uuid, *words = (word.strip() for word in part.split(":"))
            source = uuid
            if not _MYSQL_SOURCE.fullmatch(uuid) or not words:
                raise ValueError(f"{part!r} is no part of a GTID set of MySQL")
            for word in words:
                if numbers := _INTERVAL.fullmatch(word):
                    first = int(numbers[1])
                    found.setdefault(source, []).append((first, int(numbers[2] or first) + 1))
                elif _TAG.fullmatch(word):
                    source = f"{uuid}:{word}"
                else:
                    raise ValueError(f"{word!r} in {part!r} is neither a number, nor an interval, nor a tag")
        return cls(intervals=_normal(found))

    @classmethod
    def read(cls, body: bytes) -> "MySqlGtids":
        """Reads the body of a PREVIOUS_GTIDS event, without its checksum.

        Raises:
            MalformedBytesError: it is not whole.
        """
        reader = ByteReader(body)
        count = reader.u64()
        tagged = count >> 56 == 1
        if tagged:
            count = (count >> 8) & 0xFFFFFFFFFFFF
        found: dict[str, list[Interval]] = {}
        for _ in range(count):
            source = uuid_text(reader.take(16))
            if tagged and (size := reader.u8() >> 1):
                source = f"{source}:{reader.take(size).decode('ascii', 'replace')}"
            number = reader.u64()
            if number * 16 > reader.left:
                raise MalformedBytesError(f"{number} intervals are expected, and {reader.left} bytes are left")
            found.setdefault(source, []).extend((reader.u64(), reader.u64()) for _ in range(number))
        return cls(intervals=_normal(found))

    def with_gtid(self, gtid: str) -> "MySqlGtids":
        """Returns the set with one more transaction."""
        source, _, number = gtid.rpartition(":")
        first = int(number)
        known = self.intervals.get(source, ())
        follows = bool(known) and known[-1][1] == first  # nearly always
        grown = (*known[:-1], (known[-1][0], first + 1)) if follows else _merged((*known, (first, first + 1)))
        return MySqlGtids(intervals={**self.intervals, source: grown})

    def joined(self, other: "GtidSet") -> "MySqlGtids":
        """Returns the set with the transactions of another one."""
        assert isinstance(other, MySqlGtids)
        grown = {source: _merged((*self.intervals.get(source, ()), *more)) for source, more in other.intervals.items()}
        return MySqlGtids(intervals={**self.intervals, **grown})

    def contains(self, other: "MySqlGtids") -> bool:
        """True if all transactions of another set are in this one."""
        return not other.minus(self).intervals

    def minus(self, other: "MySqlGtids") -> "MySqlGtids":
        """Returns the transactions that another set lacks."""
        left = {source: _without(mine, other.intervals.get(source, ())) for source, mine in self.intervals.items()}
        return MySqlGtids(intervals={source: rest for source, rest in left.items() if rest})

    def __str__(self) -> str:
        parts = []
        for source, known in sorted(self.intervals.items()):
            spans = (str(first) if behind == first + 1 else f"{first}-{behind - 1}" for first, behind in known)
            parts.append(":".join((source, *spans)))
        return ",".join(parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class MariaDbGtids:
    """The last transaction of each domain of MariaDB.

    >>> some = MariaDbGtids.parse("0-1-100,1-2-7")
    >>> str(some.with_gtid("0-3-101"))
    '0-3-101,1-2-7'
    >>> some.contains(MariaDbGtids.parse("0-1-99"))
    True

    Args:
        last: The server and the number of the last transaction of each domain.
    """

    last: Mapping[int, tuple[int, int]] = field(default_factory=dict)

    @classmethod
    def parse(cls, text: str) -> "MariaDbGtids":
        """Reads a position as MariaDB writes it, such as `0-1-100,1-2-7`.

        Raises:
            ValueError: no position is written so.
        """
        position = cls()
        for part in filter(None, (part.strip() for part in text.split(","))):
            if not _MARIADB_GTID.fullmatch(part):
                raise ValueError(f"{part!r} is no GTID of MariaDB, which has the form domain-server-number")
            position = position.with_gtid(part)
        return position

    @classmethod
    def read(cls, body: bytes) -> "MariaDbGtids":
        """Reads the body of a GTID_LIST event, without its checksum.

        A domain stands in it once for each server that wrote to it, the last writer at its end.

        Raises:
            MalformedBytesError: it is not whole.
        """
        reader = ByteReader(body)
        count = reader.u32() & 0x0FFFFFFF
        if count * 16 > reader.left:
            raise MalformedBytesError(f"{count} transactions are expected, and {reader.left} bytes are left")
        entries = [(reader.u32(), reader.u32(), reader.u64()) for _ in range(count)]
        return cls(last={domain: (server, number) for domain, server, number in entries})

    def with_gtid(self, gtid: str) -> "MariaDbGtids":
        """Returns the position after one more transaction."""
        domain, server, number = (int(part) for part in gtid.split("-"))
        return MariaDbGtids(last={**self.last, domain: (server, number)})

    def joined(self, other: "GtidSet") -> "MariaDbGtids":
        """Returns the position after the transactions of another one, which came later."""
        assert isinstance(other, MariaDbGtids)
        return MariaDbGtids(last={**self.last, **other.last})

    def contains(self, other: "MariaDbGtids") -> bool:
        """True if another position is not behind this one in any domain."""
        return not other.minus(self).last

    def minus(self, other: "MariaDbGtids") -> "MariaDbGtids":
        """Returns the domains in which this position is behind another one, that is, has later transactions than it."""
        ahead = {domain: last for domain, last in self.last.items() if domain not in other.last or last[1] > other.last[domain][1]}
        return MariaDbGtids(last=ahead)

    def __str__(self) -> str:
        return ",".join(f"{domain}-{server}-{number}" for domain, (server, number) in sorted(self.last.items()))


GtidSet = MySqlGtids | MariaDbGtids


def parse_gtids(text: str, *, mariadb: bool) -> GtidSet:
    """Reads a set from text, as the server of that kind writes it.

    Raises:
        ValueError: no set is written so.
    """
    return MariaDbGtids.parse(text) if mariadb else MySqlGtids.parse(text)


def uuid_text(raw: bytes) -> str:
    """Returns 16 bytes as a UUID with its dashes."""
    digits = raw.hex()
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def _normal(found: Mapping[str, list[Interval]]) -> dict[str, tuple[Interval, ...]]:
    merged = {source: _merged(intervals) for source, intervals in found.items()}
    return {source: intervals for source, intervals in merged.items() if intervals}


def _merged(intervals: Iterable[Interval]) -> tuple[Interval, ...]:
    merged: list[Interval] = []
    for first, behind in sorted(item for item in intervals if item[1] > item[0]):
        if merged and first <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], behind))
        else:
            merged.append((first, behind))
    return tuple(merged)


def _without(mine: Iterable[Interval], others: Iterable[Interval]) -> tuple[Interval, ...]:
    left = list(mine)
    for first, behind in others:
        left = [
            part
            for start, end in left
            for part in (((start, end),) if behind <= start or first >= end else ((start, min(end, first)), (max(start, behind), end)))
            if part[1] > part[0]
        ]
    return tuple(left)
