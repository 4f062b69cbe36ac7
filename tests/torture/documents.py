"""What a command of cdc-ops said, as far as the machine needs it."""

from typing import Any


def failures_of(document: Any) -> dict[str, dict[str, str]]:
    """Returns the errors of a command's document by table, "" for one that concerns all."""
    found = dict[str, dict[str, str]]()
    for one in _parts(document):
        if "error" in one and "tables" not in one:
            error = one["error"]
            found[""] = error if isinstance(error, dict) else one
        for failure in one.get("failures", ()):
            found[failure.get("table", "")] = failure.get("error") if isinstance(failure.get("error"), dict) else failure
        for run in one.get("tables", ()):
            gap = run.get("missing")
            if gap and not gap["healing"]:  # exit code 7: the table stands before it until somebody decides
                found.setdefault("{schema}.{name}".format(**run["table"]), {"error": "Gap", "what": str(gap)[:300]})
    return found


def _parts(document: Any) -> list[dict[str, Any]]:
    """Returns the parts of a command's document: of a run one for each pipeline, of an error the error itself."""
    if isinstance(document, list):
        return [one for one in document if isinstance(one, dict)]
    if not isinstance(document, dict):
        return []
    return [document] if "error" in document else [one for one in document.values() if isinstance(one, dict)]
