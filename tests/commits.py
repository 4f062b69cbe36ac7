"""What the commits of a Delta table say of themselves, from the files of its log: a question costs no job of Spark's."""

import json
from collections.abc import Mapping
from typing import Any

from tests.stores import at


def commits(path: str) -> list[dict[str, Any]]:
    """Returns what `DESCRIBE HISTORY` shows of each commit, oldest first: version, operation, userMetadata, operationMetrics."""
    found = []
    for file in sorted(at(path).glob(f"_delta_log/{'?' * 20}.json"), key=lambda file: file.name):
        actions = [json.loads(line) for line in file.read_text("utf-8").splitlines() if line]
        [told] = [action["commitInfo"] for action in actions if "commitInfo" in action]
        shown = {name: told.get(name) for name in ("operation", "userMetadata", "operationMetrics")}
        found.append({"version": int(file.name.partition(".")[0]), **shown})
    return found


def is_by_tasks(info: Mapping[str, Any]) -> bool:
    """Whether tasks have changed the rows of a commit, by what it says of itself: a MERGE of Spark's tells how long its jobs took."""
    return info.get("operation") == "MERGE" and "scanTimeMs" not in info["operationMetrics"]
