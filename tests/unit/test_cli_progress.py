"""What is shown while a command works: a line for each table on a terminal, plain lines elsewhere, and nothing where quiet is wanted."""

import io
import logging
import re
from pathlib import Path
from unittest.mock import Mock

import pyarrow as pa
import pytest
from rich.console import Console
from rich.progress import Progress, TextColumn

from cdc_ops.cli.commands.pipelines import run_all
from cdc_ops.cli.output import render
from cdc_ops.cli.output.moving_lines import MOST_LINES, MovingLines, progress
from cdc_ops.core.operation.job import Step
from cdc_ops.core.pipeline.pipeline import Reader
from cdc_ops.decode.kernel_folder import is_uncompiled
from cdc_ops.steps.query import reader_choice
from cdc_ops.steps.query.pulse import counted, pulse_folder, pulses
from cdc_ops.steps.reporting.progress_lines import Meter
from cdc_ops.steps.runs.run import RunReport
from tests.lake_case import Case
from tests.operations import changed
from tests.unit.test_phases import RUN

logger = logging.getLogger("cdc_ops.job")


def lines_after(*said: str) -> list[str]:
    bar = Progress(TextColumn("{task.description}"), console=Console(file=io.StringIO()))
    moving = MovingLines(bar)
    for line in said:
        moving.show(line)
    return [task.description for task in bar.tasks]


def test_tables_that_are_worked_on_side_by_side_do_not_overwrite_each_other() -> None:
    shown = lines_after("starting Spark", "shop.a: 1 of 3 parts", "shop.b: merges 5 rows", "shop.a: 2 of 3 parts\nand more", "stopping")
    assert shown == ["stopping", "shop.a: 2 of 3 parts", "shop.b: merges 5 rows"]


def test_the_line_that_was_still_for_longest_gives_way() -> None:
    said = [f"shop.t{number}: begins" for number in range(MOST_LINES)]
    assert lines_after(*said, "shop.t0: goes on", "shop.new: begins") == ["shop.t0: goes on", *said[2:], "shop.new: begins"]


def test_elsewhere_than_on_a_terminal_each_line_is_printed_and_quiet_prints_none(capsys: pytest.CaptureFixture[str]) -> None:
    for quiet in (False, True):
        with progress(quiet):
            logger.info("shop.a: [merges] 5 rows")
            logger.debug("shop.a: reads", extra={"share": 0.5})
    logger.warning("nobody shows it any more")
    assert capsys.readouterr().err == "shop.a: [merges] 5 rows\n"


def test_a_line_that_is_longer_than_the_terminal_is_shown_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = io.StringIO()
    monkeypatch.setattr(render, "err", Console(file=terminal, force_terminal=True, width=40))
    with progress(quiet=False):
        logger.info("shop.a: waits, as run scheduled__2026-11-26 holds it until 12:05:09 UTC")
    assert "12:05:09" in "".join(terminal.getvalue().split("\n"))


def test_a_quiet_run_shows_its_result_and_its_alerts_and_nothing_else(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    report = RunReport(runs=(changed(RUN, alert="held back by 7"),), failures=(), warnings=("shop.orders: held back by 7", "some advice"))
    assert report.only_alerts.warnings == ("shop.orders: held back by 7",)
    quiet, loud = (shown(report, monkeypatch, capsys, quiet=quiet) for quiet in (True, False))
    assert (loud[1].count("warning"), "said on the way" in loud[1], "start of Spark" in loud[0]) == (2, True, True)
    assert (quiet[1].count("warning"), "said on the way" in quiet[1], "start of Spark" in quiet[0]) == (1, False, False)
    assert "Run of shop" in quiet[0]


def shown(report: RunReport, patch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *, quiet: bool) -> tuple[str, str]:
    """What `run_all` prints for a report, with pipeline, source and Spark replaced: on standard output and on standard error."""
    from contextlib import nullcontext
    from unittest.mock import Mock

    from cdc_ops.cli import one_run
    from cdc_ops.cli.commands import pipelines

    def run_pipeline(context: object, source: object, request: object, execute: object) -> RunReport:
        logger.info("said on the way")
        return report

    pipeline = Mock()
    pipeline.name = "shop"
    patch.setattr(pipelines, "chosen_pipelines", lambda folder, names: (pipeline,))
    patch.setattr(one_run, "opened", lambda pipeline: nullcontext((Mock(), None)))
    patch.setattr("cdc_ops.steps.runs.run.run_pipeline", run_pipeline)
    patch.setattr(render.err, "_width", 200)
    run_all(None, [], Mock(), as_json=False, quiet=quiet)
    captured = capsys.readouterr()
    return captured.out, captured.err


def meter(verb: str, expected: int, *ticks: float) -> Meter:
    left = iter([0.0, *ticks])
    return Meter(operation=Case(root="x").operation(3), verb=verb, expected=expected, clock=lambda: next(left))


@pytest.mark.parametrize(
    ("verb", "expected", "work", "line", "share"),
    [
        ("reads", 1_500_000, (300_000, 0, 2, 0), "reads 300 k of about 1.5 M rows, 30,000 rows/s, about 40 s left", 0.2),
        ("reads", 40, (10, 0, 1, 0), "reads 10 of about 40 rows, 1 rows/s, about 30 s left", 0.25),
        ("reads", 40, (60, 0, 1, 0), "reads 60 of about 40 rows, 6 rows/s, about 0 s left", 0.99),
        ("reads", 1_500_000, (3, 0, 2, 0), "reads 1.5 M rows, 0 of 2 tasks, 10 s", 0.0),
        ("reads", 1_000, (0, 1, 4, 0), "reads 250 of about 1,000 rows, 1 of 4 tasks, 25 rows/s, about 30 s left", 0.25),
        ("reads", 0, (0, 1, 4, 0), "reads 1 of 4 tasks, about 30 s left", 0.25),
        ("merges", 300_000, (9_000_000, 3, 6, 16), "merges 300 k rows, step 17: 3 of 6 tasks, 10 s", 0.5),
        ("merges", 1, (0, 0, 0, 0), "merges 1 row, 10 s", 0.0),
    ],
)
def test_a_line_of_progress_says_what_is_known_and_guesses_nothing(
    verb: str, expected: int, work: tuple[int, int, int, int], line: str, share: float, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "cdc_ops")
    told = meter(verb, expected, 10.0)
    told.log_progress(rows=work[0], tasks_done=work[1], tasks=work[2], stages_done=work[3])
    [record] = caplog.records
    assert (record.getMessage(), vars(record)["share"]) == (f"{told.operation.table}: {line}", pytest.approx(share))


def test_a_bar_stands_where_the_share_is_known_and_goes_with_the_next_line(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = io.StringIO()
    monkeypatch.setattr(render, "err", Console(file=terminal, force_terminal=True, width=80, color_system=None))
    with progress(quiet=False):
        logger.debug("shop.orders: reads 300 k of about 1.5 M rows, 30,000 rows/s, about 40 s left", extra={"share": 0.5})
    drawn = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", re.sub(r"\x1b\[[0-9]*[AK]", "\n", terminal.getvalue())).splitlines()
    assert max(map(len, drawn)) <= 80
    assert any("━━━━━━" in line for line in drawn)
    terminal.truncate(0)
    with progress(quiet=False):
        logger.info("shop.orders: operation 1 applied")
    assert "━" not in terminal.getvalue()


def test_a_log_has_few_lines_of_progress_and_a_terminal_all(caplog: pytest.LogCaptureFixture) -> None:
    for level, kept in ((logging.INFO, ["15 s", "30 s"]), (logging.DEBUG, [f"{second} s" for second in range(5, 40, 5)])):
        caplog.clear()
        caplog.set_level(level, "cdc_ops")
        told = meter("merges", 0, *range(5, 40, 5))
        for _ in range(5, 40, 5):
            told.log_progress(rows=0, tasks_done=0, tasks=0, stages_done=0)
        assert caplog.messages == [f"{told.operation.table}: merges {one}" for one in kept]


@pytest.mark.parametrize("compiled", [True, False])
def test_a_machine_that_has_compiled_nothing_is_told_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, compiled: bool) -> None:
    for variable in ("CDC_OPS_CACHE", "HOME", "TMPDIR"):
        monkeypatch.setenv(variable, str(tmp_path / variable))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    if compiled:
        (tmp_path / "CDC_OPS_CACHE/kernels/0123456789abcdef").mkdir(parents=True)
    assert is_uncompiled() is not compiled


def test_rows_that_tasks_have_counted_are_seen_while_they_read_and_a_retry_begins_anew() -> None:
    batches = [pa.RecordBatch.from_pydict({"id": list(range(size))}) for size in (3, 4)]
    with pulses() as rows:
        folder = pulse_folder()
        reading = counted(iter(batches), folder, 0)
        assert rows() == 0
        next(reading)
        assert rows() == 3
        assert sum(batch.num_rows for batch in counted(iter(batches), folder, 1)) == 7
        assert rows() == 10
        next(counted(iter(batches), folder, 1))
        assert rows() == 6
    assert not Path(folder).exists()
    assert pulse_folder() == ""
    assert [batch.num_rows for batch in counted(iter(batches), folder, 0)] == [3, 4], "a driver that has gone disturbs no task"


@pytest.mark.parametrize(
    ("wanted", "small", "reader", "said"),
    [
        (Reader.AUTO, True, Reader.JDBC, "they are few"),
        (Reader.AUTO, False, Reader.NATIVE, "this happens once on a machine"),
        (Reader.NATIVE, True, Reader.NATIVE, "this happens once on a machine"),
    ],
)
def test_on_a_new_machine_few_rows_wait_for_no_compilation_and_many_are_told_of_it(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, wanted: Reader, small: bool, reader: Reader, said: str
) -> None:
    monkeypatch.setattr(reader_choice, "is_uncompiled", lambda: True)
    monkeypatch.setattr(reader_choice, "_why_not", lambda *_: "")
    spark, spec = Mock(), Mock()
    spark.conf.get.return_value = "local[2]"
    spec.source.reader, spec.small, spec.step, spec.operations = wanted, small, Step.SYNC, [Mock(slices=("",))]
    assert reader_choice.chosen_reader(spark, spec, "") is reader
    assert said in caplog.messages[0]
