"""GTID sets, and the proof by them that an archive of binlogs is complete. Pure.

Every binlog file says at its start which transactions came before it (PREVIOUS_GTIDS of MySQL, GTID_LIST of MariaDB) and holds some more.
So a file may follow once everything is there that it says came before: `before` is within what is complete. Numbers that no server ever
used are in no file's `before`, hence no gap. The answer is a fixed point, the same in whatever order the files are looked at.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from cdc_ops.core.archive.offsets import AcceptedGap, Gap, OffsetRange
from cdc_ops.errors import RequestError

Interval = tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class GtidSet:
    """A set of transactions.

    Args:
        sources: Sorted by name: `uuid` or `uuid:tag` of MySQL, and half-open intervals of numbers that neither touch nor overlap.
    """

    sources: tuple[tuple[str, tuple[Interval, ...]], ...] = ()

    def __bool__(self) -> bool:
        return bool(self.sources)

    def __or__(self, other: "GtidSet") -> "GtidSet":
        return gtid_set((name, interval) for part in (self, other) for name, intervals in part.sources for interval in intervals)

    def __sub__(self, other: "GtidSet") -> "GtidSet":
        taken = dict(other.sources)
        return gtid_set(
            (name, rest) for name, intervals in self.sources for interval in intervals for rest in _cut(interval, taken.get(name, ()))
        )

    def __le__(self, other: "GtidSet") -> bool:
        return not self - other

    def __str__(self) -> str:
        """The text that MySQL uses, e.g. `uuid:1-5:7,other:1-3`."""
        return ",".join(f"{name}:{':'.join(map(_text, intervals))}" for name, intervals in self.sources)


@dataclass(frozen=True, slots=True, kw_only=True)
class GtidFile:
    """What a binlog file says of itself.

    Args:
        file: Its path.
        before: What came before it.
        holds: The transactions that are complete in it.
    """

    file: str
    before: GtidSet
    holds: GtidSet


@dataclass(frozen=True, slots=True, kw_only=True)
class GtidProof:
    """What is complete, which files that rests on (in an order in which they can be read), and what is missing before the others."""

    to: GtidSet
    files: tuple[str, ...] = ()
    gaps: tuple[Gap, ...] = ()


def gtid_set(parts: Iterable[tuple[str, Interval]]) -> GtidSet:
    """Returns the set of some intervals, in any order; empty ones are left out."""
    by_source: dict[str, list[Interval]] = {}
    for name, interval in parts:
        if interval[0] < interval[1]:
            by_source.setdefault(name, []).append(interval)
    return GtidSet(sources=tuple((name, _joined(by_source[name])) for name in sorted(by_source)))


def parse_mysql(text: str) -> GtidSet:
    """Reads a GTID set of MySQL: `uuid:1-5:7,uuid:tag:3`, with white space anywhere.

    Raises:
        RequestError: it is none.
    """
    parts: list[tuple[str, Interval]] = []
    for member in "".join(text.split()).split(","):
        source, *rest = member.lower().split(":")
        name = source
        if member and (not source or not rest or rest[-1][:1].isalpha()):
            raise _unreadable(text, "uuid:1-5:7")
        for word in rest:
            if word[:1].isalpha() or word[:1] == "_":
                name = f"{source}:{word}"
            else:
                parts.append((name, _interval(word, text)))
    return gtid_set(parts)


def parse_mariadb(text: str) -> dict[int, int]:
    """Reads a GTID position of MariaDB, `domain-server-sequence,...`: the highest sequence number of each domain.

    Within a domain numbers go up in the order of the binlog, whichever server wrote them; domains are independent of each other.

    Raises:
        RequestError: it is none.
    """
    highest: dict[int, int] = {}
    for member in filter(None, "".join(text.split()).split(",")):
        words = member.split("-")
        if len(words) != 3 or not all(word.isdecimal() for word in words):
            raise _unreadable(text, "0-1-100")
        domain, sequence = int(words[0]), int(words[2])
        highest[domain] = max(sequence, highest.get(domain, 0))
    return highest


def mariadb_covers(file: str, before: str, after: str) -> tuple[OffsetRange, ...]:
    """Returns what a binlog file of MariaDB covers, one stream per domain.

    Args:
        file: Its path.
        before: Its GTID_LIST: the position at its start.
        after: The position at its end.
    """
    low, high = parse_mariadb(before), parse_mariadb(after)
    return tuple(
        OffsetRange(
            file=file,
            stream=f"domain {domain}",
            low=(low.get(domain, 0) + 1,),
            high=(max(high.get(domain, 0), low.get(domain, 0)) + 1,),
        )
        for domain in sorted(low.keys() | high.keys())
    )


def prove_gtids(watermark: GtidSet, files: Iterable[GtidFile], *, accepted: Iterable[AcceptedGap] = ()) -> GtidProof:
    """Returns which transactions are complete, and what is missing before files that cannot follow.

    Args:
        watermark: What was complete before.
        files: What files say of themselves, in any order, duplicates included.
        accepted: Decisions that transactions may be missing; their `stream` is the source.
    """
    decided = gtid_set((item.stream, (item.low[0], item.high[0])) for item in accepted)
    complete, used = watermark | decided, list[str]()
    waiting = sorted(set(files), key=lambda file: (file.file, str(file.before), str(file.holds)))
    while ready := [file for file in waiting if file.before <= complete]:
        for file in ready:
            if not file.holds <= complete:
                used.append(file.file)
            complete = complete | file.holds
        waiting = [file for file in waiting if file not in ready]
    return GtidProof(to=complete, files=tuple(dict.fromkeys(used)), gaps=_gaps(complete, waiting))


def _gaps(complete: GtidSet, waiting: list[GtidFile]) -> tuple[Gap, ...]:
    """What is missing before files that cannot follow; what lies in one of them is not missing, unless they wait for each other."""
    there = GtidSet()
    for file in waiting:
        there = there | file.holds
    found: dict[tuple[str, Interval], Gap] = {}
    for file in waiting:
        missing = file.before - complete
        for name, intervals in ((missing - there) or missing).sources:
            for low, high in intervals:
                found.setdefault((name, (low, high)), Gap(stream=name, low=(low,), high=(high,), before_file=file.file))
    return tuple(found.values())


def _joined(intervals: list[Interval]) -> tuple[Interval, ...]:
    joined: list[Interval] = []
    for low, high in sorted(intervals):
        if joined and low <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(high, joined[-1][1]))
        else:
            joined.append((low, high))
    return tuple(joined)


def _cut(interval: Interval, taken: tuple[Interval, ...]) -> list[Interval]:
    rest, low = [], interval[0]
    for start, end in taken:
        if start >= interval[1]:
            break
        if start > low:
            rest.append((low, start))
        low = max(low, end)
    return [*rest, (low, interval[1])] if low < interval[1] else rest


def _text(interval: Interval) -> str:
    low, high = interval
    return str(low) if high == low + 1 else f"{low}-{high - 1}"


def _interval(word: str, text: str) -> Interval:
    low, is_range, high = word.partition("-")
    if not low.isdecimal() or (is_range and not high.isdecimal()) or int(low) < 1:
        raise _unreadable(text, "uuid:1-5:7")
    return int(low), int(high or low) + 1


def _unreadable(text: str, example: str) -> RequestError:
    return RequestError(
        f"{text[:200]!r} is no GTID set.", why=f"It looks like {example}.", data="Nothing was read or written.", next="Correct it."
    )
