"""The collector of a JVM that this process starts: chosen for throughput, and never against a choice that was made."""

from pathlib import Path

import pytest

from cdc_ops.lake.session import collector_conf

PARALLEL = {"spark.driver.defaultJavaOptions": "-XX:+UseParallelGC"}


@pytest.fixture(autouse=True)
def no_surroundings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (
        "SPARK_SUBMIT_OPTS",
        "JDK_JAVA_OPTIONS",
        "JAVA_TOOL_OPTIONS",
        "_JAVA_OPTIONS",
        "SPARK_CONF_DIR",
        "SPARK_HOME",
        "PYSPARK_GATEWAY_PORT",
    ):
        monkeypatch.delenv(name, raising=False)


def test_a_jvm_of_our_own_collects_for_throughput() -> None:
    assert collector_conf({}) == PARALLEL
    assert collector_conf({"spark.driver.extraJavaOptions": "-Dkey=value"}) == PARALLEL


@pytest.mark.parametrize("setting", ["spark.driver.extraJavaOptions", "spark.driver.defaultJavaOptions"])
def test_a_collector_in_the_pipeline_stays_the_only_one(setting: str) -> None:
    assert collector_conf({setting: "-Xss4m -XX:+UseG1GC"}) == {}


@pytest.mark.parametrize("variable", ["SPARK_SUBMIT_OPTS", "JDK_JAVA_OPTIONS", "JAVA_TOOL_OPTIONS"])
def test_a_collector_in_the_environment_stays_the_only_one(variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(variable, "-XX:+UseSerialGC -Xms1g")
    assert collector_conf({}) == {}


def test_a_collector_in_sparks_own_defaults_stays_the_only_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "spark-defaults.conf").write_text("spark.driver.extraJavaOptions -XX:+UseZGC\n", "utf-8")
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    assert collector_conf({}) == {}
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    assert collector_conf({}) == PARALLEL


def test_under_spark_submit_the_jvm_has_started_already(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "4711")
    assert collector_conf({}) == {}
