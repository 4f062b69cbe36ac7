"""Checks of the block `airflow`: schedules across changes of clocks, links, roles, approvals, delays, secrets of pods. No Airflow here."""

import itertools
import zoneinfo
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from urllib.parse import urlsplit

from cdc_ops.config.fields.model_fields import section_of
from cdc_ops.config.fields.values import format_duration
from cdc_ops.config.reading.diagnostics import Problem, is_secret_name
from cdc_ops.config.reading.document import Document, Path
from cdc_ops.config.reading.explain import place_of
from cdc_ops.core.pipeline.airflow_settings import AirflowSettings, ApproveSettings, TaskOptions
from cdc_ops.core.pipeline.pipeline import ARCHIVE, PipelineInfo, RunSettings

Data = Mapping[str, Any]

_SCHEDULES: Final = ("schedule", "reconcile_schedule")
_DAYS: Final = 366
_HOUR: Final = timedelta(hours=1)


def check_airflow(data: Data, document: Document) -> Iterator[Problem]:
    """Yields what is wrong in the block `airflow`, and between it and the schedules.

    Args:
        data: What the adapter returned.
        document: For the lines.
    """
    airflow = data.get("airflow", {})
    yield from _check_schedules(data, document)
    yield from _check_owner_links(data, airflow, document)
    yield from _check_roles(airflow, document)
    yield from _check_approve(data, airflow, document)
    for name in ("tasks", "spark_tasks"):
        yield from _check_delays(airflow, name, document)
        yield from _check_secrets(airflow.get(name, {}).get("executor_config"), ("airflow", name, "executor_config"), document)


def _check_schedules(data: Data, document: Document) -> Iterator[Problem]:
    """Refuses what Airflow's timetables do not divide into intervals without gaps where clocks change."""
    zone = data.get("airflow", {}).get("time_zone", "UTC")
    changes, crons = _clock_changes(zone), {name: data[name] for name in _SCHEDULES if data.get(name) not in (None, "", ARCHIVE)}
    if not changes or not crons:
        return
    if any(change % _HOUR for change in changes):
        message = f"Clocks in {zone!r} change by less than an hour, and Airflow's schedules stop there."
        yield Problem(mark=place_of(document, ("airflow", "time_zone")).value, message=message, valid="Use another zone, such as UTC.")
        return
    for name, cron in crons.items():
        if _starts_often_in_some_hours(cron):
            message = (
                f"{cron!r} starts several runs in some hours of the day only. If clocks in {zone!r} skip such an hour, the intervals"
                " of Airflow's schedule have a gap, which a backfill would not read."
            )
            valid = "Name all hours (*), or one minute of an hour, or use 'time_zone: UTC'."
            yield Problem(mark=place_of(document, (name,)).value, message=message, valid=valid)


def _clock_changes(zone: str) -> set[timedelta]:
    """Returns by how much the clocks of a zone change within a year."""
    info = zoneinfo.ZoneInfo(zone)
    days = (datetime(2026, 1, 1, tzinfo=UTC) + timedelta(days=day) for day in range(_DAYS))
    offsets = [day.astimezone(info).utcoffset() or timedelta() for day in days]
    return {abs(later - earlier) for earlier, later in itertools.pairwise(offsets) if later != earlier}


def _starts_often_in_some_hours(cron: str) -> bool:
    from croniter import croniter  # type: ignore[import-untyped]

    minutes, hours = croniter(cron).expanded[:2]
    return hours != ["*"] and (minutes == ["*"] or len(minutes) > 1)


def _check_owner_links(data: Data, airflow: Data, document: Document) -> Iterator[Problem]:
    owner = data.get("owner", section_of(PipelineInfo).fields["owner"].default)
    for name, link in airflow.get("owner_links", {}).items():
        place, parts = place_of(document, ("airflow", "owner_links", name)), urlsplit(link)
        if name != owner:
            message = f"{name!r} is not the pipeline's owner, so Airflow shows this link nowhere."
            yield Problem(mark=place.key, message=message, valid=f"The owner is {owner!r}.")
        elif not (parts.path if parts.scheme == "mailto" else parts.scheme and parts.netloc):
            message = f"{link!r} is not a link that Airflow takes."
            yield Problem(mark=place.value, message=message, valid="Write https://host/page or mailto:name@host.")


def _check_roles(airflow: Data, document: Document) -> Iterator[Problem]:
    for role, given in airflow.get("access_control", {}).items():
        lists = given.values() if isinstance(given, dict) and given else [given]
        if not all(isinstance(one, list) and one and all(isinstance(action, str) for action in one) for one in lists):
            message = f"The role {role!r} needs a list of actions, or such lists by resource."
            valid = "Write 'analysts: [can_read]', or 'analysts: {DAGs: [can_read], DAG Runs: [can_create]}'."
            yield Problem(mark=place_of(document, ("airflow", "access_control", role)).value, message=message, valid=valid)


def _check_approve(data: Data, airflow: Data, document: Document) -> Iterator[Problem]:
    """Refuses to wait for an answer longer than the run, or the ledger's memory, lasts."""
    approve = airflow.get("approve", {})
    if not approve.get("decisions"):
        return
    timeout = approve.get("timeout", section_of(ApproveSettings).fields["timeout"].default)
    run_timeout = airflow.get("run_timeout", section_of(AirflowSettings).fields["run_timeout"].default)
    retention = data.get("run_retention", section_of(RunSettings).fields["run_retention"].default)
    for name, longest, why in (
        ("run_timeout", run_timeout, "runs that wait are ended by {}"),
        ("run_retention", retention, "{} forgets the question"),
    ):
        if longest and timeout >= longest:
            reason = why.format(f"{name!r} ({format_duration(longest)})")
            message = f"An answer is waited for up to {format_duration(timeout)} ('timeout'), but {reason}."
            valid = f"Set 'timeout' to less than {format_duration(longest)}, or raise {name!r}."
            yield Problem(mark=place_of(document, ("airflow", "approve", "timeout")).value, message=message, valid=valid)


def _check_delays(airflow: Data, name: str, document: Document) -> Iterator[Problem]:
    own, usual = airflow.get(name, {}), {} if name == "tasks" else airflow.get("tasks", {})
    if not own.keys() & {"retry_delay", "max_retry_delay"}:
        return
    shapes = section_of(TaskOptions).fields
    first, longest = ({**usual, **own}.get(key, shapes[key].default) for key in ("retry_delay", "max_retry_delay"))
    if first > longest:
        field = next(key for key in ("retry_delay", "max_retry_delay") if key in own)
        message = "'retry_delay' is longer than 'max_retry_delay'."
        yield Problem(mark=place_of(document, ("airflow", name, field)).value, message=message, valid="Set both.")


def _check_secrets(value: Any, path: Path, document: Document) -> Iterator[Problem]:
    """Finds options and variables of a pod that hold a secret: the file, the DAG and Airflow's database would show it."""
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from _check_secrets(item, (*path, index), document)
    if not isinstance(value, dict):
        return
    for key, item in value.items():
        if key == "value" and is_secret_name(str(value.get("name", ""))):
            message = f"{value['name']!r} is a secret. Pipeline files must not contain secrets."
            valid = "In a pod write 'valueFrom: {secretKeyRef: {name: ..., key: ...}}'."
            yield Problem(mark=place_of(document, (*path, key)).value, message=message, valid=valid)
        elif _is_secret_option(key, item) and "pod_override" not in path:  # a pod has names such as secretName, which hold none
            message = f"{key!r} is a secret. Pipeline files must not contain secrets."
            valid = "Have the executor take it from a store of secrets, or from the environment of its workers."
            yield Problem(mark=place_of(document, (*path, key)).value, message=message, valid=valid)
        yield from _check_secrets(item, (*path, key), document)


def _is_secret_option(name: str, value: Any) -> bool:
    """True if a value is a secret by its name; `key` alone is the name of a tag."""
    return name != "key" and is_secret_name(name) and isinstance(value, str | int | float) and not isinstance(value, bool)
