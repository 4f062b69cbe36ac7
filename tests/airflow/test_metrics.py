"""The figures of a run's tables in Airflow's metrics, received from its own StatsD client, and as OpenTelemetry's protocol has them."""

import atexit
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import cast

import pytest
from airflow.sdk.observability import stats
from airflow.sdk.observability.metrics import stats_utils
from opentelemetry import metrics
from opentelemetry.sdk.metrics import MeterProvider

from cdc_ops.airflow.metrics import publish_metrics
from cdc_ops.state.base import StateReader
from cdc_ops.state.sql import open_reader
from tests.airflow.live_airflow import otel_settings
from tests.receivers import Collector, metrics_collector
from tests.status_case import fill_ledger

pytestmark = [pytest.mark.airflow]


@pytest.fixture(params=[False, True], ids=["plain", "tags"])
def has_tags(request: pytest.FixtureRequest) -> bool:
    """Whether StatsD's names carry tags, as InfluxDB's Telegraf understands them."""
    return bool(request.param)


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch, has_tags: bool) -> Iterator[socket.socket]:
    """A socket that Airflow's StatsD client sends to, as in a task of an installation with `[metrics] statsd_on`."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiving:
        receiving.bind(("127.0.0.1", 0))
        receiving.settimeout(5)
        settings = {"STATSD_ON": "True", "STATSD_HOST": "127.0.0.1", "STATSD_PORT": str(receiving.getsockname()[1])}
        for name, value in (settings | {"STATSD_INFLUXDB_ENABLED": str(has_tags)}).items():
            monkeypatch.setenv(f"AIRFLOW__METRICS__{name}", value)
        client = stats_utils.get_stats_factory()()
        stats.initialize(factory=lambda: client, export_legacy_names=True)
        yield receiving
        client.statsd.close()
        monkeypatch.undo()
        stats.initialize(factory=stats_utils.get_stats_factory(), export_legacy_names=True)


def received(receiving: socket.socket) -> dict[str, tuple[str, float]]:
    """The figures that have arrived, by name and tags: `g` (gauge) or `c` (what a counter grows by), and the value."""
    found: dict[str, tuple[str, float]] = {}
    while True:
        try:
            packet = receiving.recv(65_536).decode("ascii")
        except TimeoutError:
            return found
        receiving.settimeout(0.5)
        for line in packet.splitlines():
            name, _, rest = line.partition(":")
            value, _, kind = rest.partition("|")
            name, *tags = name.split(",")
            key = ",".join((name, *sorted(tags)))
            assert key not in found, "each series is sent once"
            found[key] = (kind, float(value))


def test_statsd_has_a_series_of_each_table_only_where_it_has_tags(receiver: socket.socket, has_tags: bool, tmp_path: Path) -> None:
    reader = open_reader(fill_ledger(tmp_path / "ledger.db"))
    overviews = {str(one.state.table): one for one in reader.overview("shop")}
    orders, customers = overviews["shop.orders"], overviews["shop.customers"]
    assert orders.last_run is not None
    assert customers.last_run is not None
    publish_metrics(reader, "shop", ["shop.orders"], orders.last_run.run_id)
    found = received(receiver)
    counts = orders.last_run.result.counts
    assert counts.inserted > 0
    if has_tags:
        of_orders = "pipeline=shop,table=shop.orders"
        assert found[f"airflow.cdc_ops.rows,operation=insert,{of_orders}"] == ("c", counts.inserted)
        assert found["airflow.cdc_ops.runs,pipeline=shop,result=committed,table=shop.orders"] == ("c", 1)
        assert found[f"airflow.cdc_ops.last_run_failed,{of_orders}"] == ("g", 0)
        assert found[f"airflow.cdc_ops.lag_seconds,{of_orders}"][1] > 0
        assert not [name for name in found if "customers" in name]
    else:
        assert not [name for name in found if "orders" in name], "one of a thousand tables is no part of a name"
        assert found["airflow.cdc_ops.shop.rows.insert"] == ("c", counts.inserted)
        assert found["airflow.cdc_ops.shop.runs.committed"] == ("c", 1)
        assert found["airflow.cdc_ops.shop.last_run_failed"] == ("g", 1), "one table of the pipeline has failed"
        kind, lag = found["airflow.cdc_ops.shop.lag_seconds"]
        lags = [found_lag.total_seconds() for one in overviews.values() if (found_lag := one.state.lag(reader.now()))]
        assert (kind, lag) == ("g", pytest.approx(max(lags), abs=60)), "the table that is furthest behind"
        sizes = [one.stats.size_bytes for one in overviews.values() if one.stats]
        assert found["airflow.cdc_ops.shop.delta_size_bytes"] == ("g", sum(sizes))


@pytest.mark.parametrize("has_tags", [True])
def test_counters_of_statsd_grow_only_by_what_this_run_did(receiver: socket.socket, has_tags: bool, tmp_path: Path) -> None:
    reader = open_reader(fill_ledger(tmp_path / "ledger.db"))
    publish_metrics(reader, "shop", ["shop.orders"], "a run that came to no table")
    found = received(receiver)
    assert [name for name, (kind, _) in found.items() if kind == "g"]
    assert not [name for name, (kind, _) in found.items() if kind == "c"]


@pytest.fixture
def at_exit(monkeypatch: pytest.MonkeyPatch) -> list[Callable[[], object]]:
    """What Airflow's client of OpenTelemetry wants done when the process ends, in place of its being done then."""
    register, held = atexit.register, list[Callable[[], object]]()

    def registered(function: Callable[..., object], *args: object, **options: object) -> object:
        if getattr(function, "__name__", "") != "flush_otel_metrics":
            return register(function, *args, **options)
        held.append(function)
        return function

    monkeypatch.setattr(atexit, "register", registered)
    return held


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    """A receiver that Airflow's OpenTelemetry client sends to, as in a task of an installation with `[metrics] otel_on`."""
    with metrics_collector() as receiving:
        for name, value in otel_settings(receiving.url).items():
            monkeypatch.setenv(name, value)
        stats.initialize(factory=stats_utils.get_stats_factory(), export_legacy_names=True)
        yield receiving
        monkeypatch.undo()
        stats.initialize(factory=stats_utils.get_stats_factory(), export_legacy_names=True)
        cast("MeterProvider", metrics.get_meter_provider()).shutdown()


def test_opentelemetry_gets_each_table_by_its_tags(at_exit: list[Callable[[], object]], collector: Collector, tmp_path: Path) -> None:
    reader = open_reader(fill_ledger(tmp_path / "ledger.db"))
    publish_metrics(reader, "shop", ["shop.orders", "shop.customers"], "any")
    assert (collector.requests, len(at_exit)) == ([], 1)
    at_exit[0]()
    assert {path for path, _ in collector.requests} == {"/v1/metrics"}
    found = collector.gauges()
    assert {"shop.orders", "shop.customers"} == {tag.removeprefix("table=") for _, *tags in found for tag in tags if "table=" in tag}
    overviews = {str(one.state.table): one for one in reader.overview("shop")}
    for table in ("shop.orders", "shop.customers"):
        run = overviews[table].last_run
        assert run is not None
        mine = ("pipeline=shop", f"table={table}")
        assert found["airflow.cdc_ops.lag_seconds", *mine] > 0
        assert found["airflow.cdc_ops.deletes_refused", *mine] == 0
        assert found["airflow.cdc_ops.last_run_bound_held", *mine] == float(bool(run.messages.held_by))
        inserted = next(one.data.inserted_rows for one in reader.totals("shop") if str(one.table) == table)
        assert found["airflow.cdc_ops.rows_total", "operation=insert", *mine] == inserted >= run.result.counts.inserted, "its whole sum"


class LedgerAway:
    """A ledger that has gone."""

    def overview(self, pipeline: str) -> None:
        raise OSError(f"the ledger of {pipeline} is away")


def test_monitoring_that_fails_fails_no_run(caplog: pytest.LogCaptureFixture) -> None:
    publish_metrics(cast("StateReader", LedgerAway()), "shop", ["shop.orders"], "any")
    assert "were not sent" in caplog.text
    assert "the ledger of shop is away" in caplog.text
