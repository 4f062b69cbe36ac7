"""The figures of tables as OpenMetrics text, which Prometheus and its relatives read; `families` says which figures there are."""

from collections.abc import Iterable, Iterator
from typing import Final

from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.openmetrics.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector

from cdc_ops.metrics.families import Family

CONTENT_TYPE: Final = CONTENT_TYPE_LATEST
_PREFIX: Final = "cdc_ops_"


def openmetrics_text(families: Iterable[Family]) -> str:
    """Returns the text, which ends in `# EOF`.

    >>> print(openmetrics_text([Family(name="lag_seconds", meaning="How far behind.", samples=())]))
    # HELP cdc_ops_lag_seconds How far behind.
    # TYPE cdc_ops_lag_seconds gauge
    # EOF
    <BLANKLINE>
    """
    text: bytes = generate_latest(_Families(tuple(families)))  # type: ignore[no-untyped-call]
    return text.decode("utf-8")


class _Families(Collector):
    def __init__(self, families: tuple[Family, ...]) -> None:
        self._families = families

    def collect(self) -> Iterator[Metric]:
        for family in self._families:
            labels = ("pipeline", "table", *((family.part_name,) if family.part_name else ()))
            metric = GaugeMetricFamily(_PREFIX + family.name, family.meaning, labels=labels)
            for one in family.samples:
                metric.add_metric((one.pipeline, one.table, *((one.part,) if family.part_name else ())), one.value)
            yield metric
