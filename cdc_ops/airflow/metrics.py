"""The figures of a run's tables in Airflow's metrics (StatsD, OpenTelemetry), sent when the run ends; `cdc_ops.metrics` has them.

Each table has series of its own where the receiver knows tags. Plain StatsD does not, and gets one value per pipeline. The lag of a table
that no run comes to is not sent: `cdc-ops metrics` and the page's `metrics` read it from the ledger at any time.
"""

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

from airflow.configuration import conf
from airflow.sdk.observability import stats

from cdc_ops.metrics.families import Family, FamilyKind, Sample, read_families, run_counters
from cdc_ops.state.base import StateReader, TableOverview
from cdc_ops.state.totals import added_by

log = logging.getLogger("cdc_ops.airflow")


def publish_metrics(reader: StateReader, pipeline: str, tables: Sequence[str], run_id: str) -> None:
    """Sends the figures of tables. A failure is logged: monitoring never fails a run whose rows are committed.

    Args:
        reader: The ledger.
        pipeline: Name of the pipeline.
        tables: The run's tables, each `schema.table`.
        run_id: The run, of which counters get what it has done.
    """
    try:
        receiver, known, wanted = _receiver(), reader.overview(pipeline), frozenset(tables)
        mine = [one for one in known if str(one.state.table) in wanted]
        families = read_families(reader, mine if receiver.has_tags else known)
        gauges = [family for family in families if family.kind is FamilyKind.GAUGE]
        counters = _of_run(mine, run_id) if receiver.adds_up else [family for family in families if family.kind is FamilyKind.COUNTER]
        for family in (*gauges, *counters):
            for sample in family.samples if receiver.has_tags else _of_pipeline(family):
                _send(receiver, family, sample)
    except Exception:
        log.warning("The metrics of the run's tables were not sent; the rows are not concerned.", exc_info=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Receiver:
    """What takes Airflow's metrics.

    Args:
        has_tags: It keeps values by their tags.
        adds_up: It adds what each process counts. OpenTelemetry does not: a process that ends has said how far *it* has counted.
    """

    has_tags: bool
    adds_up: bool


def _receiver() -> _Receiver:
    """Returns what Airflow sends to, in the order in which it decides that."""
    if conf.getboolean("metrics", "statsd_datadog_enabled", fallback=False):
        return _Receiver(has_tags=True, adds_up=True)
    if conf.getboolean("metrics", "statsd_on", fallback=False):
        return _Receiver(has_tags=conf.getboolean("metrics", "statsd_influxdb_enabled", fallback=False), adds_up=True)
    return _Receiver(has_tags=True, adds_up=False)


def _of_run(overviews: Iterable[TableOverview], run_id: str) -> tuple[Family, ...]:
    """Returns counters with what a run has done."""
    lines = (one.last_run for one in overviews if one.last_run is not None and one.last_run.run_id == run_id)
    return run_counters(added for line in lines if (added := added_by(line, None)))


def _of_pipeline(family: Family) -> list[Sample]:
    """Returns one value of a family for each of its parts, of all tables together."""
    together = sum if family.kind is FamilyKind.COUNTER else family.together
    ordered = sorted(family.samples, key=lambda one: (one.pipeline, one.part))
    return [
        Sample(pipeline=pipeline, table="", value=float(together(one.value for one in some)), part=part)
        for (pipeline, part), some in groupby(ordered, key=lambda one: (one.pipeline, one.part))
    ]


def _send(receiver: _Receiver, family: Family, sample: Sample) -> None:
    part = {family.part_name: sample.part} if family.part_name else {}
    tags = {"pipeline": sample.pipeline, "table": sample.table, **part} if receiver.has_tags else {}
    own = () if receiver.has_tags else (sample.pipeline, family.name, sample.part)
    name = ".".join(("cdc_ops", *filter(None, own or (family.name,))))
    name = stats.normalize_name_for_stats(name, log_warning=False)
    if family.kind is FamilyKind.COUNTER and receiver.adds_up:
        stats.incr(name, round(sample.value), tags=tags)
    else:
        stats.gauge(f"{name}_total" if family.kind is FamilyKind.COUNTER else name, sample.value, tags=tags)
