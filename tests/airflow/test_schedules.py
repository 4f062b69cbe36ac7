"""What starts the runs of a pipeline, as Airflow sees it: times, assets of other DAGs, new files of the archive."""

import asyncio
import json
from datetime import datetime, timedelta
from itertools import islice, pairwise
from pathlib import Path

import pendulum
import pytest
from airflow.models.trigger import Trigger
from airflow.sdk import AssetOrTimeSchedule, CronDataIntervalTimetable
from airflow.sdk.execution_time.comms import AssetEventDagRunReferenceResult
from airflow.sdk.execution_time.context import TriggeringAssetEventsAccessor
from airflow.serialization.definitions.dag import SerializedDAG
from airflow.serialization.serialized_objects import DagSerialization
from airflow.triggers.base import TriggerEvent
from airflow.triggers.shared_stream import AdvanceItem, AdvanceOutcome, SharedStreamProducer

from cdc_ops.airflow.alerts.dag import ALERTS_DAG
from cdc_ops.airflow.archive_trigger import ArchiveTrigger
from cdc_ops.airflow.assets import notified_batches
from cdc_ops.airflow.dags import build_dag, build_dags
from cdc_ops.config.loading import load_pipeline
from cdc_ops.core import json_codec
from cdc_ops.core.pipeline.watch import Watch
from cdc_ops.errors import ConfigError
from cdc_ops.provider_info import get_provider_info
from cdc_ops.state.notices.notified_files import NotificationStatus
from cdc_ops.state.sql import open_store
from cdc_ops.steps.archive.watch import ArchiveWatcher, Batch

FILE = """
pipeline: shop
{schedule}
source: {{kind: mysql, connection: shop_db}}
target: {{root: {folder}/lake, staging: {folder}/staging}}
archive: {{url: "{url}", format: {form}, min_file_age: 0s{archive}}}
airflow: {{watch_interval: 1s}}
defaults: {{method: log}}
tables: {{shop.orders: {{}}, shop.line_*: {{}}, shop.old: {{exclude: true}}}}
"""
SETTINGS = '{skipped.operations: none, event.converting.failure.handling.mode: fail, converter.replace.null.with.default: "false"}'


def write(folder: Path, schedule: str, *, archive: str = "", url: str = "") -> Path:
    path = folder / "shop.yaml"
    text = FILE.format(
        form="mysql-binlog" if "binlog" in archive else f"debezium-mysql, settings: {SETTINGS}",
        schedule=schedule,
        folder=folder,
        archive=archive,
        url=url or f"{folder}/archive",
    )
    path.write_text(text if "archive" in schedule else text.replace("airflow: {watch_interval: 1s}\n", ""))
    return path


def assets_of(path: Path) -> list[tuple[str, str]]:
    """Returns kind and name or URI of each asset that starts the DAG, as Airflow stores it."""
    stored = json.loads(json.dumps(DagSerialization.to_dict(build_dag(load_pipeline(path)))))
    found: list[tuple[str, str]] = []

    def walk(node: object) -> None:
        if isinstance(node, dict):
            if node.get("__type") in ("asset", "asset_ref"):
                found.append((node["__type"], str(node.get("name") or node.get("uri"))))
            for one in node.values():
                walk(one)
        elif isinstance(node, list):
            for one in node:
                walk(one)

    walk(stored["dag"]["timetable"])
    return sorted(set(found))


ARCHIVE = ("asset", "cdc/shop/archive")
CUSTOMERS = ("asset_ref", "cdc/crm/crm.customers")
EXPORT = ("asset_ref", "s3://bucket/done")


@pytest.mark.parametrize(
    ("schedule", "timetable", "assets"),
    [
        ("schedule: archive", "AssetTriggeredTimetable", [ARCHIVE]),
        ("start_on: [archive]", "AssetTriggeredTimetable", [ARCHIVE]),
        ("schedule: '0 3 * * *'\nstart_on: [archive]", "AssetOrTimeSchedule", [ARCHIVE]),
        ("schedule: archive\nstart_on: [cdc/crm/crm.customers, archive]", "AssetTriggeredTimetable", [ARCHIVE, CUSTOMERS]),
        ("start_on: ['s3://bucket/done', cdc/crm/crm.customers]", "AssetTriggeredTimetable", [CUSTOMERS, EXPORT]),
        ("schedule: '@daily'\nstart_on: ['s3://bucket/done']", "AssetOrTimeSchedule", [EXPORT]),
        ("schedule: '@daily'", "CronDataIntervalTimetable", []),
        ("", "NullTimetable", []),
    ],
)
def test_runs_start_at_times_on_assets_on_new_files_or_on_any_of_them(
    tmp_path: Path, schedule: str, timetable: str, assets: list[tuple[str, str]]
) -> None:
    path = write(tmp_path, schedule)
    assert type(build_dag(load_pipeline(path)).timetable).__name__ == timetable
    assert assets_of(path) == sorted(assets)


def test_a_schedule_beside_assets_has_real_intervals_in_its_zone(tmp_path: Path) -> None:
    path = write(tmp_path, "schedule: '0 3 * * *'\nstart_on: [archive]")
    path.write_text(path.read_text().replace("{watch_interval: 1s}", "{watch_interval: 1s, time_zone: Europe/Berlin}"))
    dag = build_dag(load_pipeline(path))
    assert isinstance(dag.timetable, AssetOrTimeSchedule)
    assert isinstance(dag.timetable.timetable, CronDataIntervalTimetable)
    assert str(dag.timetable.timetable.timezone) == "Europe/Berlin"
    assert dag.doc_md is not None
    assert "`0 3 * * *` (Europe/Berlin), or on new files in the archive" in dag.doc_md


SCHEDULES = {
    "cron": "schedule: '*/10 * * * *'",
    "preset": "schedule: '@daily'",
    "night": "schedule: '30 2 * * *'\nairflow: {time_zone: Europe/Berlin}",
    "often": "schedule: '*/15 * * * *'\nairflow: {time_zone: Europe/Berlin}",
    "asset": "schedule: '0 3 * * *'\nstart_on: ['s3://bucket/done']",
    "files": "schedule: '0 * * * *'\nstart_on: [archive]",
    "compared": "schedule: '0 * * * *'\nreconcile_schedule: '30 2 * * 0'\nairflow: {time_zone: America/New_York}",
    "told": "schedule: '@hourly'\nnotify: {on_call: {webhook: on_call_hook, events: [failure]}}",
    "broken": "schedule: '@weekly'\nsauce: none",
}
"""What each pipeline of a folder has, beside its tables: all ways to name times. Both zones change clocks at half past two."""
WITHOUT_TIMES = {"by_hand": "", "on_files": "schedule: archive", "on_asset": "start_on: ['s3://bucket/done']"}


def as_the_scheduler_has_them(folder: Path, schedules: dict[str, str]) -> dict[str, SerializedDAG]:
    """Writes a pipeline for each schedule, and returns the DAGs of the folder, stored and read again."""
    for name, schedule in schedules.items():
        path = write(folder, schedule)
        text = path.read_text().replace("pipeline: shop", f"pipeline: {name}")
        path.rename(folder / f"{name}.yaml").write_text(text)
    return {name: DagSerialization.from_dict(DagSerialization.to_dict(dag)) for name, dag in build_dags(folder).items()}


@pytest.mark.parametrize("days", ["2026-03-07", "2026-03-27", "2026-10-23", "2026-10-30"])
def test_each_scheduled_run_has_an_interval_that_ends_after_its_start_also_where_clocks_are_changed(tmp_path: Path, days: str) -> None:
    dags = as_the_scheduler_has_them(tmp_path, SCHEDULES)
    assert set(dags) == {*(f"cdc_{name}" for name in SCHEDULES), "cdc_compared_reconcile", ALERTS_DAG}
    for name, dag in dags.items():
        first = pendulum.parse(days)
        assert isinstance(first, datetime)
        infos = list(islice(dag.iter_dagrun_infos_between(first, first + timedelta(days=15)), 300))
        assert len(infos) > 1, name
        for one, following in pairwise(infos):
            assert one.data_interval.start < one.data_interval.end == following.data_interval.start, name
        own = dag.next_dagrun_info(last_automated_run_info=infos[-1])
        by_hand = dag.timetable.infer_manual_data_interval(run_after=first)
        assert own.data_interval.start < own.data_interval.end, name
        assert by_hand.start < by_hand.end <= first, name


def test_a_dag_that_no_time_starts_has_no_scheduled_run(tmp_path: Path) -> None:
    dags = as_the_scheduler_has_them(tmp_path, WITHOUT_TIMES)
    assert [dag.next_dagrun_info(last_automated_run_info=None) for dag in dags.values()] == [None] * len(WITHOUT_TIMES)


def trigger_of(path: Path) -> ArchiveTrigger:
    [watcher] = build_dag(load_pipeline(path)).timetable.asset_condition.watchers
    assert isinstance(watcher.trigger, ArchiveTrigger)
    return watcher.trigger


def test_the_arguments_of_the_trigger_say_what_is_watched_and_hold_no_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AIRFLOW_CONN_SHOP_DB", "CDC_OPS_CONN_SHOP_DB", "CDC_OPS_LEDGER"):
        monkeypatch.setenv(name, "mysql://user:s3cr3t@host/shop")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "s3cr3t")
    path = write(
        tmp_path, "schedule: archive", archive=", options: {endpoint_url: 'http://127.0.0.1:9'}", url="s3://archive/{schema}.{table}"
    )
    classpath, arguments = trigger_of(path).serialize()
    assert "s3cr3t" not in json.dumps(arguments)
    watch = json_codec.loads(Watch, arguments["watch"])
    assert (watch.pipeline, watch.archive.url, watch.interval.total_seconds()) == ("shop", "s3://archive/{schema}.{table}", 1)
    assert [(entry.pattern, entry.is_log, entry.exclude) for entry in watch.entries] == [
        ("shop.orders", True, False),
        ("shop.line_*", True, False),
        ("shop.old", True, True),
    ]
    assert Trigger._decrypt_kwargs(Trigger.encrypt_kwargs(arguments)) == arguments
    modules = [module for one in get_provider_info()["triggers"] for module in one["python-modules"]]
    assert classpath.rpartition(".")[0] in modules


@pytest.mark.parametrize(
    ("schedule", "archive", "url", "says"),
    [
        ("schedule: archives", "", "", "has 1 fields"),
        ("reconcile_schedule: archive", "", "", "has 1 fields"),
        ("schedule: archive", ", layout: binlog, copy: {connection: shop_db}", "", "The runs themselves copy the binlogs"),
        ("schedule: archive", "", "s3://{schema}/{table}", "there is none to watch"),
        ("start_on: ['']", "", "", "is not a valid name"),
    ],
)
def test_what_cannot_start_runs_is_refused(tmp_path: Path, schedule: str, archive: str, url: str, says: str) -> None:
    path = write(tmp_path, schedule, archive=archive, url=url)
    with pytest.raises(ConfigError, match=says):
        load_pipeline(path)


def test_an_archive_without_tables_that_read_it_and_an_interval_without_a_watcher_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path, "schedule: archive")
    path.write_text(path.read_text().replace("method: log", "cursor: updated_at"))
    with pytest.raises(ConfigError, match="no table follows the archive"):
        load_pipeline(path)
    path = write(tmp_path, "schedule: archive")
    path.write_text(path.read_text().replace("schedule: archive", "schedule: '@daily'"))
    with pytest.raises(ConfigError, match="'watch_interval' has no effect"):
        load_pipeline(path)


async def _events(trigger: ArchiveTrigger, producer: SharedStreamProducer, count: int) -> list[tuple[TriggerEvent, str]]:
    """Returns the first events of a trigger, as the triggerer gets them, with the batch of each."""
    found: list[tuple[TriggerEvent, str]] = []
    async for batch, payload in producer.open_stream():

        async def stream(one: object = batch) -> object:
            yield one

        found += [(event, payload) async for event in trigger.filter_shared_stream(stream())]  # type: ignore[arg-type]
        if len(found) == count:
            break
    return found


def test_a_batch_counts_as_told_when_airflow_has_stored_its_event_and_not_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = f"sqlite:///{tmp_path}/ledger.db"
    monkeypatch.setenv("CDC_OPS_LEDGER", url)
    folder = tmp_path / "archive" / "t" / "partition=0"
    folder.mkdir(parents=True)
    (folder / "t+0+0000000000.json").write_text("{}\n")
    trigger = trigger_of(write(tmp_path, "schedule: archive"))
    producer = trigger.create_shared_stream_producer(trigger.serialize()[1])

    async def all_of_it() -> None:
        [(event, batch)] = await _events(trigger, producer, 1)
        assert (event.payload["batch"], event.payload["files"]) == (batch, 1)
        assert event.payload["paths"] == [f"{folder}/t+0+0000000000.json"]
        with open_store(url) as store:
            (file,) = store.notified_files("shop").values()
            assert (file.batch, file.status) == (batch, NotificationStatus.CLAIMED)
            await producer.advance([AdvanceItem(broker_payload=batch, outcome=AdvanceOutcome(acked=0, failed=1))])
            assert [file.status for file in store.notified_files("shop").values()] == [NotificationStatus.CLAIMED]
            await producer.advance([AdvanceItem(broker_payload=batch, outcome=AdvanceOutcome(acked=1, failed=0))])
            assert [file.status for file in store.notified_files("shop").values()] == [NotificationStatus.NOTIFIED]
        await producer.aclose()

    asyncio.run(all_of_it())
    assert len(list(folder.iterdir())) == 1


def test_an_error_that_nobody_foresaw_is_told_once_and_the_watching_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """An error that ended the trigger would end it in Airflow for good, or start it again and again."""
    monkeypatch.setenv("CDC_OPS_LEDGER", f"sqlite:///{tmp_path}/ledger.db")
    folder = tmp_path / "archive" / "t" / "partition=0"
    folder.mkdir(parents=True)
    (folder / "t+0+0000000000.json").write_text("{}\n")
    trigger = trigger_of(write(tmp_path, "schedule: archive"))
    producer = trigger.create_shared_stream_producer(trigger.serialize()[1])
    looks: list[str] = []
    look = ArchiveWatcher.look

    def fails_twice(watcher: ArchiveWatcher) -> tuple[Batch, ...]:
        looks.append("")
        if len(looks) < 3:
            raise RuntimeError("a bug")
        return look(watcher)

    monkeypatch.setattr(ArchiveWatcher, "look", fails_twice)

    async def until_told() -> None:
        [(event, _)] = await _events(trigger, producer, 1)
        assert event.payload["files"] == 1
        await producer.aclose()

    asyncio.run(until_told())
    assert [record.levelname for record in caplog.records if "RuntimeError: a bug" in record.getMessage()] == ["ERROR"]


def test_a_run_says_which_batches_have_started_it() -> None:
    event = {
        "timestamp": "2026-01-31T12:00:00Z",
        "source_aliases": [],
        **dict.fromkeys(("source_task_id", "source_dag_id", "source_run_id", "source_map_index")),
    }
    archive = {"name": "cdc/shop/archive", "uri": "cdc-ops://shop/archive", "extra": {}}
    from_watcher = {"from_trigger": True, "payload": {"pipeline": "shop", "batch": "b1", "files": 2}}
    extras = [from_watcher, {"from_trigger": True, "payload": "of somebody else"}, {"payload": {"batch": "by hand"}}, {}]
    events = [AssetEventDagRunReferenceResult.model_validate({**event, "asset": archive, "extra": extra}) for extra in extras]
    assert notified_batches({"triggering_asset_events": TriggeringAssetEventsAccessor.build(events)}) == {"b1"}
    assert notified_batches({}) == frozenset()
