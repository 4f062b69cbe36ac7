"""The figures of a run's tables in Airflow's metrics (StatsD, OpenTelemetry), sent when the run ends; `cdc_ops.metrics` has them.

The lag of a table that no run comes to is not sent: `cdc-ops metrics` and the page's `metrics` read it from the ledger at any time.
"""

import logging
from collections.abc import Sequence

from airflow.configuration import conf
from airflow.sdk.observability import stats

from cdc_ops.metrics.families import Family, Sample, read_families
from cdc_ops.state.base import StateReader

log = logging.getLogger(__name__)


def publish_metrics(reader: StateReader, pipeline: str, tables: Sequence[str]) -> None:
    """Sends the figures of tables. A failure is logged: monitoring never fails a run whose rows are committed.

    Args:
        reader: The ledger.
        pipeline: Name of the pipeline.
        tables: The run's tables, each `schema.table`.
    """
    try:
        wanted, by_name = frozenset(tables), conf.getboolean("metrics", "legacy_names_on", fallback=True)
        chosen = [one for one in reader.overview(pipeline) if str(one.state.table) in wanted]
        for family in read_families(reader, chosen):
            for sample in family.samples:
                _send(family, sample, by_name=by_name)
    except Exception:
        log.warning("The metrics of the run's tables were not sent; the rows are not concerned.", exc_info=True)


def _send(family: Family, sample: Sample, *, by_name: bool) -> None:
    """Sends a value by tags, and by a name of its own where Airflow sends such names: plain StatsD drops tags, and would keep one table."""
    part = {family.part_name: sample.part} if family.part_name else {}
    stats.gauge(f"cdc_ops.{family.name}", sample.value, tags={"pipeline": sample.pipeline, "table": sample.table, **part})
    if by_name:
        own = ".".join(text for text in ("cdc_ops", sample.pipeline, sample.table, family.name, sample.part) if text)
        stats.gauge(stats.normalize_name_for_stats(own, log_warning=False), sample.value)
