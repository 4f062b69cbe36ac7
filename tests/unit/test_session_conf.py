"""What is set of a session: never against a choice that was made, but for what values and commits depend on."""

from pathlib import Path

import pytest
from pyspark import SparkContext

from cdc_ops.lake.spark.conf import EXTENSION, EXTENSIONS, FILE_PARTITIONS, cluster_cores, machine_conf, needed_conf
from cdc_ops.lake.spark.jvm.jvm_options import default_settings, driver_conf
from cdc_ops.lake.spark.session import _chosen_conf, collector_conf

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


def options(conf: dict[str, str], **environ: str) -> list[str]:
    found = driver_conf(conf, environ, small=True, archive="-XX:SharedArchiveFile=/classes.jsa")
    return found.get("spark.driver.defaultJavaOptions", "").split()


def test_a_small_job_gets_the_first_compiler_the_collector_without_threads_and_the_classes_that_are_there() -> None:
    code = "-XX:ReservedCodeCacheSize=240m"
    assert options({}) == ["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", code, "-XX:SharedArchiveFile=/classes.jsa"]
    large = driver_conf({}, {}, small=False, archive="-XX:SharedArchiveFile=/classes.jsa")
    assert large == {"spark.driver.defaultJavaOptions": "-XX:+UseParallelGC -XX:SharedArchiveFile=/classes.jsa"}


@pytest.mark.parametrize(
    ("chosen", "left"),
    [
        ("-XX:+UseG1GC", ["-XX:TieredStopAtLevel=1", "-XX:SharedArchiveFile=/classes.jsa"]),
        ("-XX:-TieredCompilation", ["-XX:+UseSerialGC", "-XX:SharedArchiveFile=/classes.jsa"]),
        ("-XX:TieredStopAtLevel=4", ["-XX:+UseSerialGC", "-XX:SharedArchiveFile=/classes.jsa"]),
        ("-Xshare:off", ["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]),
        ("-XX:SharedArchiveFile=/own.jsa", ["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]),
    ],
)
def test_what_somebody_has_chosen_of_a_jvm_is_left_out_of_the_options_and_nothing_else(chosen: str, left: list[str]) -> None:
    for found in (options({"spark.driver.extraJavaOptions": chosen}), options({}, JDK_JAVA_OPTIONS=chosen)):
        assert [option for option in found if "CodeCache" not in option] == left


def test_who_has_chosen_the_setting_itself_has_chosen_all_of_it(tmp_path: Path) -> None:
    assert options({"spark.driver.defaultJavaOptions": "-Dkey=value"}) == []
    (tmp_path / "spark-defaults.conf").write_text("# spark.driver.defaultJavaOptions -Da=b\nspark.driver.memory 1g\n", "utf-8")
    assert options({}, SPARK_CONF_DIR=str(tmp_path)) != []
    (tmp_path / "spark-defaults.conf").write_text("spark.driver.defaultJavaOptions -Da=b\n", "utf-8")
    assert options({}, SPARK_CONF_DIR=str(tmp_path)) == []


def test_under_spark_submit_the_jvm_has_started_already(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "4711")
    assert collector_conf({}) == {}


def test_what_spark_submit_was_given_stays_but_for_what_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    given = {"spark.sql.shuffle.partitions": "7", "spark.sql.session.timeZone": "Asia/Tokyo", EXTENSIONS: "org.example.Other"}
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "4711")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://store:9000")
    monkeypatch.setattr(SparkContext, "getSystemProperty", given.get)
    chosen = _chosen_conf({})
    assert (chosen["spark.sql.shuffle.partitions"], chosen["spark.sql.session.timeZone"]) == ("7", "UTC")
    assert chosen[EXTENSIONS] == f"org.example.Other,{EXTENSION}"
    assert chosen["spark.sql.adaptive.enabled"] == "true"
    assert not [name for name in chosen if "s3a" in name]


def test_what_the_pipeline_chooses_stays_but_for_what_is_needed() -> None:
    extensions = f"org.example.Other, {EXTENSION}"
    chosen = _chosen_conf({"spark.sql.shuffle.partitions": "7", "spark.sql.parquet.outputTimestampType": "INT96", EXTENSIONS: extensions})
    assert chosen["spark.sql.shuffle.partitions"] == "7"
    assert chosen == {**chosen, **needed_conf(extensions)}
    assert (chosen[EXTENSIONS], needed_conf()[EXTENSIONS]) == (f"org.example.Other,{EXTENSION}", EXTENSION)


@pytest.mark.parametrize(
    ("conf", "cores"),
    [
        ({}, None),
        ({"spark.master": "local[8]", "spark.cores.max": "64"}, None),
        ({"spark.master": "spark://one:7077", "spark.cores.max": "64"}, 64),
        ({"spark.master": "yarn", "spark.executor.instances": "6", "spark.executor.cores": "4"}, 24),
        ({"spark.master": "k8s://one", "spark.dynamicAllocation.maxExecutors": "9", "spark.executor.instances": "2"}, 9),
        ({"spark.master": "spark://one:7077"}, 50),
        ({"spark.master": "local-cluster[2,1,1024]"}, 50),
    ],
)
def test_partitions_follow_the_cores_of_the_cluster_and_not_those_of_the_machine_that_submits(
    conf: dict[str, str], cores: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert cluster_cores(conf.get) == cores
    monkeypatch.setattr("os.cpu_count", lambda: 3)
    chosen = _chosen_conf(conf)
    sizes = machine_conf(cores or 3)
    assert {name: chosen[name] for name in sizes} == sizes
    assert chosen["spark.sql.shuffle.partitions"] == str(min(4 * (cores or 3), 200))
    assert chosen[FILE_PARTITIONS] == str(cores or 3)


def test_the_master_is_found_in_sparks_own_defaults(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = "# spark.cores.max 1\nspark.master=spark://one:7077\n  spark.cores.max\t16  \nspark.executor.memory: 2g\n"
    (tmp_path / "spark-defaults.conf").write_text(lines, "utf-8")
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    found = default_settings({"SPARK_CONF_DIR": str(tmp_path)})
    assert found == {"spark.master": "spark://one:7077", "spark.cores.max": "16", "spark.executor.memory": "2g"}
    assert _chosen_conf({})["spark.sql.shuffle.partitions"] == "64"
    assert _chosen_conf({"spark.cores.max": "8"})["spark.sql.shuffle.partitions"] == "32"
