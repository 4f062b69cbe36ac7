"""What a run spends its time on: measured once and nowhere twice, carried with results and records, shown where runs are shown."""

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from cdc_ops.airflow.job_files import JobFiles, summary
from cdc_ops.cli.output import render
from cdc_ops.cli.output.phases import print_phases
from cdc_ops.core import json_codec
from cdc_ops.core.operation.job import JobSpec, Step, StepResult, TableResult
from cdc_ops.core.operation.results import OperationResult, Outcome
from cdc_ops.core.phases import PhaseSeconds, RunPhase, added, phases_text
from cdc_ops.core.pipeline.pipeline import SourceConfig, SourceKind
from cdc_ops.core.schema.tables import TableName
from cdc_ops.lake.file_io import write_text
from cdc_ops.lake.log.head import statement_phases
from cdc_ops.state.table_run import TableRun, TableRunStatus
from cdc_ops.steps.reporting import stopwatch as clock
from cdc_ops.steps.reporting.stopwatch import measured, measured_until, note_imports, noted_imports, split, stopwatch, take_noted_imports
from cdc_ops.steps.runs.run import RunReport
from tests.operations import changed, made
from tests.state_values import make_operation

TABLE = TableName(schema="shop", name="orders")
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def spent(**seconds: float) -> tuple[PhaseSeconds, ...]:
    return tuple(PhaseSeconds(phase=RunPhase[name.upper()], seconds=value) for name, value in seconds.items())


RUN = made(
    TableRun,
    pipeline="shop",
    table=TABLE,
    run_id="r",
    trigger="cli",
    kind=make_operation(1).kind,
    status=TableRunStatus.COMMITTED,
    started_at=NOW,
    phases=spent(plan=0.25, spark_start=7, landing=1.24, merge=4),
)


class Seconds:
    """A clock that goes on by one second each time that it is looked at."""

    def __init__(self) -> None:
        self.now = 0

    def monotonic(self) -> float:
        self.now += 1
        return self.now


@pytest.fixture
def seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "time", Seconds())


@pytest.mark.usefixtures("seconds")
def test_a_phase_within_another_one_is_taken_off_it() -> None:
    with stopwatch() as watch:
        with measured(RunPhase.LANDING):
            with measured(RunPhase.COUNTING):
                pass
            with measured(RunPhase.FOLD):
                pass
        with measured(RunPhase.COUNTING):
            pass
    assert watch.phases == spent(counting=2, landing=3, fold=1)


@pytest.mark.usefixtures("seconds")
def test_a_stopwatch_around_others_has_what_they_measured_also_of_what_failed() -> None:
    with stopwatch() as table:
        with stopwatch() as operation, measured(RunPhase.MERGE):
            pass
        with pytest.raises(ValueError, match="broken"), stopwatch(), measured(RunPhase.MERGE):
            raise ValueError("broken")
    assert operation.phases == spent(merge=1)
    assert table.phases == spent(merge=2)


@pytest.mark.usefixtures("seconds")
def test_a_phase_may_end_before_the_body_that_it_began_with_and_is_ended_once() -> None:
    called = []
    with stopwatch() as watch, measured(RunPhase.LANDING):
        with measured_until(RunPhase.READING, lambda: called.append(watch.phases)) as read:
            read()
        with pytest.raises(ValueError, match="broken"), measured_until(RunPhase.READING, lambda: None):
            raise ValueError("broken")
    assert called == [spent(reading=1, landing=1)]
    assert watch.phases == spent(reading=2, landing=3)


@pytest.mark.usefixtures("seconds")
def test_what_delta_has_measured_is_taken_off_the_phase_that_ran_meanwhile_and_no_more_than_it_had() -> None:
    with stopwatch() as watch, measured(RunPhase.MERGE):
        split(spent(merge_scan=0.25, merge_rewrite=0.5, merge_source=0))
    assert watch.phases == spent(merge_scan=0.25, merge_rewrite=0.5, merge=1.25)
    with stopwatch() as watch, measured(RunPhase.MERGE):
        split(spent(merge_scan=3, merge_rewrite=1))
    assert watch.phases == spent(merge_scan=0.75, merge_rewrite=0.25, merge=1)


def test_the_jobs_of_a_merge_are_those_that_delta_has_measured() -> None:
    metrics = {"materializeSourceTimeMs": "737", "scanTimeMs": "1813", "rewriteTimeMs": "2515", "executionTimeMs": "9276"}
    assert statement_phases(metrics) == spent(merge_source=0.737, merge_scan=1.813, merge_rewrite=2.515)
    assert statement_phases({"numOutputRows": "1"}) == ()


def test_imports_of_a_process_are_told_with_its_first_job_only() -> None:
    note_imports()
    (noted,) = take_noted_imports()
    assert noted.phase is RunPhase.IMPORTS
    assert noted.seconds > 0
    assert take_noted_imports() == ()


@pytest.mark.usefixtures("seconds")
def test_imports_that_a_command_makes_later_are_told_with_the_others() -> None:
    take_noted_imports()
    for _ in range(2):
        with noted_imports():
            pass
    assert take_noted_imports() == spent(imports=2)
    assert take_noted_imports() == ()


def test_nothing_is_measured_where_nobody_asked() -> None:
    with measured(RunPhase.MERGE):
        split(spent(merge_scan=1))
    with stopwatch() as watch:
        pass
    assert watch.phases == ()


@pytest.mark.parametrize(
    "value",
    [
        RUN,
        OperationResult(op_seq=1, operation_id="o", outcome=Outcome.APPLIED, phases=spent(merge=1)),
        TableResult(table=TABLE, phases=spent(merge=1)),
        StepResult(step=Step.SYNC, run_id="r", tables=(), started_at=NOW, finished_at=NOW, phases=spent(spark_start=1), seconds=2),
    ],
    ids=lambda value: type(value).__name__,
)
def test_results_and_records_carry_phases_and_are_read_without_them(value: Any) -> None:
    assert json_codec.loads(type(value), json_codec.dumps(value)) == value
    older = {name: item for name, item in json.loads(json_codec.dumps(value)).items() if name not in {"phases", "seconds"}}
    read = json_codec.loads(type(value), json.dumps(older))
    assert (read.timing if isinstance(read, TableRun) else read).phases == ()


def test_phases_of_all_tries_of_a_run_are_added_up(tmp_path: Path) -> None:
    journal = JobFiles(folder=str(tmp_path), map_index=0)
    tries = (
        (Step.EXTRACT, 1, Outcome.LANDED, spent(landing=3)),
        (Step.MERGE, 1, None, spent(merge=2)),
        (Step.MERGE, 2, Outcome.APPLIED, spent(merge=4)),
    )
    for step, number, outcome, phases in tries:
        job = JobSpec(
            step=step,
            pipeline="shop",
            run_id="r",
            source=SourceConfig(kind=SourceKind.MYSQL, connection="shop_db"),
            operations=(replace(make_operation(1), table=TABLE, operation_id="o"),),
            result_path=journal.result_path(step, number),
            package_version="1",
        )
        journal.write(job, number)
        done = (OperationResult(op_seq=1, operation_id="o", outcome=outcome),) if outcome else ()
        tables = (TableResult(table=TABLE, operations=done, phases=phases, error=None if done else {"type": "LakeConflictError"}),)
        start = spent(imports=0.5, spark_start=1)
        result = StepResult(step=step, run_id="r", tables=tables, started_at=NOW, finished_at=NOW, phases=start, seconds=5)
        write_text(job.result_path, json_codec.dumps(result))
        journal.with_start_seconds(result, number, 15.5)
    found = summary(journal.tries())
    assert found is not None
    assert found.phases == spent(imports=1.5, spark_start=30)
    assert found.tables[0].phases == spent(landing=3, merge=6)


def test_the_report_has_a_line_for_each_table_that_was_worked_on(capsys: pytest.CaptureFixture[str]) -> None:
    idle = changed(RUN, table=TableName(schema="shop", name="idle"), phases=spent(plan=0.1))
    report = RunReport(runs=(RUN, idle), failures=())
    print_phases(report)
    assert capsys.readouterr().out == "shop.orders: 12.5 s: plan 0.2 s, start of Spark 7.0 s, landing 1.2 s, merge 4.0 s\n"
    assert [item["phase"] for item in render.report_data(report)["tables"][0]["phases"]] == ["plan", "start of Spark", "landing", "merge"]


def test_each_phase_is_explained_in_the_monitoring_page() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs/monitor.md").read_text("utf-8")
    table = page.split("## Where the time goes")[1].split("\n## ")[0]
    explained = [name.strip(" *") for line in table.splitlines() if line.startswith("| **") for name in line.split("|")[1].split(",")]
    assert explained == [phase.value for phase in RunPhase]


def test_phases_come_in_the_order_of_a_run() -> None:
    assert phases_text(added(spent(commit=1), spent(merge=2, plan=3))) == "plan 3.0 s, merge 2.0 s, commit 1.0 s"
