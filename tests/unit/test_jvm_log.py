"""The log file of Spark's JVM: what it holds, what it does not hold, and how large it gets. A shell script stands for the JVM."""

import gc
import os
import warnings
from pathlib import Path

import pytest

from cdc_ops.errors import CdcError, EnvironmentSetupError, from_payload
from cdc_ops.lake.spark.jvm.jvm_log import KEPT, JvmLog

SECRET = "p%40ss-w0rd"


@pytest.fixture
def jvm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A `spark-submit` that talks and ends, as a JVM does that cannot start."""
    program = tmp_path / "spark" / "bin" / "spark-submit"
    program.parent.mkdir(parents=True)
    monkeypatch.setenv("SPARK_HOME", str(tmp_path / "spark"))
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    return program


def talk(jvm: Path, script: str) -> None:
    jvm.write_text(f"#!/bin/sh\n{script}\nexit 1\n")
    jvm.chmod(0o755)


def started(log: JvmLog) -> CdcError:
    with warnings.catch_warnings(action="ignore", category=ResourceWarning):  # PySpark leaves the pipe of a JVM that has ended open
        with pytest.raises(EnvironmentSetupError) as caught:
            log.start_jvm({"spark.master": "local[1]"})
        told = from_payload(caught.value.to_payload())
        del caught
        gc.collect()
    return told


def test_a_jvm_that_does_not_start_is_told_with_its_own_words_and_the_name_of_the_log(
    jvm: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    talk(jvm, 'echo "Unrecognized VM option"; echo "Could not create the Java Virtual Machine" >&2')
    log = JvmLog(tmp_path / "logs")
    error = str(started(log))
    assert "Unrecognized VM option" in error
    assert "Could not create the Java Virtual Machine" in error
    assert str(log.path) in error
    assert "JAVA_TOOL_OPTIONS" not in error
    assert capfd.readouterr().out == ""


def test_a_jvm_that_does_not_start_names_the_variable_with_options_and_no_line_fills_the_terminal(
    jvm: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-Xlog:gc*:stdout")
    talk(jvm, f"echo {'long' * 1000}")
    error = str(started(JvmLog(tmp_path / "logs")))
    assert "Try without JAVA_TOOL_OPTIONS" in error
    assert "longlong" in error
    assert len(error) < 1500


def test_the_log_is_its_owner_s_and_holds_no_password(jvm: Path, tmp_path: Path) -> None:
    talk(jvm, f'echo "jdbc:mysql://cdc:{SECRET}@db/ failed"')
    shown: list[str] = []
    log = JvmLog(tmp_path / "logs", secrets={SECRET, ""}, echo=shown.append)
    assert SECRET not in str(started(log))
    assert log.path.read_text() == "jdbc:mysql://cdc:***@db/ failed\n"
    assert shown == ["jdbc:mysql://cdc:***@db/ failed"]
    assert log.path.stat().st_mode & 0o077 == 0
    assert log.path.parent.stat().st_mode & 0o077 == 0


def test_a_log_keeps_its_last_lines_and_does_not_grow_beyond_its_limit(jvm: Path, tmp_path: Path) -> None:
    talk(jvm, "seq 1 20000")
    log = JvmLog(tmp_path / "logs", limit=10_000)
    started(log)
    before = log.path.with_name(f"{log.path.name}.1")
    assert 0 < log.path.stat().st_size <= 10_000
    assert 0 < before.stat().st_size <= 10_000
    lines = (before.read_text() + log.path.read_text()).split()
    assert lines == [str(number) for number in range(20_001 - len(lines), 20_001)]
    assert len(lines) > 1_000


def test_old_logs_are_removed_and_other_files_stay(jvm: Path, tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    for number in range(KEPT + 5):
        (folder / f"spark-{number:02}.log").write_text("old")
        os.utime(folder / f"spark-{number:02}.log", (number, number))
    (folder / "notes.txt").write_text("mine")
    talk(jvm, "echo new")
    log = JvmLog(folder)
    started(log)
    left = sorted(path.name for path in folder.glob("spark-*"))
    assert left == sorted([*(f"spark-{number:02}.log" for number in range(6, KEPT + 5)), log.path.name])
    assert (folder / "notes.txt").exists()


def test_a_folder_that_cannot_be_written_is_told_before_spark_starts(jvm: Path, tmp_path: Path) -> None:
    (tmp_path / "logs").write_text("a file")
    talk(jvm, "echo started")
    error = started(JvmLog(tmp_path / "logs"))
    assert "CDC_OPS_LOGS" in error.next
