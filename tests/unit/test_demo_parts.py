"""The demo's pure parts: what it recognises, excuses and prints. The whole of it is `make demo`."""

import io
import os
import subprocess
import sys
import uuid
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from cdc_ops.config.loading import load_pipelines
from cdc_ops.core.schema.tables import TableName
from cdc_ops.demo.airflow.api import TaskState
from cdc_ops.demo.airflow.home import AirflowHome, own_environment
from cdc_ops.demo.check import TableCheck
from cdc_ops.demo.layout import ARCHIVE_PIPELINE, BINLOG_PIPELINE, PIPELINE, Layout
from cdc_ops.demo.report import Screen, TableReport, print_tables, verdict
from cdc_ops.demo.secrecy import PasswordWatch, telling_parts, written_files
from cdc_ops.demo.services import ProcessInfo, Service, is_running, stop_all
from cdc_ops.demo.spark_server import copy_pipelines, name_server
from cdc_ops.demo.stories.binlogs import BINLOGS, TABLE
from cdc_ops.demo.stories.log_method import ARCHIVE
from cdc_ops.demo.stories.phase import Excuse, task_line
from cdc_ops.demo.writer import Work
from cdc_ops.testing.source_harness import wait_until

PASSWORD = "aB3-dE6_gH9@:/%#+& ?zY8xW7vU6tS"
EQUAL = TableCheck(table="shop.sales", rows_source=4, rows_lake=4, only_in_source=0, only_in_lake=0, different=0, duplicates=0)
REPORT = TableReport(table="shop.sales", status="committed", check=EQUAL, read=4, inserted=4, delta_version=1, watermark="2026-01-01")


@pytest.mark.parametrize("encoded", [PASSWORD, "aB3-dE6_gH9%40%3A%2F", "x\\u003fzY8xW7vU6tS"])
def test_a_password_is_found_however_it_is_encoded(tmp_path: Path, encoded: str) -> None:
    (tmp_path / "log").write_text(f"before {encoded} after")
    watch = PasswordWatch(PASSWORD)
    assert watch.look_at_files([tmp_path / "log"]) == 1
    assert watch.seen == {str(tmp_path / "log")}


def test_a_password_is_found_across_the_border_of_two_blocks(tmp_path: Path) -> None:
    for split in (1, 5, 10):
        (tmp_path / "log").write_bytes(b"x" * ((1 << 20) - split) + b"onePart4711")
        watch = PasswordWatch("onePart4711")
        watch.look_at_files([tmp_path / "log"])
        assert watch.seen, f"{split} characters are in the first block"


def test_a_password_on_a_command_line_is_found_while_its_process_runs() -> None:
    password = f"aB3-{uuid.uuid4().hex}"
    watch = PasswordWatch(password)
    watch.look_at_processes()
    assert (watch.looks, watch.seen) == (1, set())
    program = [sys.executable, "-c", "print(flush=True); input()", f"mysql://cdc:{password}@db/shop"]
    with subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout
            process.stdout.readline()  # a process has no command line for a moment after it began
            watch.look_at_processes()
        finally:
            process.kill()
    assert (watch.looks, watch.seen) == (2, {f"command line of process {process.pid}"})


def test_all_that_the_runs_write_is_searched(tmp_path: Path) -> None:
    layout = replace(Layout.default(), root=tmp_path / "demo")
    places = (layout.logs, layout.airflow, layout.staging, layout.lake, layout.ledger.parent)
    for place in places:
        (place / "deep").mkdir(parents=True)
        (place / "deep" / "file").write_text("x")
    assert set(written_files(layout)) == {place / "deep" / "file" for place in places}


def test_a_file_without_the_password_is_clean(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("aB3 dE6 *** nothing")
    watch = PasswordWatch(PASSWORD)
    watch.look_at_files([tmp_path / "log"])
    assert not watch.seen


def test_a_password_without_a_long_part_is_searched_as_a_whole() -> None:
    assert telling_parts("a:b") == (b"a:b",)


def test_a_process_name_may_hold_brackets_and_spaces() -> None:
    after = "S 1 7 9 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 4711 0 0"
    assert ProcessInfo.parse(f"42 (air) flow ( x) {after}") == ProcessInfo(pid=42, session=9, started=4711, alive=True)


def is_alive(pid: int) -> bool:
    try:
        return ProcessInfo.parse(Path(f"/proc/{pid}/stat").read_text()).alive
    except OSError:
        return False


def test_stopping_a_service_ends_what_it_has_started_too(tmp_path: Path) -> None:
    service = Service("shell", tmp_path / "pids", tmp_path / "logs")
    service.start(["/bin/sh", "-c", "trap '' TERM; sleep 60 & echo $!; exec sleep 60"], os.environ, tmp_path)
    wait_until(lambda: service.log.read_text().endswith("\n"), "the service's own child")
    child = int(service.log.read_text())
    assert is_running(tmp_path / "pids" / "shell.pid")
    assert stop_all(tmp_path / "pids", timeout=0.2) == ("shell",)
    assert not (tmp_path / "pids" / "shell.pid").exists()
    wait_until(lambda: service.exit_code() is not None, "the end of the service")
    wait_until(lambda: not is_alive(child), "the end of its child, which goes when the kernel comes to it")


def test_a_later_process_with_the_same_number_is_left_alone(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as stranger:
        (tmp_path / "old.pid").write_text(f"{stranger.pid} 1\n")
        assert not is_running(tmp_path / "old.pid")
        assert stop_all(tmp_path) == ()
        assert stranger.poll() is None


def test_an_excuse_covers_its_own_difference_only() -> None:
    excuse = Excuse(only_in_lake=1, why="deletes are not seen")
    assert excuse.covers(replace(EQUAL, only_in_lake=1))
    assert not excuse.covers(replace(EQUAL, only_in_lake=2))
    assert not excuse.covers(replace(EQUAL, only_in_lake=1, different=1))


def test_a_difference_is_said_with_its_numbers() -> None:
    check = replace(EQUAL, only_in_lake=1, rows_lake=5, samples=("only in lake: 1",))
    assert "[bold red]differs[/]: 4 rows at the source, 5 in the lake; 1 key only in lake (only in lake: 1)" in verdict(
        replace(REPORT, check=check)
    )
    assert "differs, as expected here" in verdict(replace(REPORT, check=check, excused="because"))
    assert "lake = source" in verdict(REPORT)
    assert "not compared" in verdict(replace(REPORT, check=None))


def test_what_the_writer_did_is_said_with_its_deletes_if_there_are_any() -> None:
    before = Work(transactions=1, inserted=5, updated=15)
    after = Work(transactions=3, inserted=15, updated=1045, deleted=4)
    assert replace(after, deleted=0).since(before) == "10 inserts, 1,030 updates, 2 commits"
    assert after.since(before) == "10 inserts, 1,030 updates, 4 deletes, 2 commits"


def test_markup_in_what_is_reported_is_printed_as_it_is() -> None:
    out = io.StringIO()
    print_tables(Screen(Console(file=out)), [replace(REPORT, window="[2026-01-01, 2026-01-02)", message="[red]x[/red]")])
    assert "[2026-01-01, 2026-01-02)" in out.getvalue()
    assert "[red]x[/red]" in out.getvalue()


def test_a_run_is_told_in_one_line() -> None:
    def task(name: str, state: str) -> TaskState:
        return TaskState(task=name, map_index=-1, attempt=1, state=state)

    assert task_line((task("discover", "success"), task("tables.sync", "running"), task("outcome", "waiting"))) == (
        "1 of 3 tasks done; sync running"
    )


def test_what_an_outer_airflow_or_spark_has_set_does_not_reach_the_demo() -> None:
    outer = {"AIRFLOW__CORE__DAGS_FOLDER": "x", "SPARK_HOME": "x", "CDC_OPS_LAKE": "x", "JAVA_HOME": "/java", "PATH": "/bin"}
    assert own_environment(outer) == {"JAVA_HOME": "/java", "PATH": "/bin"}


def test_the_settings_hold_no_secret_and_stay_below_the_demos_folder(tmp_path: Path) -> None:
    settings = replace(Layout.default(), root=tmp_path / "demo").settings()
    assert not [name for name in settings if "CONN" in name]
    assert settings["CDC_OPS_LEDGER"] == f"sqlite:///{tmp_path}/demo/ledger/ledger.db"


def test_airflows_password_is_only_in_the_file_that_airflow_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    layout = replace(Layout.default(), root=tmp_path / "demo")
    layout.root.mkdir()
    monkeypatch.setattr(AirflowHome, "_provide_database", lambda _: None)
    login = AirflowHome(layout).prepare()
    written = [path for path in layout.root.rglob("*") if path.is_file()]
    assert len(written) >= 2
    assert [path.name for path in written if login.password in path.read_text()] == ["passwords.json"]


def test_the_pipelines_of_archives_are_read_from_a_folder_of_their_own() -> None:
    layout = replace(Layout.default(ARCHIVE_PIPELINE), endpoint="http://127.0.0.1:1")
    binlogs, events = load_pipelines(layout.shipped_pipelines)
    assert (layout.dag_id, events.name, binlogs.name) == ("cdc_shop_events", ARCHIVE_PIPELINE, BINLOG_PIPELINE)
    assert events.archive.location(TableName(schema="shop", name="payments")) == f"{ARCHIVE}/cdc.shop.payments"
    assert binlogs.archive.location(TableName.parse(TABLE)) == BINLOGS
    assert not {rule.pattern for rule in events.tables} & {rule.pattern for rule in binlogs.tables}, "both write one lake"
    assert replace(layout, pipeline=BINLOG_PIPELINE).shipped_pipelines == layout.shipped_pipelines
    assert layout.settings()["CDC_OPS_ARCHIVE_ENDPOINT"] == layout.endpoint
    assert [one.name for one in load_pipelines(Layout.default().shipped_pipelines)] == [PIPELINE]


def test_the_second_half_of_the_story_names_a_server_in_its_copy_of_the_pipeline(tmp_path: Path) -> None:
    layout = replace(Layout.default(), root=tmp_path)
    copy_pipelines(layout)
    [before] = load_pipelines(layout.pipelines)
    assert (before.name, before.spark.connect) == (PIPELINE, "")
    name_server(layout, "sc://127.0.0.1:15002")
    [after] = load_pipelines(layout.pipelines)
    assert after.spark == replace(before.spark, connect="sc://127.0.0.1:15002")
