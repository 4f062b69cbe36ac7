"""Checks of `notify`: each receiver has one way to be told, and what that way needs; no secret stands among its arguments."""

from collections.abc import Container, Iterator, Mapping
from typing import Any, Final

from cdc_ops.config.reading.diagnostics import Problem, has_web_path, is_secret_name
from cdc_ops.config.reading.document import Document, Path
from cdc_ops.config.reading.explain import missing_field, place_of

Data = Mapping[str, Any]

WAYS: Final = ("webhook", "mail", "notifier")
_NEEDED: Final = {"mail": ("to", "sender")}
_PICTURES: Final = ("icon_url", "avatar_url")
"""Arguments of Slack's and Discord's notifiers whose URL is for all to see."""
_BELONGS: Final = {"to": "mail", "sender": "mail", "arguments": "notifier"}


def check_receivers(data: Data, document: Document, suspect: Container[Path] = ()) -> Iterator[Problem]:
    """Yields what does not go together in the entries of `notify`.

    Args:
        data: What the adapter returned.
        document: For the lines.
        suspect: Entries that have errors: what seems to be missing in them may only be misspelt.
    """
    for name, entry in data.get("notify", {}).items():
        if ("notify", name) not in suspect:
            yield from _check(entry, document, ("notify", name))


def _check(entry: Data, document: Document, path: Path) -> Iterator[Problem]:
    ways = [way for way in WAYS if entry.get(way)]
    if len(ways) != 1:
        given = f"has {' and '.join(map(repr, ways))}" if ways else "has no way to be told"
        message = f"The receiver {str(path[-1])!r} {given}, and needs one of {', '.join(map(repr, WAYS))}."
        yield Problem(mark=place_of(document, path).key, message=message, valid="Give each way an entry of its own." if ways else "")
        return
    for field in _NEEDED.get(ways[0], ()):
        if not entry.get(field):
            yield missing_field((*path, field), document)
    for field, way in _BELONGS.items():
        if field in entry and way != ways[0]:
            message = f"{field!r} belongs to {way!r}, and this receiver has {ways[0]!r}."
            yield Problem(mark=place_of(document, (*path, field)).key, message=message, valid="Remove the line.")
    if entry.get("events") == []:
        mark = place_of(document, (*path, "events")).value
        yield Problem(mark=mark, message="'events' is empty: the receiver would never be told.", valid="Remove the line for the default.")
    for name, value in entry.get("arguments", {}).items():
        if is_secret_name(name) or (has_web_path(value) and name not in _PICTURES):
            message = f"The argument {name!r} looks like a secret. Pipeline files must not contain secrets."
            mark = place_of(document, (*path, "arguments", name)).key
            yield Problem(mark=mark, message=message, valid="Give the notifier the id of an Airflow connection.")
