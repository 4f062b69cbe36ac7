"""Run requests: what cannot be meant is refused before anything is touched."""

from datetime import UTC, datetime
from typing import Any

import pytest

from cdc_ops.core.instants import parse_instant
from cdc_ops.core.operation.run_request import ResyncMode, RunKind, RunRequest
from cdc_ops.errors import RequestError

DAY, NEXT = datetime(2026, 1, 31, tzinfo=UTC), datetime(2026, 2, 1, tzinfo=UTC)
RANGE: dict[str, Any] = {"since": DAY, "until": NEXT}
KEYS: dict[str, Any] = {"keys": (("1",),), "tables": ("shop.orders",)}


def request(kind: RunKind, **parts: Any) -> RunRequest:
    return RunRequest(run_id="r", trigger="manual", holder="h", kind=kind, **parts)


@pytest.mark.parametrize(
    ("kind", "parts"),
    [
        (RunKind.INCREMENT, {}),
        (RunKind.INCREMENT, {"tables": ("shop.orders",)}),
        (RunKind.BACKFILL, RANGE),
        (RunKind.BACKFILL, {"columns": ("note",)}),
        (RunKind.BACKFILL, {"columns": ("note",), **RANGE}),
        (RunKind.RESYNC, {"mode": ResyncMode.FULL}),
        (RunKind.RESYNC, {"mode": ResyncMode.RANGE, **RANGE}),
        (RunKind.RESYNC, {"mode": ResyncMode.KEYS, **KEYS}),
    ],
)
def test_what_makes_sense_passes_unchanged(kind: RunKind, parts: dict[str, Any]) -> None:
    asked = request(kind, **parts)
    assert asked.checked() is asked


@pytest.mark.parametrize(
    ("kind", "parts", "text"),
    [
        (RunKind.INCREMENT, RANGE, "neither range"),
        (RunKind.INCREMENT, {"mode": ResyncMode.FULL}, "resync mode"),
        (RunKind.INCREMENT, KEYS, "nor keys"),
        (RunKind.BACKFILL, {}, "since and until"),
        (RunKind.BACKFILL, {"since": DAY}, "since and until"),
        (RunKind.BACKFILL, {**RANGE, **KEYS}, "nothing else"),
        (RunKind.BACKFILL, {**RANGE, "mode": ResyncMode.RANGE}, "nothing else"),
        (RunKind.BACKFILL, {"columns": ("note",), "since": DAY}, "complete range"),
        (RunKind.BACKFILL, {"columns": ("note",), **KEYS}, "complete range"),
        (RunKind.INCREMENT, {"columns": ("note",)}, "Only a backfill takes columns"),
        (RunKind.RESYNC, {"mode": ResyncMode.FULL, "columns": ("note",)}, "Only a backfill takes columns"),
        (RunKind.RESYNC, {}, "needs a mode"),
        (RunKind.RESYNC, {"mode": ResyncMode.RANGE, "until": NEXT}, "since and until"),
        (RunKind.RESYNC, {"mode": ResyncMode.RANGE, **RANGE, **KEYS}, "no keys"),
        (RunKind.RESYNC, {"mode": ResyncMode.KEYS, "tables": ("shop.orders",)}, "needs keys"),
        (RunKind.RESYNC, {"mode": ResyncMode.KEYS, **KEYS, **RANGE}, "no range"),
        (RunKind.RESYNC, {"mode": ResyncMode.KEYS, **KEYS, "tables": ()}, "one table"),
        (RunKind.RESYNC, {"mode": ResyncMode.KEYS, **KEYS, "tables": ("a.b", "a.c")}, "one table"),
        (RunKind.RESYNC, {"mode": ResyncMode.FULL, **RANGE}, "neither range"),
        (RunKind.RESYNC, {"mode": ResyncMode.FULL, **KEYS}, "nor keys"),
    ],
)
def test_a_contradiction_is_refused_and_names_what_was_given(kind: RunKind, parts: dict[str, Any], text: str) -> None:
    with pytest.raises(RequestError, match=text) as caught:
        request(kind, **parts).checked()
    assert all(name in caught.value.why for name in (kind.value, *parts) if parts.get(name, True))


@pytest.mark.parametrize("name", ["since", "until"])
def test_a_naive_end_is_refused_by_name_whatever_the_kind(name: str) -> None:
    with pytest.raises(RequestError, match=rf"{name}=.* has no time zone"):
        request(RunKind.BACKFILL, **(RANGE | {name: datetime(2026, 1, 31)})).checked()


@pytest.mark.parametrize("until", [DAY, datetime(2025, 1, 1, tzinfo=UTC)])
def test_an_empty_range_is_refused(until: datetime) -> None:
    with pytest.raises(RequestError, match="not before until"):
        request(RunKind.BACKFILL, since=DAY, until=until).checked()


@pytest.mark.parametrize("text", ["2026-01-31T00:00:00Z", "2026-01-31T02:00:00+02:00"])
def test_an_instant_keeps_its_zone(text: str) -> None:
    assert parse_instant(text, "since") == DAY


@pytest.mark.parametrize(
    ("text", "reason"), [("2026-01-31", "no time zone"), ("2026-01-31T00:00:00", "no time zone"), ("soon", "not a date")]
)
def test_text_that_is_no_instant_is_refused_by_name(text: str, reason: str) -> None:
    with pytest.raises(RequestError, match=f"until='{text}'.*{reason}"):
        parse_instant(text, "until")
