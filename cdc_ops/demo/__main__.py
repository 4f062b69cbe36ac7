"""`python -m cdc_ops.demo up | ui | down`: what `make demo`, `make demo-ui` and `make demo-down` call.

up       runs all phases in an empty folder, then stops everything; exit code 0 only if source and lake are equal where they should be
ui       the same, and leaves database, writer and Airflow running
archive  shows the log method: one table is loaded from change events of a real Debezium, archived on an S3 endpoint; another from the
         server's own binlogs, copied there by the runs. Without Debezium only the second is shown, and the exit code is 2
down     stops processes that are still running
"""

import argparse
import os
import signal
import sys
import traceback
import types
from contextlib import ExitStack
from dataclasses import replace

from rich.console import Console
from rich.markup import escape

from cdc_ops.demo.airflow.home import USER
from cdc_ops.demo.layout import ARCHIVE_PIPELINE, PIPELINE, Layout
from cdc_ops.demo.report import Screen
from cdc_ops.demo.secrecy import written_files
from cdc_ops.demo.stage import Stage, open_stage, strike_stage
from cdc_ops.demo.stories.binlogs import BinlogStory
from cdc_ops.demo.stories.log_method import ArchiveStory, following
from cdc_ops.demo.stories.query_method import Story
from cdc_ops.dev.object_store import ObjectStore
from cdc_ops.errors import CdcError, EnvironmentSetupError

EQUAL, DIFFERENT, FAILED, INTERRUPTED = 0, 1, 2, 130


def main(arguments: list[str] | None = None) -> int:
    """Runs one of the commands."""
    parser = argparse.ArgumentParser(
        prog="python -m cdc_ops.demo", description="A MariaDB, a Delta lake and real Airflow runs between them."
    )
    parser.add_argument("command", choices=("up", "ui", "archive", "down"))
    command = parser.parse_args(arguments).command
    layout, screen = Layout.default(ARCHIVE_PIPELINE if command == "archive" else PIPELINE), Screen(Console())
    os.environ["CDC_OPS_CACHE"] = str(layout.cache)  # this process unpacks the servers
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    if command == "down":
        stopped = strike_stage(layout)
        screen.line(f"stopped: {', '.join(stopped)}" if stopped else "nothing was running")
        return EQUAL
    return _play(layout, screen, stays=command == "ui")


def _play(layout: Layout, screen: Screen, *, stays: bool) -> int:
    left_running, surroundings = False, ExitStack()
    try:
        if layout.pipeline == ARCHIVE_PIPELINE:
            store = ObjectStore()
            surroundings.callback(store.close)
            layout = replace(layout, endpoint=store.endpoint)
        screen.heading(f"Starting a MariaDB shop, a writer, {'an S3 endpoint, ' if layout.endpoint else ''}Airflow")
        stage = open_stage(layout, screen, outlive=stays)
        screen.line(f"  Airflow is up: {stage.login.address}   user {USER}   password {stage.login.password}")
        good, left_out = _tell(stage, layout, screen, surroundings)
        clean = _report_secrecy(stage, layout, screen)
        with screen.step("keeping Spark's classes for the next demo" if stage.checker.archives else "ending the process that compares"):
            stage.checker.finish()
        if stays:
            stage.writer.resume()
            left_running = True
        _tell_where(stage, layout, screen, stays=stays)
        _conclude(screen, good=good, clean=clean, left_out=left_out)
        return DIFFERENT if not (good and clean) else FAILED if left_out else EQUAL
    except KeyboardInterrupt:
        screen.line("interrupted")
        return INTERRUPTED
    except (CdcError, TimeoutError) as error:
        screen.line(f"[bold red]The demo failed.[/] {escape(str(error))}")
        screen.line(f"  logs: {layout.logs}, {layout.airflow / 'logs'}")
        return FAILED
    except Exception as error:  # last handler of the process: the log gets the traceback, the screen the reason
        (layout.logs / "demo.log").write_text(traceback.format_exc(), "utf-8")
        screen.line(f"[bold red]The demo failed.[/] {type(error).__name__}: {escape(str(error).splitlines()[0] if str(error) else '')}")
        screen.line(f"  logs: {layout.logs}, the whole error in demo.log")
        return FAILED
    finally:
        if not left_running:
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # a second Ctrl-C must not leave processes behind
            with screen.step("stopping everything"):
                surroundings.close()
                strike_stage(layout)


def _tell(stage: Stage, layout: Layout, screen: Screen, surroundings: ExitStack) -> tuple[bool, str]:
    """Tells the story; returns True if source and lake were equal wherever they should be, and what could not be told."""
    if not layout.endpoint:
        return Story(stage, layout, screen).tell(), ""
    good, left_out = True, ""
    running = surroundings.enter_context(ExitStack())
    try:
        engine = running.enter_context(following(stage, layout, screen))
    except EnvironmentSetupError as error:
        left_out = "steps 1 and 2, which need Debezium"
        screen.line("  [bold red]Debezium does not start.[/] The demo goes on with step 3.")
        screen.line(f"  {escape(str(error))}")
    else:
        good = ArchiveStory(stage, layout, screen, engine).tell()
        with screen.step("stopping Debezium, which binlogs do not need"):
            running.close()
    return BinlogStory(stage, layout, screen).tell() and good, left_out


def _report_secrecy(stage: Stage, layout: Layout, screen: Screen) -> bool:
    with screen.step("searching all written files for the database password"):
        files = stage.watch.look_at_files(written_files(layout))
    where = f"{files:,} files (logs, Airflow's database, staging, Delta logs, ledger) and {stage.watch.looks} looks at all command lines"
    screen.heading("The database password")
    if stage.watch.seen:
        screen.line(f"  [bold red]found[/] in {escape(', '.join(sorted(stage.watch.seen)))}; searched {where}")
        return False
    screen.line(f"  [green]nowhere[/] in {where}")
    return True


def _tell_where(stage: Stage, layout: Layout, screen: Screen, *, stays: bool) -> None:
    screen.heading("Where to look")
    if stays:
        screen.line(f"  Airflow     {stage.login.address}   user {USER}   password {stage.login.password}   (menu: Browse, CDC)")
    else:
        screen.line(f"  Airflow     is stopped; '{layout.command}ui' leaves Airflow, MariaDB and the writer running")
    screen.line(f"  Delta       {layout.lake}")
    screen.line(f"  logs        {layout.logs}")
    screen.line(f"  ledger      . {layout.environment} && cdc-ops status")
    if stays:
        screen.line(f"  another run . {layout.environment} && cdc-ops plan    # what the next run would do; the writer works again")
        screen.line(f"  stop it     {layout.command}down")


def _conclude(screen: Screen, *, good: bool, clean: bool, left_out: str) -> None:
    screen.line()
    equal, differ = "[bold green]Source and lake are equal wherever they should be.[/]", "[bold red]Source and lake differ unexpectedly.[/]"
    verdict = equal if good else differ
    if left_out:
        verdict += f" [bold red]Left out: {left_out}.[/]"
    if not clean:
        verdict += " [bold red]The password leaked.[/]"
    screen.line(f"{verdict} {screen.seconds:.0f} s in all.")


def _interrupt(number: int, frame: types.FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
