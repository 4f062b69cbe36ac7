"""What a run in Airflow says that it will do; no Airflow here."""

from datetime import UTC, datetime
from typing import Any

import pytest

from cdc_ops.airflow.run_note import SHOWN, note_of, text_of
from cdc_ops.core.operation.run_request import ResyncMode, RunKind, RunRequest

RANGE = {"since": datetime(2026, 1, 1, tzinfo=UTC), "until": datetime(2026, 1, 2, tzinfo=UTC)}
RANGE_TEXT = "[2026-01-01T00:00:00+00:00, 2026-01-02T00:00:00+00:00)"


def request(kind: RunKind, **values: Any) -> RunRequest:
    return RunRequest(run_id="r", trigger="manual", holder="h", kind=kind, **values)


@pytest.mark.parametrize(
    ("wanted", "action", "window"),
    [
        (request(RunKind.INCREMENT), "bring new changes", "from 17 to a safe bound of now"),
        (request(RunKind.BACKFILL, **RANGE), "read a range again", RANGE_TEXT),
        (request(RunKind.BACKFILL, columns=("note",)), "fill the columns note", "all rows"),
        (request(RunKind.RESYNC, mode=ResyncMode.KEYS, keys=(("1",), ("2",))), "read rows again by their keys", "2 keys"),
        (request(RunKind.RESYNC, mode=ResyncMode.FULL), "read all rows again", "all rows"),
        (
            request(RunKind.RESYNC, mode=ResyncMode.REPLAY, since=RANGE["since"]),
            "apply the event history again",
            "from 2026-01-01T00:00:00+00:00 on",
        ),
        (request(RunKind.RECONCILE), "compare with the source and correct what differs", "all rows"),
    ],
)
def test_a_run_says_what_it_does_and_what_it_reads(wanted: RunRequest, action: str, window: str) -> None:
    note = note_of(wanted, ["shop.orders"], {"shop.orders": "17"})
    assert (note["action"], note["windows"]) == (action, {"shop.orders": window})
    assert text_of(note).splitlines() == [f"{action.capitalize()}: 1 table, manual run", f"- shop.orders: {window}"]


def test_a_table_that_was_never_loaded_is_loaded() -> None:
    assert note_of(request(RunKind.INCREMENT), ["shop.orders"], {})["windows"] == {"shop.orders": "first load: all rows"}


def test_many_tables_are_named_up_to_a_limit_and_all_of_them_in_the_data() -> None:
    names = [f"shop.t{number:03}" for number in range(SHOWN + 5)]
    note = note_of(request(RunKind.BACKFILL, **RANGE, silent=True, dry_run=True), names, {})
    assert note["tables"] == names
    lines = text_of(note).splitlines()
    assert lines[0] == "Dry run. Read a range again: 55 tables, manual run"
    assert lines[-2:] == ["- ... and 5 more", "No asset events (silent)"]
    assert len(lines) == SHOWN + 3
