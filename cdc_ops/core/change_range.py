"""Which commits of a Delta table somebody asks the changes of: `(begin, end]` as versions, times or watermarks. Pure.

Both ends are bounds on what has been read: whoever has everything up to a bound asks for what comes after it, and the end of one question
is the beginning of the next. Ranges are left-open and right-closed, as those of Hudi's change query are.
"""

import enum
import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Final

from cdc_ops.core.archive.watermarks import parse_position
from cdc_ops.core.cursor.cursors import Cursor, CursorColumn, CursorType, CursorValue
from cdc_ops.core.instants import parse_instant
from cdc_ops.errors import ConfigError, RequestError

if TYPE_CHECKING:
    from cdc_ops.core.operation.protocol.commit_record import CommitRecord

Place = tuple[int, ...]
_VERSION: Final = re.compile(r"\d{1,18}", re.ASCII)
_DATE: Final = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_NOTHING: Final = "Nothing was read."
_FORMS: Final = (
    "Write a Delta version (12), an instant with its zone (2026-01-31T00:00:00Z), or watermark:VALUE as 'cdc-ops status' shows it."
)


class ChangeMode(enum.StrEnum):
    """What is told of each changed row; the names are those of Hudi's supplemental logging."""

    OP_KEY_ONLY = "op_key_only"
    """Operation and key."""
    DATA_BEFORE = "data_before"
    """The row before the change, too."""
    DATA_BEFORE_AFTER = "data_before_after"
    """The row before and after it."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the answer."""
        images = {"op_key_only": (), "data_before": ("before",), "data_before_after": ("before", "after")}
        return ("op", "ts_ms", "version", "key", *images[self.value])


class BoundKind(enum.StrEnum):
    """How a bound is told."""

    VERSION = "version"
    TIME = "time"
    WATERMARK = "watermark"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """One end of a range.

    Args:
        kind: How it is told.
        text: As it was given, for messages; the value itself for a watermark.
        version: The Delta version, for that kind; -1 is before the first.
        at: The instant, for that kind.
    """

    kind: BoundKind
    text: str
    version: int = -1
    at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedCommit:
    """A commit as a table's log shows it.

    Args:
        version: Its Delta version.
        at: When it was made, by the writer's clock or the log's own, UTC.
        record: What it says of itself, if it is one of ours.
    """

    version: int
    at: datetime
    record: "CommitRecord | None" = None


def parse_bound(value: str | int | datetime, name: str) -> Bound:
    """Reads one end of a range.

    Args:
        value: A Delta version, an aware instant, or the text of one of them or of a watermark: `12`, `version:12`,
            `2026-01-31T00:00:00Z`, `time:...`, `watermark:...`.
        name: Of the end, for messages.

    Raises:
        RequestError: it is none of these.
    """
    if isinstance(value, datetime):
        return Bound(kind=BoundKind.TIME, text=value.isoformat(), at=parse_instant(value.isoformat(), name))
    text = str(value).strip()
    prefix, _, rest = text.partition(":")
    kind = BoundKind(prefix) if prefix in set(BoundKind) else None
    plain = rest.strip() if kind else text
    if kind is BoundKind.WATERMARK and plain:
        return Bound(kind=kind, text=plain)
    if kind in {None, BoundKind.VERSION} and _VERSION.fullmatch(plain):
        return Bound(kind=BoundKind.VERSION, text=text, version=int(plain))
    if kind is BoundKind.TIME or (kind is None and _DATE.match(plain)):
        return Bound(kind=BoundKind.TIME, text=text, at=parse_instant(plain, name))
    why = "It is not a version, an instant or a watermark."
    raise RequestError(f"{name}={text!r} is not an end of a range of changes.", why=why, data=_NOTHING, next=_FORMS)


def version_at(bound: Bound, commits: Iterable[LoggedCommit], name: str) -> int:
    """Returns the version up to which a bound reaches: everything at or before it is behind the bound.

    A time reaches the newest commit made at it or before. A watermark reaches the first commit that says it has all rows up to there;
    what later commits of the same watermark bring (backfills, resyncs) comes after the bound, so nobody who read up to it misses them.

    Args:
        bound: The bound.
        commits: The table's, newest first, as far as the log reaches back; read only as far as needed.
        name: Of the end, for messages.

    Raises:
        RequestError: the log does not reach back to it, or the table has not got there yet.
    """
    match bound.kind:
        case BoundKind.VERSION:
            return bound.version
        case BoundKind.TIME:
            return _at_time(bound, commits, name)
        case BoundKind.WATERMARK:
            return _at_watermark(bound, commits, name)


def _at_time(bound: Bound, commits: Iterable[LoggedCommit], name: str) -> int:
    oldest = None
    for commit in commits:
        if bound.at is None or commit.at <= bound.at:
            return commit.version
        oldest = commit
    if oldest is None or oldest.version == 0:
        return -1
    raise _out_of_reach(bound, name, f"The oldest commit in the log is version {oldest.version}, of {oldest.at.isoformat()}.")


def _at_watermark(bound: Bound, commits: Iterable[LoggedCommit], name: str) -> int:
    wanted = found = previous = None
    oldest = -1
    for commit in commits:
        oldest = commit.version
        if commit.record is None or (place := _place_of(commit.record)) is None:
            continue
        wanted = _place(bound.text, commit.record) if wanted is None else wanted
        if previous is None and place < wanted:
            what = f"{name}: the table has not reached the watermark {bound.text} yet."
            raise RequestError(
                what, why=f"Its newest watermark is {_shown(commit.record)}.", data=_NOTHING, next="Retry after the next runs."
            )
        if found is not None and place != found[1]:
            return found[0]
        if previous is not None and place > previous:
            break  # it went back here, by a decision of somebody: what lies before is another story
        if place <= wanted:
            found = commit.version, place
        previous = place
    if found is None or oldest > 0:  # there may have been earlier commits of the same watermark
        raise _out_of_reach(bound, name, "No commit in the log has this watermark, or the watermark was set back since.")
    return found[0]


def _place_of(record: "CommitRecord") -> Place | None:
    """Returns a commit's watermark as numbers that sort, None if it has none that is one value."""
    if record.progress.archive is not None and len(record.progress.archive.streams) == 1 and not record.progress.archive.gtids:
        return record.progress.archive.streams[0].to
    return _ordinals(record.progress.watermark.parts) if record.progress.watermark is not None and record.progress.archive is None else None


def _place(text: str, record: "CommitRecord") -> Place:
    try:
        return parse_position(text) if record.progress.archive is not None else _ordinals(tuple(part.strip() for part in text.split(",")))
    except (ValueError, ConfigError) as error:
        why = f"Watermarks of this table look like {_shown(record)}."
        raise RequestError(f"{text!r} is not a watermark of this table.", why=why, data=_NOTHING, next=_FORMS) from error


def _ordinals(parts: tuple[str, ...]) -> Place:
    """Orders by the form of the literals, which tells whole numbers, days and moments apart."""

    def kind(part: str) -> CursorType:
        if re.fullmatch(r"-?\d+", part, re.ASCII):
            return CursorType.INTEGER
        return CursorType.DATE if _DATE.fullmatch(part) else CursorType.DATETIME

    columns = tuple(CursorColumn(name=f"part {number}", type=kind(part), precision=6) for number, part in enumerate(parts, 1))
    return Cursor(columns=columns).order(CursorValue(parts=parts))


def _shown(record: "CommitRecord") -> str:
    if record.progress.archive is not None:
        return ":".join(map(str, record.progress.archive.streams[0].to))
    return str(record.progress.watermark)


def _out_of_reach(bound: Bound, name: str, why: str) -> RequestError:
    return RequestError(
        f"{name}: the table's log does not reach back to the {bound.kind.value} {bound.text}.",
        why=why,
        data=_NOTHING,
        next="Begin later. For earlier changes, read the table itself, and then its changes from that version on.",
    )
