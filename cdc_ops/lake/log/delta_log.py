"""Reading a `_delta_log` folder: single commits, the state at a version, and its files where they are asked for. Spark-free.

delta-rs opens the tables that we make, but tells a transaction version only for an appId that one knows, and stops at table features that
it does not know. What a plan needs is little and old in the protocol, so it is read here: the newest version checksum (`.crc`) carries
transaction ids and metadata; where it is missing, commits are read backwards down to a checkpoint, of which only two columns are touched.
Format: the Delta transaction log protocol, "Version Checksum File", "Checkpoints", "V2 Spec".
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

from cdc_ops.errors import StateError
from cdc_ops.lake.file_io import open_filesystem

_COMMIT = re.compile(r"^(\d{20})\.json$")
_CHECKPOINT = re.compile(r"^(\d{20})\.checkpoint(?:\.(\d{10})\.(\d{10})|\.([0-9a-f-]{36}))?\.(parquet|json)$")
_FILE_ACTIONS = (b'{"add":', b'{"remove":', b'{"cdc":')
_STATE: Final[Mapping[str, tuple[str, ...]]] = {"txn": (), "metaData": (), "domainMetadata": ()}
_FILES: Final[Mapping[str, tuple[str, ...]]] = {
    "add": (
        *("path", "partitionValues", "size", "modificationTime", "tags", "deletionVector", "stats"),
        *("baseRowId", "defaultRowCommitVersion", "clusteringProvider"),
    ),
    "sidecar": ("path",),
}
"""What is read of a checkpoint: kinds of actions, and of each the fields; () = all."""


@dataclass(slots=True)
class LogState:
    """Transaction ids and metadata as far as they were found; what is newer was put in first, and stays."""

    transactions: dict[str, int] = field(default_factory=dict)
    metadata: dict[str, Any] | None = None
    domains: dict[str, dict[str, Any]] = field(default_factory=dict)

    def add(self, action: dict[str, Any]) -> None:
        """Takes one action of the log into account."""
        if (txn := action.get("txn")) is not None:
            self.transactions.setdefault(txn["appId"], txn["version"])
        if (metadata := action.get("metaData")) is not None and self.metadata is None:
            self.metadata = metadata
        if (domain := action.get("domainMetadata")) is not None:
            self.domains.setdefault(domain["domain"], domain)

    def columns(self) -> tuple[tuple[str, str], ...]:
        """Returns name and Spark SQL type of the stored columns."""
        fields = json.loads(self.metadata["schemaString"])["fields"] if self.metadata else []
        return tuple((item["name"], ddl_type(item["type"])) for item in fields)

    def partition_by(self) -> tuple[str, ...]:
        """Returns the columns by which the table is partitioned."""
        return tuple((self.metadata or {}).get("partitionColumns") or ())

    def fields(self, column: str) -> tuple[tuple[str, str], ...]:
        """Returns name and Spark SQL type of the fields of a column that is a struct."""
        columns = json.loads(self.metadata["schemaString"])["fields"] if self.metadata else []
        found = next(item["type"] for item in columns if item["name"] == column)
        return tuple((item["name"], ddl_type(item["type"])) for item in found["fields"])

    def property(self, name: str) -> str:
        """Returns a table property, "" if it is not set."""
        return str(dict((self.metadata or {}).get("configuration") or {}).get(name, ""))


@dataclass(frozen=True, slots=True)
class LogVersion:
    """What the log says of a table at one version.

    Args:
        version: The version.
        state: Transaction ids and metadata.
        size: Number and bytes of the table's files, None if the version's checksum does not tell.
    """

    version: int
    state: LogState
    size: tuple[int, int] | None


class DeltaLog:
    """A table's `_delta_log`.

    Args:
        path: The table, a local path or URI.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._filesystem, self.root = open_filesystem(path)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of all files of the log; listed once, and only if single names do not tell."""
        try:
            listed = self._filesystem.ls(f"{self.root}/_delta_log", detail=False)
        except (FileNotFoundError, NotADirectoryError):
            return ()
        return tuple(sorted(name.rstrip("/").rpartition("/")[2] for name in listed))

    @property
    def content(self) -> tuple[str, ...]:
        """The contents of the table's folder except its log and hidden names; a file in its place is its own content."""
        try:
            listed = self._filesystem.ls(self.root, detail=False)
        except (FileNotFoundError, NotADirectoryError):
            return ()
        names = (name.rstrip("/").rpartition("/")[2] for name in listed)
        return tuple(name for name in names if name != "_delta_log" and not name.startswith("."))

    def newest(self) -> int | None:
        """Returns the newest version, None if there is no commit.

        Starts at the checkpoint that `_last_checkpoint` names and tries the next names, so that a long log is not listed.
        """
        version = self._last_checkpoint()
        if version is None or not (self._exists(version) or self._exists(version + 1)):
            found = (_COMMIT.match(name) or _CHECKPOINT.match(name) for name in self.names)
            return max((int(match[1]) for match in found if match), default=None)
        while self._exists(version + 1):
            version += 1
        return version

    def commits(self, newest: int) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yields version and commitInfo of each commit, newest first, as far as the log reaches back."""
        for version in range(newest, -1, -1):
            try:
                yield version, self.commit_info(version)
            except FileNotFoundError:
                return

    def commit_info(self, version: int) -> dict[str, Any]:
        """Returns the commitInfo of a commit; Spark writes it as the first line, others may not.

        Raises:
            FileNotFoundError: the log does not hold this commit.
        """
        for line in self._lines(f"{version:020d}.json"):
            if line.startswith(b'{"commitInfo":'):
                return dict(json.loads(line)["commitInfo"])
        return {}

    def changes_rows(self, version: int) -> bool:
        """True if a commit added or removed rows; rewriting them, as OPTIMIZE does, is no change."""
        lines = self._lines(f"{version:020d}.json")
        return any(
            action.get("dataChange", True) for line in lines if line.startswith(_FILE_ACTIONS[:2]) for action in json.loads(line).values()
        )

    def actions(self, version: int, *kinds: str) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yields kind and content of a commit's actions of some kinds, in the order of the file.

        Raises:
            FileNotFoundError: the log does not hold this commit.
        """
        begins = tuple(f'{{"{kind}":'.encode() for kind in kinds)
        for line in self._lines(f"{version:020d}.json"):
            if line.startswith(begins):
                yield from json.loads(line).items()

    def now(self) -> LogVersion:
        """Reads the newest version, 0 if there is no commit."""
        version = self.newest() or 0
        return LogVersion(version, self.state(version), self.size(version))

    def size(self, version: int) -> tuple[int, int] | None:
        """Returns number and bytes of the table's files at a version, None if its checksum does not tell."""
        checksum = self.checksum(version)
        files, size = checksum.get("numFiles"), checksum.get("tableSizeBytes")
        return None if files is None or size is None else (int(files), int(size))

    def state(self, version: int) -> LogState:
        """Returns transaction ids and metadata at a version.

        Raises:
            StateError: the log has a hole: commits are missing and no checkpoint covers them.
        """
        state = LogState()
        for at in range(version, -1, -1):
            if self._add_checksum(state, at):
                return state
            if at in self._checkpoints:
                self._add_checkpoint(state, at)
                return state
            self._add_commit(state, at)
        return state

    def adds(self, version: int) -> Iterator[dict[str, Any]]:
        """Yields what the log says of each data file at a version (`add` actions), in no order; fields may be None.

        Raises:
            StateError: the log has a hole.
        """
        if (listed := self.checksum(version).get("allFiles")) is not None:
            yield from listed
            return
        start = max((at for at in self._checkpoints if at <= version), default=-1)
        found = {file_key(add): add for add in self._checkpoint_adds(start)} if start >= 0 else {}
        for at in range(start + 1, version + 1):
            try:
                actions = list(self.actions(at, "add", "remove"))
            except FileNotFoundError as error:
                raise self._hole(f"{at:020d}.json") from error
            for kind, action in actions:
                if kind == "remove":
                    found.pop(file_key(action), None)
            found |= {file_key(action): action for kind, action in actions if kind == "add"}
        yield from found.values()

    def checksum(self, version: int) -> dict[str, Any]:
        """Returns the checksum of a version, which tells much of the table's state; empty if there is none."""
        try:
            data = json.loads(self._filesystem.cat_file(f"{self.root}/_delta_log/{version:020d}.crc"))
        except (FileNotFoundError, ValueError):
            return {}
        return data if isinstance(data, dict) else {}

    def _add_commit(self, state: LogState, version: int) -> None:
        name = f"{version:020d}.json"
        try:
            for line in self._lines(name):
                if line.strip() and not line.startswith(_FILE_ACTIONS):
                    state.add(json.loads(line))
        except FileNotFoundError as error:
            raise self._hole(name) from error

    def _hole(self, name: str) -> StateError:
        return StateError(
            f"The Delta log of {self.path} is incomplete: {name} is missing, and no checkpoint covers it.",
            why="Files of _delta_log were deleted or not copied.",
            data="Nothing was written; the table is unchanged.",
            next="Restore the log from a backup, or move the table away and run 'cdc-ops resync --mode full'.",
        )

    def _add_checksum(self, state: LogState, version: int) -> bool:
        data = self.checksum(version)
        if data.get("setTransactions") is None or data.get("metadata") is None:
            return False
        for txn in data["setTransactions"]:
            state.add({"txn": txn})
        state.add({"metaData": data["metadata"]})
        for domain in data.get("domainMetadata") or ():
            state.add({"domainMetadata": domain})
        return True

    def _add_checkpoint(self, state: LogState, version: int) -> None:
        for action in self._checkpoint_actions(version, _STATE):
            state.add(action)

    def _checkpoint_adds(self, version: int) -> Iterator[dict[str, Any]]:
        for action in self._checkpoint_actions(version, _FILES):
            if "add" in action:
                yield _with_maps(action["add"])
            elif "sidecar" in action:  # the V2 form has its files in others
                found = self._parquet_actions(f"_sidecars/{action['sidecar']['path']}", _FILES)
                yield from (_with_maps(one["add"]) for one in found if "add" in one)

    def _checkpoint_actions(self, version: int, wanted: Mapping[str, tuple[str, ...]]) -> Iterator[dict[str, Any]]:
        """Yields the actions of some kinds that a checkpoint holds, each with some of its fields at least."""
        begins = tuple(f'{{"{kind}":'.encode() for kind in wanted)
        for name in self._checkpoints[version]:
            if name.endswith(".json"):
                yield from (json.loads(line) for line in self._lines(name) if line.startswith(begins))
            else:
                yield from self._parquet_actions(name, wanted)

    def _parquet_actions(self, name: str, wanted: Mapping[str, tuple[str, ...]]) -> Iterator[dict[str, Any]]:
        import pyarrow.parquet as pq

        with self._filesystem.open(f"{self.root}/_delta_log/{name}", "rb") as file:
            parquet = pq.ParquetFile(file)
            kinds = [kind for kind in wanted if kind in parquet.schema_arrow.names]
            columns = [f"{kind}.{one}" if one else kind for kind in kinds for one in wanted[kind] or ("",)]
            for batch in parquet.iter_batches(columns=columns):
                for kind in kinds:
                    present = batch.column(kind).drop_null()
                    yield from ({kind: value} for value in present.to_pylist())

    @cached_property
    def _checkpoints(self) -> dict[int, tuple[str, ...]]:
        """Complete checkpoints by version: one file, all parts of several, or the top file of the V2 form."""
        groups: dict[tuple[int, str], list[str]] = {}
        for name in self.names:
            if match := _CHECKPOINT.match(name):
                groups.setdefault((int(match[1]), match[3] or match[4] or "1"), []).append(name)
        complete = {}
        for (version, kind), names in groups.items():
            if not kind.isdigit() or len(names) == int(kind):
                complete[version] = tuple(names)
        return complete

    def _last_checkpoint(self) -> int | None:
        try:
            return int(json.loads(self._filesystem.cat_file(f"{self.root}/_delta_log/_last_checkpoint"))["version"])
        except (FileNotFoundError, NotADirectoryError, ValueError, KeyError):
            return None

    def _exists(self, version: int) -> bool:
        return bool(self._filesystem.exists(f"{self.root}/_delta_log/{version:020d}.json"))

    def _lines(self, name: str) -> Iterator[bytes]:
        with self._filesystem.open(f"{self.root}/_delta_log/{name}", "rb") as file:
            yield from file


def _with_maps(add: dict[str, Any]) -> dict[str, Any]:
    """Returns what a checkpoint says of a file as a commit says it: Parquet's maps come as pairs."""
    return {**add, **{name: dict(add[name]) for name in ("partitionValues", "tags") if add.get(name) is not None}}


def file_key(action: Mapping[str, Any]) -> tuple[str, str]:
    """Returns what tells a file of the log apart: its path, and its deletion vector, because each of them makes another file of it."""
    vector = action.get("deletionVector")
    return action["path"], f"{vector['storageType']}{vector['pathOrInlineDv']}@{vector.get('offset')}" if vector else ""


_DDL = {"long": "bigint", "integer": "int", "short": "smallint", "byte": "tinyint"}


def ddl_type(stored: Any) -> str:
    """Returns a type of the log's schema as Spark SQL writes it: `long` is `bigint`."""
    if isinstance(stored, str):
        return _DDL.get(stored, stored)
    match stored["type"]:
        case "array":
            return f"array<{ddl_type(stored['elementType'])}>"
        case "map":
            return f"map<{ddl_type(stored['keyType'])},{ddl_type(stored['valueType'])}>"
        case "struct":
            return "struct<" + ",".join(f"{item['name']}:{ddl_type(item['type'])}" for item in stored["fields"]) + ">"
        case _:
            return json.dumps(stored)
