"""The block `airflow` of a pipeline file, as Airflow sees it."""

import importlib.util
import itertools
import sys
from collections import defaultdict
from datetime import timedelta
from pathlib import Path

import pytest
from airflow import __version__ as AIRFLOW
from airflow.dag_processing.dagbag import DagBag
from airflow.executors import executor_loader
from airflow.sdk import DAG, CronDataIntervalTimetable
from airflow.serialization.serialized_objects import DagSerialization
from airflow.timetables.base import DataInterval, TimeRestriction
from airflow.timetables.interval import CronDataIntervalTimetable as ScheduledTimetable
from pendulum import DateTime, datetime

from cdc_ops.airflow.dags import build_dag, build_dags
from cdc_ops.airflow.options.executor_config import lost_fields
from cdc_ops.config.loading import load_pipeline
from cdc_ops.dev.servers import MariaDBServer
from cdc_ops.errors import ConfigError
from tests.airflow.stage import Stage

ROOT = Path(__file__).resolve().parents[2]
SPARK = ("tables.sync", "tables.maintain")
FILE = """
pipeline: shop
schedule: "{schedule}"
owner: data
source: {{kind: mariadb, connection: shop_db}}
target: {{root: s3://lake/tables, staging: s3://lake/staging}}
airflow: {airflow}
tables: {{shop.orders: {{cursor: updated_at}}}}
"""


def write(folder: Path, airflow: str, *, schedule: str = "0 3 * * *") -> Path:
    folder.mkdir(exist_ok=True)
    file = folder / "shop.yaml"
    file.write_text(FILE.format(airflow=airflow, schedule=schedule))
    return file


def dag_of(folder: Path, airflow: str) -> DAG:
    write(folder, airflow)
    return build_dags(folder)["cdc_shop"]


def test_without_the_block_a_dag_is_as_it_ever_was(tmp_path: Path) -> None:
    dag = dag_of(tmp_path, "{}")
    assert (dag.max_active_runs, dag.dagrun_timeout, dag.owner_links, dag.access_control) == (2, None, {}, None)
    assert (dag.has_on_success_callback, dag.has_on_failure_callback) == (False, False)
    assert len(dag.tasks) == 6
    for task in dag.tasks:
        assert (task.retries, task.retry_delay, task.max_retry_delay) == (2, timedelta(seconds=30), timedelta(minutes=10))
        assert (task.pool, task.queue, task.executor, task.executor_config, task.priority_weight) == (
            "default_pool",
            "default",
            None,
            {},
            1,
        )
        assert task.execution_timeout == (timedelta(hours=24) if task.task_id in SPARK else timedelta(minutes=15))


def test_options_of_tasks_are_for_all_and_those_of_spark_tasks_go_over_them_field_by_field(tmp_path: Path) -> None:
    tasks = "{pool: cdc, queue: small, retries: 5, retry_delay: 1s, max_retry_delay: 1m, priority_weight: 3}"
    spark = "{pool: spark, pool_slots: 2, queue: '', retries: 1, executor_config: {pod_template_file: /opt/pod.yaml}}"
    dag = dag_of(tmp_path, f"{{tasks: {tasks}, spark_tasks: {spark}}}")
    plain = {task.task_id for task in dag.tasks} - set(SPARK)
    assert plain == {"discover", "tables.plan", "tables.commit", "outcome"}
    for name in plain:
        task = dag.get_task(name)
        assert (task.pool, task.pool_slots, task.queue, task.retries, task.executor_config) == ("cdc", 1, "small", 5, {})
    for name in SPARK:
        task = dag.get_task(name)
        assert (task.pool, task.pool_slots, task.queue, task.retries) == ("spark", 2, "default", 1)
        assert (task.retry_delay, task.max_retry_delay, task.priority_weight) == (timedelta(seconds=1), timedelta(minutes=1), 3)
        assert task.executor_config == {"pod_template_file": "/opt/pod.yaml"}


def test_what_is_set_on_the_dag_reaches_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    limits = "max_active_runs: 1, max_active_tasks: 4, run_timeout: 6h, task_timeout: 5m, spark_timeout: 2h"
    people = "owner_links: {data: 'mailto:data@example.com'}, access_control: {analysts: [can_read]}"
    dag = dag_of(tmp_path, f"{{{limits}, {people}, display_name: Web shop}}")
    assert (dag.dag_id, dag.dag_display_name) == ("cdc_shop", "Web shop")
    assert (dag.max_active_runs, dag.max_active_tasks, dag.dagrun_timeout) == (1, 4, timedelta(hours=6))
    assert dag.owner_links == {"data": "mailto:data@example.com"}
    assert dag.access_control == {"analysts": {"DAGs": {"can_read"}}}
    times = {task.task_id: task.execution_timeout for task in dag.tasks}
    assert (times["tables.sync"], times["discover"], times["tables.plan"]) == (
        timedelta(hours=2),
        timedelta(minutes=5),
        timedelta(minutes=5),
    )
    monkeypatch.setenv("CDC_OPS_PIPELINES", str(tmp_path))
    bag = DagBag(dag_folder=str(ROOT / "dags" / "cdc_pipelines.py"))
    assert (bag.import_errors, sorted(bag.dags)) == ({}, ["cdc_shop"])
    assert DagSerialization.to_dict(bag.dags["cdc_shop"])["dag"]["max_active_tasks"] == 4


CALLBACKS = """
from pathlib import Path

def of_task(context):
    with Path({told!r}).open("a") as told:
        print("try", context["ti"].try_number, "of", context["ti"].task_id, file=told)
class Page: pass
number = 3
"""


@pytest.fixture
def callbacks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Makes the module `shop_callbacks` importable; returns the file that its functions write to."""
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "shop_callbacks.py").write_text(CALLBACKS.format(told=str(tmp_path / "told")))
    monkeypatch.syspath_prepend(str(tmp_path / "code"))
    monkeypatch.delitem(sys.modules, "shop_callbacks", raising=False)
    return tmp_path / "told"


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("no_such_module.page", "ModuleNotFoundError"),
        ("shop_callbacks.of_nothing", "AttributeError"),
        ("shop_callbacks.Page", "It is a class"),
        ("shop_callbacks.number", "cannot be called"),
    ],
)
@pytest.mark.parametrize("where", ["airflow", "airflow.spark_tasks"])
def test_a_callback_that_cannot_be_used_breaks_its_own_dag_and_says_why(
    tmp_path: Path, callbacks: Path, path: str, why: str, where: str
) -> None:
    inner = f"on_failure_callback: {path}"
    file = write(tmp_path / "pipelines", f"{{{inner}}}" if where == "airflow" else f"{{spark_tasks: {{{inner}}}}}")
    (file.parent / "crm.yaml").write_text(FILE.format(airflow="{}", schedule="@daily").replace("pipeline: shop", "pipeline: crm"))
    dags = build_dags(file.parent)
    assert sorted(dags) == ["cdc_crm", "cdc_shop"]
    assert "broken" not in dags["cdc_crm"].tags
    assert "broken" in dags["cdc_shop"].tags
    assert isinstance(dags["cdc_shop"].timetable, CronDataIntervalTimetable)
    with pytest.raises(Exception, match=rf"shop.yaml: '{where}.on_failure_callback' names '{path}'") as raised:
        dags["cdc_shop"].get_task("discover").python_callable()
    assert why in str(raised.value)


def test_an_executor_that_airflow_does_not_have_breaks_its_own_dag(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="names 'CeleryExecutor', which Airflow does not have"):
        build_dag(load_pipeline(write(tmp_path, "{spark_tasks: {executor: CeleryExecutor}}")))
    assert "broken" in build_dags(tmp_path)["cdc_shop"].tags
    assert "broken" not in dag_of(tmp_path, "{spark_tasks: {executor: LocalExecutor}}").tags


def test_an_executor_of_a_team_is_known_although_no_team_is_in_the_database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__CORE__MULTI_TEAM", "true")
    monkeypatch.setenv("AIRFLOW__CORE__EXECUTOR", "LocalExecutor;shop_team=CeleryExecutor,pods:KubernetesExecutor")
    monkeypatch.setattr(executor_loader, "_executor_names", [])
    for name in ("_alias", "_module", "_classname"):  # what Airflow has read of its settings before
        monkeypatch.setattr(executor_loader, f"{name}_to_executors_per_team", defaultdict(dict))
    monkeypatch.setattr(executor_loader, "_team_name_to_executors", defaultdict(list))
    for executor in ("LocalExecutor", "CeleryExecutor", "pods"):
        assert build_dag(load_pipeline(write(tmp_path, f"{{spark_tasks: {{executor: {executor}}}}}"))).tasks
    with pytest.raises(ConfigError, match="names 'edge', which Airflow does not have"):
        build_dag(load_pipeline(write(tmp_path, "{spark_tasks: {executor: edge}}")))


@pytest.mark.skipif(importlib.util.find_spec("kubernetes") is not None, reason="Airflow has its provider of Kubernetes here")
def test_a_pod_of_yaml_needs_the_provider_of_kubernetes_and_says_so(tmp_path: Path) -> None:
    pod = "{spec: {containers: [{name: base, resources: {requests: {memory: 4Gi}}}]}}"
    file = write(tmp_path, f"{{spark_tasks: {{executor_config: {{pod_override: {pod}}}}}}}")
    with pytest.raises(ConfigError, match=r"'airflow\.spark_tasks\.executor_config\.pod_override' cannot be used") as raised:
        build_dag(load_pipeline(file))
    assert "pip install -c constraints.txt '.[kubernetes]'" in raised.value.next


@pytest.mark.parametrize(
    ("given", "kept", "lost"),
    [
        ({"spec": {"containers": [{"name": "base"}]}}, {"spec": {"containers": [{"name": "base"}]}}, []),
        ({"spek": {}}, {}, ["spek"]),
        (
            {"spec": {"containers": [{"name": "base", "imag": "x"}]}},
            {"spec": {"containers": [{"name": "base"}]}},
            ["spec.containers[0].imag"],
        ),
        ({"spec": {"nodeName": None}}, {"spec": None}, []),
    ],
)
def test_fields_of_a_pod_that_kubernetes_does_not_know_are_named(given: object, kept: object, lost: list[str]) -> None:
    assert list(lost_fields(given, kept)) == lost


def intervals(cron: str, zone: str, start: DateTime, count: int = 60) -> list[DataInterval]:
    """The first intervals of a schedule, as the scheduler takes them one after the other."""
    timetable, last = ScheduledTimetable(cron, timezone=zone), None
    found: list[DataInterval] = []
    for _ in range(count):
        info = timetable.next_dagrun_info(
            last_automated_data_interval=last, restriction=TimeRestriction(earliest=start, latest=None, catchup=True)
        )
        assert info is not None
        assert info.data_interval is not None
        last = info.data_interval
        found.append(last)
    return found


@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/New_York"])
@pytest.mark.parametrize("cron", ["0 3 * * *", "30 2 * * *", "0 2 * * *", "0 * * * *", "*/15 * * * *", "0 1-4 * * *"])
def test_where_clocks_change_intervals_have_no_gaps_and_none_is_empty(tmp_path: Path, cron: str, zone: str) -> None:
    pipeline = load_pipeline(write(tmp_path, f"{{time_zone: {zone}}}", schedule=cron))
    timetable = build_dag(pipeline).timetable
    assert isinstance(timetable, CronDataIntervalTimetable)
    assert (str(timetable.timezone), timetable.expression) == (zone, cron)
    for start in (datetime(2026, 3, 7), datetime(2026, 3, 28), datetime(2026, 10, 24), datetime(2026, 10, 31)):
        found = intervals(cron, zone, start)
        assert all(one.start < one.end for one in found)
        assert all(one.end == other.start for one, other in itertools.pairwise(found))
    lengths = {(one.end - one.start).total_seconds() / 3600 for one in intervals("0 3 * * *", zone, datetime(2026, 3, 1), 280)}
    assert lengths == {23, 24, 25}


@pytest.mark.parametrize("cron", ["*/20 2 * * *", "*/15 1-5 * * *"])
def test_a_schedule_whose_intervals_would_have_gaps_where_clocks_change_is_refused(tmp_path: Path, cron: str) -> None:
    pairs = itertools.pairwise(intervals(cron, "Europe/Berlin", datetime(2026, 3, 28)))
    gaps = any(one.end < other.start for one, other in pairs)
    assert gaps == AIRFLOW.startswith("3.3."), "3.4 has closed the gap: the check can go when 3.3 is no longer supported"
    with pytest.raises(ConfigError, match="a backfill would not read"):
        load_pipeline(write(tmp_path, "{time_zone: Europe/Berlin}", schedule=cron))
    assert load_pipeline(write(tmp_path, "{time_zone: Asia/Tokyo}", schedule=cron)).schedule == cron
    assert load_pipeline(write(tmp_path, "{}", schedule=cron)).schedule == cron


def test_a_zone_whose_clocks_change_by_half_an_hour_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="did not advance"):
        intervals("0 * * * *", "Australia/Lord_Howe", datetime(2026, 4, 4))
    with pytest.raises(ConfigError, match="less than an hour"):
        load_pipeline(write(tmp_path, "{time_zone: Australia/Lord_Howe}", schedule="0 * * * *"))


def test_a_run_retries_as_told_and_calls_back_with_what_airflow_says(
    mariadb: MariaDBServer, metadata: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, callbacks: Path
) -> None:
    stage = Stage(server=mariadb, folder=tmp_path, patch=monkeypatch)
    stage.set_up(execution="fused")
    stage.use_stub()
    monkeypatch.setenv("CDC_OPS_JARS", "")
    file = tmp_path / "pipelines" / "shop.yaml"
    own = "spark_tasks: {retries: 1, pool: spark, on_retry_callback: shop_callbacks.of_task, on_failure_callback: shop_callbacks.of_task}"
    file.write_text(file.read_text().replace("airflow: {tasks:", f"airflow: {{{own}, time_zone: Europe/Berlin, tasks:"))
    stage.plan({"sync": {"shop.sales": "retryable"}})
    run = stage.run()
    assert (run.state, run.tasks["sync"]) == ("failed", "failed")
    assert [call["step"] for call in stage.calls()] == ["sync", "sync"]
    assert callbacks.read_text().splitlines() == ["try 1 of tables.sync", "try 2 of tables.sync"]
