"""The state of a Delta table by its log: checkpoints and commits replayed here, with no engine's help."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import pyarrow.parquet

_COMMIT: Final = re.compile(r"(\d{20})\.json")
_CHECKPOINT: Final = re.compile(r"(\d{20})\.checkpoint(?:\.(\d{10})\.(\d{10})|\.[0-9a-f-]{36})?\.(parquet|json)")


@dataclass
class Snapshot:
    """A version of a table: its schema, its files by path and deletion vector, its protocol."""

    root: Path
    version: int = -1
    metadata: dict[str, Any] = field(default_factory=dict)
    protocol: dict[str, Any] = field(default_factory=dict)
    files: dict[str, dict[str, Any]] = field(default_factory=dict)

    @property
    def fields(self) -> list[dict[str, Any]]:
        """The columns of the schema, in order."""
        return list(json.loads(self.metadata["schemaString"])["fields"])

    @property
    def partition_columns(self) -> list[str]:
        return list(self.metadata.get("partitionColumns") or ())

    def apply(self, action: dict[str, Any]) -> None:
        """Applies one action of a commit."""
        if found := action.get("metaData"):
            self.metadata = found
        elif found := action.get("protocol"):
            self.protocol = found
        elif found := action.get("add"):
            self.files[_identity(found)] = found
        elif found := action.get("remove"):
            self.files.pop(_identity(found), None)


def replay(root: Path, version: int | None = None, *, checkpoints: bool = True) -> Snapshot:
    """Returns a version of a table, the newest by default; without `checkpoints` by its commits alone.

    Raises:
        FileNotFoundError: there is no table, or its log has a hole.
    """
    log = root / "_delta_log"
    names = sorted(path.name for path in log.iterdir()) if log.is_dir() else []
    commits = {int(found[1]): name for name in names if (found := _COMMIT.fullmatch(name))}
    newest = max(commits, default=-1) if version is None else version
    snapshot = Snapshot(root=root)
    if checkpoints:
        _load_checkpoint(snapshot, names, newest)
    if newest < 0 or newest not in commits:
        raise FileNotFoundError(f"{root} has no version {newest}")
    for number in range(snapshot.version + 1, newest + 1):
        if number not in commits:
            raise FileNotFoundError(f"the log of {root} has no commit {number}")
        for line in (log / commits[number]).read_text("utf-8").splitlines():
            snapshot.apply(json.loads(line))
    snapshot.version = newest
    return snapshot


def commits(root: Path) -> Iterator[tuple[int, list[dict[str, Any]]]]:
    """Yields the actions of each commit that is there, oldest first."""
    for path in sorted((root / "_delta_log").iterdir()):
        if found := _COMMIT.fullmatch(path.name):
            yield int(found[1]), [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def _identity(action: dict[str, Any]) -> str:
    vector = action.get("deletionVector") or {}
    return "|".join(
        (action["path"], str(vector.get("storageType", "")), str(vector.get("pathOrInlineDv", "")), str(vector.get("offset") or 0))
    )


def _load_checkpoint(snapshot: Snapshot, names: list[str], newest: int) -> None:
    parts: dict[int, list[str]] = {}
    whole: dict[int, int] = {}
    for name in names:
        if (found := _CHECKPOINT.fullmatch(name)) and int(found[1]) <= newest:
            parts.setdefault(int(found[1]), []).append(name)
            whole[int(found[1])] = int(found[3] or 1)
    complete = [number for number, found in parts.items() if len(found) >= whole[number]]
    if not complete:
        return
    snapshot.version = max(complete)
    for name in parts[snapshot.version]:
        for action in _rows(snapshot.root / "_delta_log" / name):
            if sidecar := action.get("sidecar"):
                for inner in _rows(snapshot.root / "_delta_log" / "_sidecars" / sidecar["path"]):
                    snapshot.apply(inner)
            snapshot.apply(action)


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    if path.suffix == ".json":
        yield from map(json.loads, path.read_text("utf-8").splitlines())
        return
    for row in pyarrow.parquet.read_table(path).to_pylist(maps_as_pydicts="strict"):
        yield {name: _plain(value) for name, value in row.items() if value is not None}


def _plain(value: Any) -> Any:
    """Returns a value of Parquet as JSON would have it: what is not there is left out."""
    if isinstance(value, dict):
        return {name: _plain(one) if name != "partitionValues" else one for name, one in value.items() if one is not None}
    return value


def table_folder(schema: Path, name: str) -> Path:
    """Returns the folder of a table; names that no folder can have are escaped as in a URL."""
    plain = schema / name
    if plain.exists():
        return plain
    return schema / quote(name, safe="")
