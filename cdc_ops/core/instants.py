"""Parses instants: ISO 8601 with a time zone. Pure."""

from datetime import datetime
from typing import Final

from cdc_ops.errors import RequestError

_NOTHING: Final = "Nothing was read or written; the watermark stays."


def parse_instant(text: str, name: str) -> datetime:
    """Parses an ISO 8601 instant that carries a time zone.

    Raises:
        RequestError: it is no date and time, or it is naive.

    >>> parse_instant("2026-01-31T00:00:00+02:00", "since").isoformat()
    '2026-01-31T00:00:00+02:00'
    >>> parse_instant("2026-01-31", "since")
    Traceback (most recent call last):
        ...
    cdc_ops.errors.RequestError: since='2026-01-31' has no time zone...
    """
    try:
        instant = datetime.fromisoformat(text)
    except ValueError as error:
        raise RequestError(
            f"{name}={text!r} is not a date and time.", why=str(error), data=_NOTHING, next="Write it as 2026-01-31T00:00:00Z."
        ) from error
    if instant.tzinfo is None:
        raise RequestError(
            f"{name}={text!r} has no time zone.",
            why="Without a time zone the text means a different instant on each machine.",
            data=_NOTHING,
            next=f"Add the time zone, e.g. {instant.isoformat()}Z or {instant.isoformat()}+02:00.",
        )
    return instant
