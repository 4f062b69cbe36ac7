"""What is shown while a command works: a line for each table on a terminal, plain lines elsewhere, and nothing where quiet is wanted."""

import io
from collections.abc import Callable

import pytest
from rich.console import Console
from rich.progress import Progress, TextColumn

from cdc_ops.cli.commands.pipelines import run_all
from cdc_ops.cli.output import render
from cdc_ops.cli.output.moving_lines import MOST_LINES, MovingLines, progress
from cdc_ops.steps.runs.run import RunReport
from tests.operations import changed
from tests.unit.test_phases import RUN


def lines_after(*said: str) -> list[str]:
    bar = Progress(TextColumn("{task.description}"), console=Console(file=io.StringIO()))
    moving = MovingLines(bar)
    for line in said:
        moving.say(line)
    return [task.description for task in bar.tasks]


def test_tables_that_are_worked_on_side_by_side_do_not_overwrite_each_other() -> None:
    shown = lines_after("starting Spark", "shop.a: 1 of 3 parts", "shop.b: merges 5 rows", "shop.a: 2 of 3 parts\nand more", "stopping")
    assert shown == ["stopping", "shop.a: 2 of 3 parts", "shop.b: merges 5 rows"]


def test_the_line_that_was_still_for_longest_gives_way() -> None:
    said = [f"shop.t{number}: begins" for number in range(MOST_LINES)]
    assert lines_after(*said, "shop.t0: goes on", "shop.new: begins") == ["shop.t0: goes on", *said[2:], "shop.new: begins"]


def test_elsewhere_than_on_a_terminal_each_line_is_printed_and_quiet_prints_none(capsys: pytest.CaptureFixture[str]) -> None:
    for quiet in (False, True):
        with progress(quiet) as say:
            say("shop.a: [merges] 5 rows")
    assert capsys.readouterr().err == "shop.a: [merges] 5 rows\n"


def test_a_line_that_is_longer_than_the_terminal_is_shown_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = io.StringIO()
    monkeypatch.setattr(render, "err", Console(file=terminal, force_terminal=True, width=40))
    with progress(quiet=False) as say:
        say("shop.a: waits, as run scheduled__2026-11-26 holds it until 12:05:09 UTC")
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

    def run_pipeline(context: object, source: object, request: object, execute: object, say: Callable[[str], None]) -> RunReport:
        say("said on the way")
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
