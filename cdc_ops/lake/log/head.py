"""The head of a Delta table, read without Spark: the plan and commit steps compare it with the ledger."""

import json
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from cdc_ops.core.operation.operation import app_id
from cdc_ops.core.operation.protocol.commit_json import parse_record
from cdc_ops.core.operation.protocol.commit_record import CommitRecord, ForeignChange, LakeHead
from cdc_ops.core.operation.results import Counts
from cdc_ops.core.phases import Phases, PhaseSeconds, RunPhase
from cdc_ops.core.pipeline.table_settings import CHANGE_FEED
from cdc_ops.core.schema.tables import TableName
from cdc_ops.errors import TargetNotDeltaError
from cdc_ops.lake.log.bounds import has_exact_bounds
from cdc_ops.lake.log.delta_log import DeltaLog, LogState

OWNER_PIPELINE: Final = "cdc_ops.pipeline"
OWNER_TABLE: Final = "cdc_ops.table"
"""Table properties, set at creation, that say whose table it is before its first data commit."""
FORMER_PIPELINES: Final = "cdc_ops.former_pipelines"
"""Table property: the pipelines that had the table before its owner took it over (`cdc-ops adopt`), the last one last, e.g. `shop,web`."""

_OUR_IDS: Final = "cdc-ops/"
_MEASURED: Final = {
    "materializeSourceTimeMs": RunPhase.MERGE_SOURCE,
    "scanTimeMs": RunPhase.MERGE_SCAN,
    "rewriteTimeMs": RunPhase.MERGE_REWRITE,
}
"""What Delta measures of a MERGE, in milliseconds."""
_REPLACED: Final = ("replaceOnCond", "predicate")
"""Parameters of a WRITE that replaced the rows of a condition; a MERGE has the second too."""
_HARMLESS: Final = ("OPTIMIZE", "VACUUM", "REORG")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Trail:
    """What the commits from the newest back to our last record tell."""

    record: CommitRecord | None
    version: int | None
    changes: tuple[ForeignChange, ...]
    complete: bool


def read_head(path: str, pipeline: str, table: TableName) -> LakeHead | None:
    """Reads the newest state of a table from its log; the cost does not depend on the number of its data files.

    Args:
        path: The table, a local path or URI.
        pipeline, table: Whose commits are ours.

    Returns:
        The head; None if there is nothing, or an empty folder.

    Raises:
        TargetNotDeltaError: there are files and no Delta table.
        StateError: the log has holes, or a record was written by a newer cdc-ops.
    """
    log = DeltaLog(path)
    version = log.newest()
    if version is None:
        check_empty(log)
        return None
    state = log.state(version)
    ours = app_id(pipeline, table)
    owner = state.property(OWNER_PIPELINE) and f"{_OUR_IDS}{state.property(OWNER_PIPELINE)}/{state.property(OWNER_TABLE)}"
    names = former_pipelines(state)
    former = {app_id(name, table) for name in names}
    # What a pipeline committed before another one took the table over makes the table its own no more.
    txn_version = state.transactions.get(ours) if owner == ours or ours not in former else None
    known = {pipeline, *names} if owner == ours else {pipeline}  # a RESTORE may lead back to before it was taken over
    trail = _trail(log, version, known, table) if txn_version is not None or owner == ours else None
    return LakeHead(
        version=version,
        txn_version=txn_version,
        record=replace(trail.record, pipeline=pipeline) if trail and trail.record else None,
        record_version=trail.version if trail else None,
        foreign_app_ids=_foreign(state, {ours} | former - {owner}, owner),
        columns=state.columns(),
        partition_by=state.partition_by(),
        created_by_us=trail is not None and trail.record is None and trail.complete and not trail.changes,
        foreign_changes=trail.changes if trail else (),
        exact_bounds=has_exact_bounds(state),
        records_changes=state.property(CHANGE_FEED).lower() == "true",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundCommit:
    """A commit of cdc-ops in a table's log.

    Args:
        version: Its Delta version.
        record: What it says of itself.
        metrics: Delta's counts of what it did (`operationMetrics`).
    """

    version: int
    record: CommitRecord
    metrics: Mapping[str, str]


def commit_counts(commit: FoundCommit, rows: int | None) -> Counts:
    """Returns the row counts of a commit.

    Args:
        commit: The commit.
        rows: Rows that were read for it; None = as many as the statement had.
    """
    metrics = commit.metrics

    def number(*names: str) -> int:
        return next((int(metrics[name]) for name in names if name in metrics), 0)

    merged = "numTargetRowsInserted" in metrics
    # To Delta a row that is marked as deleted is an updated one.
    marked = commit.record.counts.marked + (number("numTargetRowsNotMatchedBySourceUpdated") if commit.record.columns.deleted_column else 0)
    return Counts(
        read=rows if rows is not None else number("numSourceRows", "numOutputRows"),
        inserted=number("numTargetRowsInserted", "numOutputRows"),
        updated=max(number("numTargetRowsUpdated") - marked, 0),
        deleted=number("numTargetRowsDeleted") + marked,
        bytes=number("numTargetBytesAdded") if merged else number("numOutputBytes"),
    )


def statement_phases(metrics: Mapping[str, str]) -> Phases:
    """Returns the seconds of the jobs of a MERGE by the metrics of its commit; empty for other statements."""
    found = ((phase, metrics.get(name)) for name, phase in _MEASURED.items())
    return tuple(PhaseSeconds(phase=phase, seconds=int(value) / 1000) for phase, value in found if value)


def find_commit(path: str, wanted: str | int) -> FoundCommit | None:
    """Finds the newest commit of an operation.

    Args:
        path: The table.
        wanted: The operation's id, or its number (op_seq). A number ends the search at the first smaller one; an id is searched for
            as far as the log reaches back.

    Returns:
        The commit, or None if the log does not hold it (any more).
    """
    log = DeltaLog(path)
    newest = log.newest()
    for version, info in log.commits(newest) if newest is not None else ():
        record = parse_record(info.get("userMetadata"))
        if record is None:
            continue
        if wanted in (record.operation_id, record.op_seq):
            return FoundCommit(version=version, record=record, metrics=_metrics(log, version, info))
        if isinstance(wanted, int) and record.op_seq < wanted:
            return None
    return None


def _metrics(log: DeltaLog, version: int, info: Mapping[str, Any]) -> Mapping[str, str]:
    """Returns Delta's counts of a commit; those of a REPLACE under the names of a MERGE's.

    Delta counts what a REPLACE wrote together with all rows of the files in which it deleted some. Those files are in the commit with
    their deletion vectors; the others are new.
    """
    metrics: Mapping[str, str] = info.get("operationMetrics") or {}
    parameters = info.get("operationParameters") or {}
    if info.get("operation") != "WRITE" or not any(name in parameters for name in _REPLACED):
        return metrics
    new = [file for _, file in log.actions(version, "add") if not file.get("deletionVector")]
    written, updated = sum(json.loads(file["stats"])["numRecords"] for file in new), int(metrics.get("numDeletedRows", 0))
    return {
        "numSourceRows": str(written),
        "numTargetRowsInserted": str(written - updated),
        "numTargetRowsUpdated": str(updated),
        "numTargetBytesAdded": str(sum(file["size"] for file in new)),
    }


def former_pipelines(state: LogState) -> tuple[str, ...]:
    """Returns the pipelines that had a table before its owner took it over, the last one last."""
    return tuple(filter(None, state.property(FORMER_PIPELINES).split(",")))


def owner_of(path: str) -> tuple[str, str]:
    """Returns the pipeline and the table of the source, as `schema.table`, that a Delta table belongs to; "" for what nothing tells."""
    log = DeltaLog(path)
    version = log.newest()
    state = log.state(version) if version is not None else LogState()
    return state.property(OWNER_PIPELINE), state.property(OWNER_TABLE)


def check_empty(log: DeltaLog) -> None:
    """Checks that the folder of a new table is empty.

    Raises:
        TargetNotDeltaError: files or folders do.
    """
    if found := log.content:
        raise TargetNotDeltaError(
            f"{log.path} has {len(found)} files or folders, but no Delta table.",
            why=f"It has no commit in _delta_log, but for example {found[0]!r}.",
            data="Nothing was written; the folder is unchanged.",
            next="Set another 'path' for the table, or move those files away.",
        )


def _foreign(state: LogState, known: set[str], owner: str) -> tuple[str, ...]:
    ids = {name for name in (*state.transactions, owner) if name.startswith(_OUR_IDS)}
    return tuple(sorted(ids - known))


def _trail(log: DeltaLog, newest: int, pipelines: Container[str], table: TableName) -> _Trail:
    changes: list[ForeignChange] = []
    oldest = newest + 1
    for version, info in _standing_commits(log, newest):
        oldest = version
        record = parse_record(info.get("userMetadata"))
        if record is not None and record.pipeline in pipelines and record.table == table:
            return _Trail(record=record, version=version, changes=tuple(changes), complete=True)
        operation = str(info.get("operation", "unknown"))
        if not operation.startswith(_HARMLESS) and log.changes_rows(version):
            changes.append(ForeignChange(version=version, operation=operation))
    return _Trail(record=None, version=None, changes=tuple(changes), complete=oldest == 0)


def _standing_commits(log: DeltaLog, newest: int) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yields commits newest first, without those that a RESTORE has undone; ends at a RESTORE that does not name its version.

    A RESTORE brings back old rows, but neither the transaction ids nor our record of that time (checked on Delta 4.4): the newest
    record may claim rows that are gone.
    """
    ceiling = newest
    for version, info in log.commits(newest):
        if version > ceiling:
            continue
        yield version, info
        if info.get("operation") == "RESTORE":
            restored = info.get("operationParameters", {}).get("version")
            if restored is None:
                return
            ceiling = int(restored)
