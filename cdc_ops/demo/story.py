"""The demo's phases: snapshot, increment, backfill, resync; each a real Airflow run, followed by a comparison of source and lake."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Final

from cdc_ops.core.tables import TableName
from cdc_ops.demo import shop
from cdc_ops.demo.api import TaskState
from cdc_ops.demo.check import TableCheck
from cdc_ops.demo.layout import DAG_ID, PIPELINE, Layout
from cdc_ops.demo.report import Screen, TableReport, print_tables
from cdc_ops.demo.stage import Stage
from cdc_ops.state.base import StateReader
from cdc_ops.state.sql import open_reader

WRITER_SECONDS: Final = 2.0
BACKFILL_DAYS_AGO: Final = 3
UNSEEN_DELETE: Final = "increments by a cursor do not see deletes: 'cdc-ops reconcile' does, and so does a resync of the key (below)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Excuse:
    """A difference that is right at this point of the story.

    Args:
        only_in_lake: How many keys only the lake has; nothing else may differ.
        why: The reason, for the report.
    """

    only_in_lake: int
    why: str

    def covers(self, check: TableCheck) -> bool:
        """True if the table differs by exactly this."""
        others = check.only_in_source or check.different or check.duplicates
        return not others and check.only_in_lake == self.only_in_lake


UNSEEN: Final = {"shop.sales": Excuse(only_in_lake=1, why=UNSEEN_DELETE)}


class Story:
    """Tells the story on a stage.

    Args:
        stage: What runs.
        layout: Where everything is.
        screen: Shows it.
    """

    def __init__(self, stage: Stage, layout: Layout, screen: Screen) -> None:
        self._stage = stage
        self._layout = layout
        self._screen = screen
        self._told: set[str] = set()

    def tell(self) -> bool:
        """Plays all phases, and returns whether everything that had to be equal was."""
        phases = (self._snapshot, self._increment, self._backfill, self._resync)
        outcomes = [phase() for phase in phases]  # a difference does not end the story: what follows shows more of it
        return all(outcomes)

    def _snapshot(self) -> bool:
        self._screen.heading("1 of 4: snapshot")
        self._changed("a table of 4 sales and one of 200,000 orders; the lake is empty")
        return self._phase("the first run reads both tables", self._first_run, {})

    def _increment(self) -> bool:
        self._screen.heading("2 of 4: increment")
        stage = self._stage
        before = stage.writer.work()
        with self._screen.step("the writer works"):
            stage.writer.resume()
            time.sleep(WRITER_SECONDS / 2)
            changes = shop.change_sales(stage.server)
            time.sleep(WRITER_SECONDS / 2)
            after = stage.writer.pause()
        inserted, updated = after.inserted - before.inserted, after.updated - before.updated
        self._changed(*(f"{change.table}: {change.text}" for change in changes))
        self._changed(
            f"shop.orders: {inserted:,} inserted and {updated:,} updates in {after.transactions - before.transactions} transactions"
        )
        return self._phase("a manual run reads what has changed", lambda: self._trigger({}, "increment"), UNSEEN)

    def _backfill(self) -> bool:
        self._screen.heading("3 of 4: backfill")
        since, until = self._interval()
        changes = shop.change_silently(self._stage.server, _sql(since), _sql(until))
        self._changed(*(f"{change.table}: {change.text}: no increment can see that" for change in changes))
        return self._phase("Airflow's backfill reads that interval again", lambda: self._start_backfill(since), UNSEEN)

    def _resync(self) -> bool:
        self._screen.heading("4 of 4: resync")
        self._changed("nothing; the row of shop.sales that was deleted at the source in step 2 is still in the lake")
        params = {"tables": ["shop.sales"], "mode": "keys", "keys": ["1"]}
        return self._phase("a manual run with parameters reads key 1 again", lambda: self._trigger(params, "resync of a key"), {})

    def _phase(self, title: str, start: Callable[[], str], excuses: Mapping[str, Excuse]) -> bool:
        stage, started = self._stage, time.monotonic()
        stage.writer.pause()
        shop.let_bound_pass(stage.server)
        with self._screen.step(title):
            run_id = start()
            stage.api.wait_for_run(DAG_ID, run_id, self._show)
        with self._screen.step("comparing source and lake, row by row"):
            checks = stage.checker.compare()
        reports = self._reports(run_id, checks, excuses)
        self._screen.line(f"  run {run_id}")
        print_tables(self._screen, reports)
        self._screen.line(f"  [dim]run and comparison: {time.monotonic() - started:.1f} s[/]")
        return all(one.check.equal or bool(one.excused) for one in reports)

    def _first_run(self) -> str:
        """Lets Airflow run the DAG; one with a schedule starts by itself, with the interval that ended last."""
        stage = self._stage
        stage.api.unpause(DAG_ID)
        if not stage.dag.get("timetable_summary"):
            return self._trigger({}, "snapshot")
        return stage.api.wait_for_new_run(DAG_ID, "scheduled", ())

    def _trigger(self, params: Mapping[str, object], note: str) -> str:
        return self._stage.api.trigger(DAG_ID, params, f"demo: {note}")

    def _start_backfill(self, since: datetime) -> str:
        api = self._stage.api
        known = api.runs(DAG_ID, "backfill")
        api.backfill(DAG_ID, since, since)
        return api.wait_for_new_run(DAG_ID, "backfill", known)

    def _interval(self) -> tuple[datetime, datetime]:
        """Returns an interval of the DAG's schedule, some days ago, as Airflow cuts it."""
        day = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0) - timedelta(days=BACKFILL_DAYS_AGO)
        first, second, *_ = self._stage.api.intervals(DAG_ID, day, day + timedelta(days=1))
        return first, second

    def _show(self, tasks: tuple[TaskState, ...]) -> None:
        self._stage.watch.look_at_processes()
        self._screen.detail(task_line(tasks))

    def _changed(self, *lines: str) -> None:
        for text in lines:
            self._screen.line(f"  at the source: {text}")

    def _reports(self, run_id: str, checks: Mapping[str, TableCheck], excuses: Mapping[str, Excuse]) -> list[TableReport]:
        reader = open_reader(self._layout.settings()["CDC_OPS_LEDGER"])
        try:
            reports = [_report(reader, run_id, check, excuses.get(table)) for table, check in checks.items()]
        finally:
            reader.close()
        return [replace(one, message=self._news(one.message)) for one in reports]

    def _news(self, message: str) -> str:
        """Returns the parts of a message that no phase has told yet; warnings come with every run."""
        parts = [part for part in message.split("; ") if part not in self._told]
        self._told.update(parts)
        return "; ".join(parts)


def task_line(tasks: tuple[TaskState, ...]) -> str:
    """Returns how a run stands, in one line: what works now, and how much is done."""
    done = sum(task.state in {"success", "skipped"} for task in tasks)
    active = [task for task in tasks if task.state in {"running", "queued", "scheduled", "up_for_retry", "failed"}]
    names = ", ".join(f"{task.task.rpartition('.')[2]} {task.state}" for task in active)
    return f"{done} of {len(tasks)} tasks done" + (f"; {names}" if names else "")


def _report(reader: StateReader, run_id: str, check: TableCheck, excuse: Excuse | None) -> TableReport:
    name = TableName.parse(check.table)
    run, state = reader.table_run(PIPELINE, name, run_id), reader.table_state(PIPELINE, name)
    excused = excuse.why if excuse is not None and excuse.covers(check) else ""
    known = TableReport(
        table=check.table,
        status="",
        check=check,
        watermark=str(state.watermark or ""),
        delta_version=state.delta_version,
        excused=excused,
    )
    if run is None:
        return known
    return replace(
        known,
        status=str(run.status),
        read=run.counts.read,
        inserted=run.counts.inserted,
        updated=run.counts.updated,
        deleted=run.counts.deleted,
        window=str(run.window or ""),
        message=run.message,
    )


def _sql(instant: datetime) -> str:
    return instant.strftime("%Y-%m-%d %H:%M:%S")
