"""Rows that are read again: the arguments of a resync or backfill, and how the table has to stand to its source right after it.

What was read again is equal at once, for the source's rows of these keys, of this range of time or in these columns: it does not have to
wait for an increment. Keys that the source has no longer go with resyncs of keys and of all rows, and with nothing else.
"""

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.torture.model import Again, Canon, Kind, Table, What
from tests.torture.oracle.lake import LakeTable
from tests.torture.oracle.relation import Key, judge, key_of, living_rows, value_differences
from tests.torture.oracle.truth import Truth, converter_of, shown_of

Ask = Callable[[str], list[tuple[Any, ...]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A command that reads again, and what it is to read.

    Args:
        arguments: Of cdc-ops.
        keys: The keys, for resyncs of keys.
        since: Begin of the range in microseconds since 1970, included.
        until: Its end, excluded.
    """

    arguments: tuple[str, ...]
    keys: frozenset[Key] = field(default_factory=frozenset)
    since: int = 0
    until: int = 0


def key_texts(ask: Ask, table: Table, kinds: Mapping[str, Kind], *, server: str) -> dict[Key, tuple[str, ...]]:
    """Returns the keys that a table has now, each as the source prints it: what somebody writes after --key."""
    mark = '"' if server == "postgres" else "`"
    columns = [(one, kinds[one.kind]) for name in table.keys if (one := table.column(name))]
    expressions = list[str]()
    for column, kind in columns:
        name = mark + column.name.replace(mark, mark * 2) + mark
        expressions += [text.replace("{0}", name).replace("{}", name) for text in (shown_of(kind, column, table), kind.raw or kind.shown)]
    convert = [converter_of(kind, column, table) for column, kind in columns]
    hexed = [(kind.raw or kind.shown).startswith("HEX(") and kind.canon is not Canon.BYTES for _, kind in columns]
    found = dict[Key, tuple[str, ...]]()
    for row in ask(f"SELECT {', '.join(expressions)} FROM {mark}{table.name}{mark}"):
        texts = [one.decode() if isinstance(one, (bytes, bytearray)) else one for one in row]
        values = zip(convert, texts[::2], strict=True)
        key = tuple(None if text is None else make(str(text)) for make, text in values)
        printed = zip(hexed, texts[1::2], strict=True)
        found[key] = tuple(bytes.fromhex(text).decode() if is_hex else str(text) for is_hex, text in printed)
    return found


def request_of(step: Again, table: Table, full: str, known: Mapping[Key, tuple[str, ...]], begun: float, now: float, seed: int) -> Request:
    """Returns the command of a step, with keys from those that are known and times from the case's own."""
    head = ("--pipeline", "torture", "--table", full)
    if step.what is What.FULL:
        return Request(arguments=("resync", *head, "--mode", "full", "--json"))
    if step.what is What.COLUMNS:
        return Request(arguments=("backfill", *head, "--columns", ",".join(map(quoted, step.columns)), "--json"))
    if step.what is What.RANGE:
        since, until = (int((begun + share * (now - begun)) * 1_000_000) for share in step.share)
        command = ("backfill", *head) if seed % 2 else ("resync", *head, "--mode", "range")
        return Request(arguments=(*command, "--since", _iso(since), "--until", _iso(until), "--json"), since=since, until=until)
    keys = random.Random(seed).sample(sorted(known, key=repr), min(step.keys, len(known)))
    texts = [text for key in keys for text in ("--key", ",".join(map(quoted, known[key])))]
    return Request(arguments=("resync", *head, "--mode", "keys", *texts, "--json"), keys=frozenset(keys))


def differences_again(step: Again, request: Request, table: Table, truth: Truth, lake: LakeTable, before: set[Key]) -> Iterator[str]:
    """Yields what a command should have made equal and did not.

    Args:
        step: What was asked for.
        request: How.
        table: The table, with its cursor's column.
        truth: The source's rows.
        lake: The lake's.
        before: The keys that the lake had before the command.
    """
    if step.what is What.FULL:
        for text in judge(table, truth, lake, set(), reconciled=True).differences:
            if not text.startswith("never there"):  # what was looked at last is older than the command
                yield f"full again, {text}"
        return
    source = {key_of(row, table): row for row in truth.rows}
    found = {key_of(row, table): row for row in living_rows(table, lake)}
    names = [name for name in truth.types if name in lake.types]
    if step.what is What.COLUMNS:
        for text in value_differences({key: row for key, row in source.items() if key in before}, found, list(step.columns)):
            yield f"columns again, {text}"
        if set(found) != before:
            yield f"columns again, keys: {len(set(found) ^ before)} came or went, e.g. {next(iter(set(found) ^ before))!r}"
        return
    asked = {key: row for key, row in source.items() if _is_asked(step, request, key, row)}
    if missing := [key for key in asked if key not in found]:
        yield f"{step.what} again, missing: {len(missing)} of {len(asked)} rows, e.g. {missing[0]!r}"
    for text in value_differences(asked, found, names):
        yield f"{step.what} again, {text}"
    gone = [key for key in request.keys if key not in source and key in found]
    if gone and table.setting("deletes", "hard") != "ignore":
        yield f"keys again, still there: {len(gone)} keys that the source has not, e.g. {gone[0]!r}"


def quoted(text: str) -> str:
    """Returns a part of a list as the command line wants it."""
    if text != text.strip() or any(one in text for one in ',"\n\r') or not text:
        return '"' + text.replace('"', '""') + '"'
    return text


def _is_asked(step: Again, request: Request, key: Key, row: Mapping[str, Any]) -> bool:
    if step.what is What.KEYS:
        return key in request.keys
    cursor = row.get("updated_at")
    return cursor is not None and request.since <= cursor < request.until


def _iso(micros: int) -> str:
    return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=micros)).isoformat(timespec="microseconds").replace("+00:00", "Z")
