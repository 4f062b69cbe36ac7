"""The common part of all stories: a phase is a real Airflow run, followed by a comparison of source and lake."""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from cdc_ops.core.archive.watermarks import ArchiveWatermark, format_position
from cdc_ops.core.schema.tables import TableName
from cdc_ops.demo.airflow.api import TaskState
from cdc_ops.demo.check import TableCheck
from cdc_ops.demo.layout import Layout
from cdc_ops.demo.report import Screen, TableReport, print_tables
from cdc_ops.demo.stage import Stage
from cdc_ops.state.base import StateReader
from cdc_ops.state.sql import open_reader


@dataclass(frozen=True, slots=True, kw_only=True)
class Excuse:
    """A difference that is expected at this point of the story.

    Args:
        only_in_lake: The number of keys that only the lake has; there may be no other difference.
        why: The reason, for the report.
    """

    only_in_lake: int
    why: str

    def covers(self, check: TableCheck) -> bool:
        """True if the table has exactly this difference."""
        others = check.only_in_source or check.different or check.duplicates
        return not others and check.only_in_lake == self.only_in_lake


class Play(ABC):
    """Runs the phases of a story on a stage.

    Args:
        stage: The running processes.
        layout: The demo's folders and files.
        screen: Shows the progress.
    """

    def __init__(self, stage: Stage, layout: Layout, screen: Screen) -> None:
        self._stage = stage
        self._layout = layout
        self._screen = screen
        self._told: set[str] = set()

    @abstractmethod
    def settle(self) -> None:
        """Waits until the source, and its archive if there is one, no longer change, so that both sides can be compared after the run."""

    def _phase(self, title: str, start: Callable[[], str], excuses: Mapping[str, Excuse]) -> bool:
        started = time.monotonic()
        self.settle()
        run_id = self._run(title, start)
        with self._screen.step("comparing source and lake, row by row"):
            checks = self._stage.checker.compare(self._layout.pipeline)
        reports = self._reports(run_id, checks, excuses)
        self._print(run_id, reports)
        self._screen.line(f"  [dim]run and comparison: {time.monotonic() - started:.1f} s[/]")
        return all(bool(one.check and one.check.equal) or bool(one.excused) for one in reports)

    def _moving_phase(self, title: str, start: Callable[[], str], table: str) -> None:
        """Runs a phase while the source goes on changing, so that there is nothing to compare."""
        started = time.monotonic()
        run_id = self._run(title, start)
        self._print(run_id, self._reports(run_id, {table: None}, {}))
        self._screen.line(f"  [dim]run: {time.monotonic() - started:.1f} s[/]")

    def _run(self, title: str, start: Callable[[], str]) -> str:
        with self._screen.step(title):
            run_id = start()
            self._stage.api.wait_for_run(self._layout.dag_id, run_id, self._show)
        return run_id

    def _print(self, run_id: str, reports: Sequence[TableReport]) -> None:
        self._screen.line(f"  run {run_id}")
        print_tables(self._screen, reports)

    def _trigger(self, params: Mapping[str, object], note: str) -> str:
        return self._stage.api.trigger(self._layout.dag_id, params, f"demo: {note}")

    def _show(self, tasks: tuple[TaskState, ...]) -> None:
        self._stage.watch.look_at_processes()
        self._screen.detail(task_line(tasks))

    def _changed(self, *lines: str) -> None:
        for text in lines:
            self._screen.line(f"  at the source: {text}")

    def _reports(self, run_id: str, checks: Mapping[str, TableCheck | None], excuses: Mapping[str, Excuse]) -> list[TableReport]:
        reader = open_reader(self._layout.settings()["CDC_OPS_LEDGER"])
        try:
            reports = [_report(reader, self._layout.pipeline, run_id, table, check) for table, check in checks.items()]
        finally:
            reader.close()
        return [replace(one, message=self._news(one.message), excused=_excused(one, excuses)) for one in reports]

    def _news(self, message: str) -> str:
        """Returns the parts of a message that no earlier phase has shown: warnings come with every run."""
        parts = [part for part in message.split("; ") if part not in self._told]
        self._told.update(parts)
        return "; ".join(parts)


def task_line(tasks: tuple[TaskState, ...]) -> str:
    """Returns one line with the number of finished tasks of a run, and the states of its active ones."""
    done = sum(task.state in {"success", "skipped"} for task in tasks)
    active = [task for task in tasks if task.state in {"running", "queued", "scheduled", "up_for_retry", "failed"}]
    names = ", ".join(f"{task.task.rpartition('.')[2]} {task.state}" for task in active)
    return f"{done} of {len(tasks)} tasks done" + (f"; {names}" if names else "")


def _excused(report: TableReport, excuses: Mapping[str, Excuse]) -> str:
    excuse = excuses.get(report.table)
    return excuse.why if excuse is not None and report.check is not None and excuse.covers(report.check) else ""


def _position(archive: ArchiveWatermark) -> str:
    reached = [f"{one.stream} up to {format_position(one.to)}" for one in archive.streams]
    return ", ".join([*reached, *((archive.gtids,) if archive.gtids else ())])


def _report(reader: StateReader, pipeline: str, run_id: str, table: str, check: TableCheck | None) -> TableReport:
    name = TableName.parse(table)
    run, state = reader.table_run(pipeline, name, run_id), reader.table_state(pipeline, name)
    known = TableReport(
        table=table,
        status="",
        check=check,
        watermark=str(state.progress.watermark or ""),
        position=_position(state.progress.archive) if state.progress.archive else "",
        delta_version=state.delta_version,
    )
    if run is None:
        return known
    return replace(
        known,
        status=str(run.status),
        read=run.result.counts.read,
        inserted=run.result.counts.inserted,
        updated=run.result.counts.updated,
        deleted=run.result.counts.deleted,
        window=str(run.result.window or ""),
        message=run.messages.message,
    )
