"""When a pipeline's runs start: at times, on assets of other DAGs, on new files of its archive, or on any of these."""

from typing import Any

from airflow.sdk import Asset, AssetAny, AssetOrTimeSchedule, AssetWatcher, CronDataIntervalTimetable
from airflow.sdk.definitions.asset import BaseAsset

from cdc_ops.core import json_codec
from cdc_ops.core.pipeline.pipeline import ARCHIVE, Pipeline
from cdc_ops.core.pipeline.watch import watch_of


def timetable(schedule: str, time_zone: str = "UTC") -> CronDataIntervalTimetable | None:
    """A timetable with real intervals: a plain cron text has empty ones in Airflow 3, and a backfill would read nothing."""
    return CronDataIntervalTimetable(schedule, timezone=time_zone) if schedule else None


def schedule_of(pipeline: Pipeline) -> Any:
    """Returns what Airflow takes as the schedule of a pipeline's DAG: a timetable, assets, both, or None."""
    times = timetable(pipeline.cron, pipeline.airflow.time_zone)
    names = dict.fromkeys((*((ARCHIVE,) if pipeline.watches_archive else ()), *pipeline.runs.start_on))
    assets = [archive_asset(pipeline) if name == ARCHIVE else _asset(name) for name in names]
    if not assets:
        return times
    any_of = assets[0] if len(assets) == 1 else AssetAny(*assets)
    return AssetOrTimeSchedule(timetable=times, assets=any_of) if times else any_of


def archive_asset(pipeline: Pipeline) -> Asset:
    """Returns the asset that stands for new files of a pipeline's archive, with the watcher that finds them.

    Its URI is the pipeline's own: of two assets with one URI, Airflow takes one.
    """
    from cdc_ops.airflow.archive_trigger import ArchiveTrigger

    trigger = ArchiveTrigger(watch=json_codec.dumps(watch_of(pipeline)))
    return Asset(
        name=f"cdc/{pipeline.name}/{ARCHIVE}",
        uri=f"cdc-ops://{pipeline.name}/{ARCHIVE}",
        group="cdc",
        extra={"url": pipeline.archive.url},
        watchers=[AssetWatcher(name="new files", trigger=trigger)],
    )


def _asset(name: str) -> BaseAsset:
    """Returns an asset of another DAG, which says what it is."""
    return Asset.ref(uri=name) if "://" in name else Asset.ref(name=name)
