"""The change feed of a table by its log: the versions of a range, and whether all their changes exist. Spark-free.

Delta finds out that a file of a feed is gone when a task opens it, in the middle of somebody's job. The log names all files of a range, so
it is known before: one listing of a folder, or a few single looks.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from urllib.parse import unquote

from cdc_ops.core.change_range import Bound, LoggedCommit, version_at
from cdc_ops.core.operation.protocol.commit_json import parse_record
from cdc_ops.core.operation.protocol.commit_record import CommitRecord
from cdc_ops.core.pipeline.table_settings import CHANGE_FEED
from cdc_ops.core.schema.type_widening import canonical_type, holds
from cdc_ops.errors import ChangesUnavailableError, RequestError, StateError
from cdc_ops.lake.file_io import open_filesystem
from cdc_ops.lake.log.delta_log import DeltaLog, LogState

_FEW: Final = 16
"""Files up to which each is looked for by its name; more are found by a listing."""
_NOTHING: Final = "Nothing was read; the table is unchanged."


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedRange:
    """A range of commits whose changes exist.

    Args:
        begin, end: Delta versions, begin excluded, end included.
        times: Version and instant of each commit in it, UTC, rising.
        record: The newest record of ours at or before the end that the log holds, None if there is none.
        widened: True if columns have other types today than somewhere in it, which hold all of its values.
    """

    begin: int
    end: int
    times: tuple[tuple[int, datetime], ...]
    record: CommitRecord | None
    widened: bool = False


def find_range(path: str, begin: Bound, end: Bound | None) -> FeedRange:
    """Finds the versions of a range and checks that their changes can be read.

    Args:
        path: The table.
        begin, end: Its ends; no end is the newest version.

    Raises:
        RequestError: there is no such table or no such range.
        ChangesUnavailableError: the feed was off, the log was cleaned, or files were removed by VACUUM.
    """
    log = DeltaLog(path)
    newest = log.newest()
    if newest is None:
        raise RequestError(f"No Delta table exists at {path}.", data=_NOTHING, next="Load it first: cdc-ops run")
    low = version_at(begin, _commits(log, newest), "begin")
    high = newest if end is None else version_at(end, _commits(log, newest), "end")
    _check_order(path, low, high, newest)
    read = [_read(log, version) for version in range(low + 1, high + 1)]
    if read:
        _check_feed(log, read, newest)
        _check_files(log, read)
    widened = bool(read) and _widened(log, read, newest)
    return FeedRange(begin=low, end=high, times=tuple(_times(read)), record=newest_record(log, high), widened=widened)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Commit:
    """What a commit says of its changes.

    Args:
        version: Its Delta version.
        at: When it was made.
        metadata: The table's properties and columns from it on, if it sets them.
        files: Paths that its changes are read from, relative to the table.
    """

    version: int
    at: datetime
    metadata: LogState | None
    files: tuple[str, ...]


def _commits(log: DeltaLog, newest: int) -> Iterator[LoggedCommit]:
    for version, info in log.commits(newest):
        yield LoggedCommit(version=version, at=instant_of(info), record=parse_record(info.get("userMetadata")))


def newest_record(log: DeltaLog, version: int) -> CommitRecord | None:
    """Returns the newest record of ours at or before a version that the log holds, None if there is none."""
    return next((commit.record for commit in _commits(log, version) if commit.record is not None), None)


def instant_of(info: Mapping[str, Any]) -> datetime:
    """Returns when a commit was made; what a file system says of the log's files is another time once a table was copied."""
    return datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=int(info.get("inCommitTimestamp") or info.get("timestamp") or 0))


def _read(log: DeltaLog, version: int) -> _Commit:
    info: Mapping[str, Any] = {}
    metadata, files = None, {"cdc": dict[str, None](), "add": dict[str, None]()}
    try:
        for kind, content in log.actions(version, "commitInfo", "metaData", "cdc", "add", "remove"):
            if kind == "commitInfo":
                info = content
            elif kind == "metaData":
                metadata = LogState(metadata=content)
            elif kind == "cdc" or content.get("dataChange", True):
                files["cdc" if kind == "cdc" else "add"][unquote(content["path"])] = None
    except FileNotFoundError as error:
        raise _unavailable(
            log, f"its log no longer has version {version}.", "Delta removes old commits, after 'delta.logRetentionDuration'."
        ) from error
    return _Commit(version=version, at=instant_of(info), metadata=metadata, files=tuple(files["cdc"] or files["add"]))


def _is_on(state: LogState) -> bool:
    return state.property(CHANGE_FEED).lower() == "true"


def _times(read: Iterable[_Commit]) -> Iterator[tuple[int, datetime]]:
    """Yields the instants of commits so that each is later than the one before, whatever the clocks of the writers say."""
    last = None
    for commit in read:
        last = commit.at if last is None else max(commit.at, last + timedelta(milliseconds=1))
        yield commit.version, last


def _check_order(path: str, low: int, high: int, newest: int) -> None:
    if low <= high <= newest:
        return
    what = f"the changes of {path} after version {low} up to version {high} are not a valid range."
    why = f"Its newest version is {newest}." if max(low, high) > newest else "The range ends before it starts."
    raise RequestError(what, why=why, data=_NOTHING, next="Correct the ends; the range excludes the first version and includes the last.")


def _check_feed(log: DeltaLog, read: Sequence[_Commit], newest: int) -> None:
    states = [(read[0].version, _state(log, read[0].version)), *((commit.version, commit.metadata) for commit in read)]
    off = [version for version, state in states if state is not None and not _is_on(state)]
    if not off:
        return
    later = (_read(log, version) for version in range(off[-1] + 1, newest + 1))
    since = next((commit.version for commit in later if commit.metadata is not None and _is_on(commit.metadata)), None)
    why = f"It was switched on by version {since}." if since is not None else "It is still off."
    raise _unavailable(log, f"its change feed was off at version {off[-1]}.", why, begin=since)


def _widened(log: DeltaLog, read: Sequence[_Commit], newest: int) -> bool:
    """True if columns have other types now than somewhere in the range, all of which hold the older values.

    Raises:
        ChangesUnavailableError: columns were dropped, renamed or became something else: Delta reads changes with the current columns.
    """
    now = {name: canonical_type(kind) for name, kind in log.state(newest).columns()}
    first = read[0]
    before = [(first.version - 1, _state(log, first.version - 1))] if first.metadata is not None else []
    states = [*before, (first.version, _state(log, first.version)), *((commit.version, commit.metadata) for commit in read[1:])]
    widened = False
    for version, state in reversed(states):
        for name, kind in state.columns() if state is not None else ():
            if name not in now or not holds(now[name], kind):
                became = f"changed from {kind} to {now[name]}" if name in now else f"({kind}) was dropped or renamed"
                later = [commit.version for commit in read if commit.version > version and commit.metadata is not None]
                raise _unavailable(
                    log,
                    f"its columns at version {version} differ from the current ones.",
                    f"Column {name} {became}; Delta reads changes with the current columns.",
                    begin=later[0] if later else None,
                )
            widened = widened or now[name] != canonical_type(kind)
    return widened


def _state(log: DeltaLog, version: int) -> LogState | None:
    """Returns properties and columns at a version; None if the log begins later and no checkpoint tells."""
    try:
        return log.state(version) if version >= 0 else None
    except StateError:
        return None


def _check_files(log: DeltaLog, read: Sequence[_Commit]) -> None:
    gone = missing_files(log.path, [file for commit in read for file in commit.files])
    if not gone:
        return
    last = max(commit.version for commit in read if gone.intersection(commit.files))
    raise _unavailable(
        log,
        f"VACUUM removed files with the changes of version {last} and earlier.",
        f"It removes files that the table has not needed for longer than 'delta.deletedFileRetentionDuration', for example {min(gone)}.",
        begin=last,
    )


def missing_files(table: str, files: Sequence[str]) -> set[str]:
    """Returns the files that are not there; names with a scheme lie elsewhere, as those of shallow clones do, and are left to Delta."""
    filesystem, root = open_filesystem(table)
    own = [file for file in files if "://" not in file and not file.startswith("/")]
    if len(own) <= _FEW:
        return {file for file in own if not filesystem.exists(f"{root}/{file}")}
    there: set[str] = set()
    for folder in {file.rpartition("/")[0] for file in own}:
        with suppress(FileNotFoundError, NotADirectoryError):
            names = filesystem.ls(f"{root}/{folder}".rstrip("/"), detail=False)
            there.update(f"{folder}/{name.rstrip('/').rpartition('/')[2]}".lstrip("/") for name in names)
    return set(own) - there


def _unavailable(log: DeltaLog, what: str, why: str, begin: int | None = None) -> ChangesUnavailableError:
    remedy = f"Start after version {begin}" if begin is not None else "Begin later"
    return ChangesUnavailableError(
        f"The changes of {log.path} are not available: {what}",
        why=why,
        data=_NOTHING,
        next=f"{remedy}, or read the table as a whole and follow its changes from its version on. 'change_feed: true' in the pipeline file"
        " records them; 'retention' of its 'maintenance' sets how long they are kept.",
    )
