"""cdc-ops spark-connect: which command the process becomes, and that no secret is on it. tests/container_services.py starts it."""

import itertools
import os
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cdc_ops.cli import app
from cdc_ops.lake.spark import server_application

Command = tuple[list[str], dict[str, str]]


@pytest.fixture
def became(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Command]:
    """The commands that processes have become in place of their own, with their environments."""
    (tmp_path / "jars").mkdir()
    (tmp_path / "jars" / "delta.jar").touch()
    for name in ("SPARK_CONNECT_AUTHENTICATE_TOKEN", "SPARK_CONNECT_AUTHENTICATE_TOKEN_FILE", "PYSPARK_PYTHON"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    monkeypatch.setenv("CDC_OPS_JARS", str(tmp_path / "jars"))
    monkeypatch.setenv("CDC_OPS_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    commands: list[Command] = []
    monkeypatch.setattr(os, "execv", lambda _, command: commands.append((list(command), dict(os.environ))))
    return commands


def refused(*arguments: str) -> str:
    result = CliRunner().invoke(app, ["spark-connect", *arguments])
    assert result.exit_code != 0
    assert "next:" in result.output
    return re.sub(r"\s+", " ", result.output)


def test_the_process_becomes_spark_submit_with_the_settings_that_were_chosen(became: list[Command], tmp_path: Path) -> None:
    (tmp_path / "secret.conf").write_text("spark.authenticate.secret hidden\n")
    arguments = ["--port", "15077", "--memory", "3g", "--conf", "spark.master=spark://m:7077", "--conf", "spark.executor.memory=2g"]
    result = CliRunner().invoke(app, ["spark-connect", *arguments, "--properties", "secret.conf"])
    assert result.exit_code == 0, result.output
    ((command, environment),) = became
    settings = dict(part.split("=", 1) for name, part in itertools.pairwise(command) if name == "--conf")
    assert Path(command[0]).name == "spark-submit"
    assert command[command.index("--driver-memory") + 1] == "3g"
    assert command[command.index("--properties-file") + 1] == str(tmp_path / "secret.conf")
    assert command[-1] == server_application.__file__
    assert settings["spark.master"] == "spark://m:7077"
    assert settings["spark.executor.memory"] == "2g"
    assert settings["spark.connect.grpc.binding.port"] == "15077"
    assert settings["spark.connect.grpc.binding.address"] == "127.0.0.1"
    assert "hidden" not in str(command)
    assert environment["PYSPARK_PYTHON"]
    assert (tmp_path / "home" / "spark-connect").is_dir()


def test_the_token_of_a_file_is_in_the_environment_of_spark_alone(
    became: list[Command], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "token").write_text("hidden\n")
    monkeypatch.setenv("SPARK_CONNECT_AUTHENTICATE_TOKEN_FILE", str(tmp_path / "token"))
    result = CliRunner().invoke(app, ["spark-connect"])
    assert result.exit_code == 0, result.output
    ((command, environment),) = became
    assert environment["SPARK_CONNECT_AUTHENTICATE_TOKEN"] == "hidden"
    assert "SPARK_CONNECT_AUTHENTICATE_TOKEN_FILE" not in environment
    assert "hidden" not in str(command)


def test_what_is_missing_or_misspelled_is_said_before_spark_starts(became: list[Command], monkeypatch: pytest.MonkeyPatch) -> None:
    assert "is not a setting of Spark" in refused("--conf", "spark.master")
    assert "is not a setting of Spark" in refused("--conf", "master=local")
    assert "cannot be read: missing.conf" in refused("--properties", "missing.conf")
    monkeypatch.setenv("SPARK_CONNECT_AUTHENTICATE_TOKEN_FILE", "/missing")
    assert "has no value: /missing" in refused()
    monkeypatch.setenv("CDC_OPS_JARS", "")
    assert "CDC_OPS_JARS is not set" in refused()
    assert became == []
