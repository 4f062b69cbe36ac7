"""The journal of a run's Spark applications: job specs and results as files beside the staging area, a pair for each try.

    <staging>/<pipeline>/_jobs/<run>/<step>-<map index>-<try>.json            what an application was started for
    <staging>/<pipeline>/_jobs/<run>/<step>-<map index>-<try>.result.json     what it did; absent if it died

Tries of a task can do different tables, because a retry re-does only what failed; the commit step reads them all.
"""

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from cdc_ops.core import json_codec
from cdc_ops.core.operation.job import JobSpec, Step, StepResult, TableResult
from cdc_ops.core.operation.results import OperationResult, Outcome
from cdc_ops.core.phases import Phases, PhaseSeconds, RunPhase, added, total_seconds
from cdc_ops.core.pipeline.pipeline import Pipeline
from cdc_ops.core.schema.tables import TableName
from cdc_ops.lake.file_io import open_filesystem, read_text, write_text
from cdc_ops.lake.staging.manifests import expire_folders

_ORDER = (Step.EXTRACT, Step.MERGE, Step.SYNC)
KEPT = timedelta(days=14)
"""How long journals stay: longer than any run takes, and for whoever wants to look at them."""

_WRITTEN = (Outcome.APPLIED, Outcome.ALREADY_APPLIED)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFiles:
    """The files of one group of tables in one run.

    Args:
        folder: Where they are, a path or URI.
        map_index: The group's number, -1 where tasks are not mapped.
    """

    folder: str
    map_index: int

    def spec_path(self, step: Step, attempt: int) -> str:
        """Path of a try's job spec."""
        return f"{self.folder}/{step}-{self.map_index}-{attempt}.json"

    def result_path(self, step: Step, attempt: int) -> str:
        """Path of a try's result."""
        return f"{self.folder}/{step}-{self.map_index}-{attempt}.result.json"

    def write(self, job: JobSpec, attempt: int) -> str:
        """Writes the spec of a try and returns its path."""
        path = self.spec_path(job.step, attempt)
        write_text(path, json_codec.dumps(job))
        return path

    def result(self, step: Step, attempt: int) -> StepResult | None:
        """Reads the result of a try, None if there is none."""
        try:
            text = read_text(self.result_path(step, attempt))
        except FileNotFoundError:
            return None
        return json_codec.loads(StepResult, text)

    def with_start_seconds(self, result: StepResult, attempt: int, seconds: float) -> StepResult:
        """Puts start and end of the Spark application into a result, and writes the result; only the caller knows how long they took.

        Args:
            result: The result that the application wrote.
            attempt: The number of the try.
            seconds: Seconds from the submission of the application to its end.
        """
        known = tuple(item for item in result.phases if item.phase is not RunPhase.SPARK_START)
        around = max(round(seconds - result.seconds - total_seconds(known), 3), 0.0)
        complete = replace(result, phases=added(known, (PhaseSeconds(phase=RunPhase.SPARK_START, seconds=around),)))
        write_text(self.result_path(result.step, attempt), json_codec.dumps(complete))
        return complete

    def tries(self) -> tuple[tuple[JobSpec, StepResult | None], ...]:
        """Returns all tries that moved rows, in the order in which they ran: job and result."""
        found = sorted(((_ORDER.index(step), attempt), step, attempt) for step, attempt in self._attempts())
        return tuple((json_codec.loads(JobSpec, read_text(self.spec_path(step, n))), self.result(step, n)) for _, step, n in found)

    def _attempts(self) -> Iterable[tuple[Step, int]]:
        filesystem, inner = open_filesystem(self.folder)
        pattern = re.compile(rf"({'|'.join(_ORDER)})-{self.map_index}-(\d+)\.json$")
        try:
            names = filesystem.ls(inner, detail=False)
        except FileNotFoundError:
            return ()
        matches = (pattern.search(str(name)) for name in names)
        return tuple((Step(match[1]), int(match[2])) for match in matches if match)


def open_journal(pipeline: Pipeline, run_id: str, map_index: int, *, approved: bool = False) -> JobFiles:
    """Returns the journal of a group in a run; the run id, which may hold any character, becomes a safe and unique folder name.

    Args:
        pipeline, run_id: The run.
        map_index: The number of the group; that of the question for tables that somebody has let through.
        approved: The group is of such tables.
    """
    safe = re.sub(r"[^A-Za-z0-9._-]", "_", run_id)[:120]
    name = f"{safe}-{hashlib.sha256(run_id.encode()).hexdigest()[:8]}"
    return JobFiles(folder=f"{_jobs(pipeline)}/{name}{'-approved' if approved else ''}", map_index=map_index)


def expire_journals(pipeline: Pipeline, now: datetime) -> tuple[str, ...]:
    """Removes the journals of runs that ended long ago; returns their folders."""
    return expire_folders(_jobs(pipeline), now - KEPT)


def _jobs(pipeline: Pipeline) -> str:
    return f"{pipeline.target.staging.rstrip('/')}/{pipeline.name}/_jobs"


def written(tries: Iterable[tuple[JobSpec, StepResult | None]]) -> frozenset[str]:
    """Returns the ids of operations that some try reported as written to the lake."""
    results = (item for _, result in tries if result for table in result.tables for item in table.operations)
    return frozenset(item.operation_id for item in results if item.outcome in _WRITTEN)


def summary(tries: Iterable[tuple[JobSpec, StepResult | None]]) -> StepResult | None:
    """Folds all tries into one result: per operation the report of the try that wrote it, per table the error of the last try.

    The phases of all tries are added up.

    A table whose last try left no result has no error here: the commit step sees its open operations and says that the job was lost.
    """
    tables: dict[TableName, TableResult] = {}
    last: StepResult | None = None
    application: Phases = ()
    for job, result in tries:
        reported = {table.table: table for table in result.tables} if result else {}
        for name in dict.fromkeys(operation.table for operation in job.operations):
            seen = reported.get(name, TableResult(table=name))
            before = tables.get(name, TableResult(table=name))
            phases = added(before.phases, seen.phases)
            catalog = seen.catalog or before.catalog
            tables[name] = replace(seen, operations=_newer(before.operations, seen.operations), phases=phases, catalog=catalog)
        last = result or last
        application = added(application, result.phases if result else ())
    return replace(last, tables=tuple(tables.values()), phases=application) if last else None


def _newer(before: tuple[OperationResult, ...], seen: tuple[OperationResult, ...]) -> tuple[OperationResult, ...]:
    kept = {item.operation_id: item for item in before}
    for item in seen:
        if item.outcome is Outcome.LANDED or (item.operation_id in kept and item.outcome is Outcome.ALREADY_APPLIED):
            continue
        kept[item.operation_id] = item
    return tuple(kept.values())
