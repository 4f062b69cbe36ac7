"""The figures of tables as text for Prometheus and its relatives; `families` says which figures there are.

There are two formats: Prometheus' own, which every tool reads (the node exporter's textfile collector reads no other), and OpenMetrics.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from prometheus_client import exposition
from prometheus_client.metrics_core import InfoMetricFamily, Metric
from prometheus_client.openmetrics import exposition as openmetrics
from prometheus_client.registry import Collector

from cdc_ops import __version__
from cdc_ops.metrics.families import Family, FamilyKind

_PREFIX: Final = "cdc_ops_"


def prometheus_text(families: Iterable[Family]) -> str:
    """Returns the figures in Prometheus' own text format.

    >>> print(prometheus_text([Family(name="lag_seconds", meaning="How far behind.", samples=())]))  # doctest: +ELLIPSIS
    # HELP cdc_ops_build_info Version of cdc-ops.
    # TYPE cdc_ops_build_info gauge
    cdc_ops_build_info{version="..."} 1.0
    # HELP cdc_ops_lag_seconds How far behind.
    # TYPE cdc_ops_lag_seconds gauge
    <BLANKLINE>
    """
    return _text(exposition.generate_latest, families)


def openmetrics_text(families: Iterable[Family]) -> str:
    """Returns the figures as OpenMetrics, which has the units too and ends in `# EOF`."""
    return _text(openmetrics.generate_latest, families)


def negotiated_text(families: Iterable[Family], accept: str) -> tuple[str, str]:
    """Returns the figures in the format that a reader prefers, and its content type.

    Args:
        families: The figures.
        accept: The header `Accept` of its request, "" without one.
    """
    encode, content_type = exposition.choose_encoder(accept)
    return _text(encode, families), content_type


def _text(encode: Callable[[Collector], bytes], families: Iterable[Family]) -> str:
    return encode(_Families(tuple(families))).decode("utf-8")


class _Families(Collector):
    def __init__(self, families: tuple[Family, ...]) -> None:
        self._families = families

    def collect(self) -> Iterator[Metric]:
        yield InfoMetricFamily(_PREFIX + "build", "Version of cdc-ops.", value={"version": __version__})
        for family in self._families:
            metric = Metric(_PREFIX + family.name, family.meaning, family.kind.value, family.unit)
            suffix = "_total" if family.kind is FamilyKind.COUNTER else ""
            for one in family.samples:
                labels = {"pipeline": one.pipeline, "table": one.table, **({family.part_name: one.part} if family.part_name else {})}
                metric.add_sample(metric.name + suffix, labels, one.value)
            yield metric
