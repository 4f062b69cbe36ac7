"""What a run is going to do, in plain words and as data: the first thing that its first task logs and hands on.

Airflow 3.3 has no way for a task to write the note of its run: the Task SDK has no call for it, and the API that workers talk to takes a
note only with the trigger of a new run. So it goes to the log, to XCom under `note`, and its first line to the label of the task.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from cdc_ops.core.operation.run_request import ResyncMode, RunKind, RunRequest
from cdc_ops.state.base import StateReader

NOTE: Final = "note"
"""XCom key of the first task."""

SHOWN: Final = 50
"""Tables that the text names; beyond it only their number helps."""

_ACTIONS: Final = {
    ResyncMode.KEYS: "read rows again by their keys",
    ResyncMode.RANGE: "read a range again",
    ResyncMode.FULL: "read all rows again",
    ResyncMode.REPLAY: "apply the event history again",
    ResyncMode.QUARANTINE: "read quarantined records again",
}


def watermarks_of(reader: StateReader, pipeline: str, request: RunRequest) -> dict[str, str]:
    """Returns where a pipeline's tables are, by name, if the run begins there; a table that was never loaded is missing."""
    if request.kind is not RunKind.INCREMENT:
        return {}
    found = {str(table.state.table): table.state.progress.watermark for table in reader.overview(pipeline)}
    return {name: str(watermark) for name, watermark in found.items() if watermark}


def note_of(request: RunRequest, names: Sequence[str], watermarks: Mapping[str, str]) -> dict[str, Any]:
    """Returns the note as data.

    Args:
        request: What the run has to do.
        names: Its tables, resolved.
        watermarks: Where they are, by name (`watermarks_of`).
    """
    return {
        "action": action_of(request),
        "reason": request.trigger,
        "tables": list(names),
        "since": request.since.isoformat() if request.since else None,
        "until": request.until.isoformat() if request.until else None,
        "windows": {name: window_of(request, watermarks.get(name, "")) for name in names},
        "silent": request.silent,
        "dry_run": request.dry_run,
    }


def action_of(request: RunRequest) -> str:
    """Returns what is done with each table."""
    match request.kind:
        case RunKind.INCREMENT:
            return "bring new changes"
        case RunKind.RECONCILE:
            return "compare with the source and correct what differs"
        case RunKind.BACKFILL if request.columns:
            return f"fill the columns {', '.join(request.columns)}"
        case RunKind.BACKFILL:
            return _ACTIONS[ResyncMode.RANGE]
        case RunKind.RESYNC if request.mode:
            return _ACTIONS[request.mode]
        case _:
            return str(request.kind)


def window_of(request: RunRequest, watermark: str) -> str:
    """Returns what of a table is read, as far as it is known before the source is asked for a bound."""
    if request.kind is RunKind.INCREMENT:
        return f"from {watermark} to a safe bound of now" if watermark else "first load: all rows"
    if request.keys:
        return f"{len(request.keys)} key{'s' if len(request.keys) != 1 else ''}"
    if request.since and request.until:
        return f"[{request.since.isoformat()}, {request.until.isoformat()})"
    return f"from {request.since.isoformat()} on" if request.since else "all rows"


def title_of(note: Mapping[str, Any]) -> str:
    """Returns the note in one line."""
    head = f"{note['action'].capitalize()}: {_count(note['tables'])}, {note['reason']} run"
    return f"Dry run. {head}" if note["dry_run"] else head


def text_of(note: Mapping[str, Any]) -> str:
    """Returns the note for the log."""
    names: list[str] = note["tables"]
    lines = [title_of(note)]
    lines += [f"- {name}: {note['windows'][name]}" for name in names[:SHOWN]]
    lines += [f"- ... and {len(names) - SHOWN} more"] if len(names) > SHOWN else []
    lines += ["No asset events (silent)"] if note["silent"] else []
    return "\n".join(lines)


def _count(names: Sequence[str]) -> str:
    return "1 table" if len(names) == 1 else f"{len(names)} tables"
