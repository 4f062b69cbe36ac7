"""When a pipeline that has never run should have: by its schedule, or by the `max_lag` of its tables, since it is known. Pure."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Final
from zoneinfo import ZoneInfo

from cdc_ops.core.pipeline.pipeline import Pipeline

PATIENCE: Final = timedelta(hours=1)
"""How long a run may take to come to its first table."""


def is_expected(pipeline: Pipeline) -> bool:
    """True if a pipeline should run by itself: it has a schedule, or a table with a `max_lag`."""
    return bool(pipeline.cron) or bool(_limits(pipeline))


def waited_until(pipeline: Pipeline, known_since: datetime) -> datetime | None:
    """Returns when a pipeline should have run at the latest, None if nothing says that.

    Args:
        pipeline: With its schedule and its tables' limits.
        known_since: Since when it is known, UTC.
    """
    return min((*_scheduled(pipeline, known_since), *(known_since + limit for limit in _limits(pipeline))), default=None)


def _scheduled(pipeline: Pipeline, known_since: datetime) -> Iterator[datetime]:
    if pipeline.cron:
        from croniter import croniter  # type: ignore[import-untyped]

        begin = max(known_since, pipeline.start_date).astimezone(ZoneInfo(pipeline.airflow.time_zone))
        yield croniter(pipeline.cron, begin).get_next(datetime) + PATIENCE


def _limits(pipeline: Pipeline) -> tuple[timedelta, ...]:
    limits = (rule.settings.load.max_lag for rule in pipeline.tables if not rule.exclude)
    return tuple(max(limit, PATIENCE) for limit in limits if limit)
