"""What monitoring reads: the figures of tables by the command and by the page, in both formats, read back by Prometheus' own parsers."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from prometheus_client.metrics_core import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics_families
from prometheus_client.parser import text_string_to_metric_families as prometheus_families
from typer.testing import CliRunner

from cdc_ops import __version__
from cdc_ops.cli import app
from cdc_ops.core.approvals import ApprovalStatus
from cdc_ops.core.operation.operation import OperationKind
from cdc_ops.core.phases import RunPhase
from cdc_ops.core.schema.tables import TableName
from cdc_ops.errors import DeletesRefusedError
from cdc_ops.state.base import StateReader
from cdc_ops.state.sql import open_reader, open_store
from cdc_ops.state.table_run import TableRunStatus
from cdc_ops.steps.reporting.findings import note_deletes
from cdc_ops.web.app import create_app
from cdc_ops.web.view import Health, PipelineInfo, table_rows
from tests.state_approval_contract import question
from tests.status_case import Filler, fill_ledger

Values = dict[tuple[str, ...], float]

ENDS = (TableRunStatus.COMMITTED, TableRunStatus.IDLE, TableRunStatus.FAILED)
ACCEPT_OF_PROMETHEUS = (
    "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,application/openmetrics-text;version=0.0.1;q=0.5,"
    "text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2"
)
"""What Prometheus 3 sends."""


@pytest.fixture(scope="module")
def ledger(tmp_path_factory: pytest.TempPathFactory) -> str:
    return fill_ledger(tmp_path_factory.mktemp("ledger") / "ledger.db")


@pytest.fixture(scope="module")
def reader(ledger: str) -> StateReader:
    return open_reader(ledger)


def families_of(text: str) -> list[Metric]:
    """What Prometheus' parsers make of a text; OpenMetrics ends in its own mark."""
    parse = openmetrics_families if text.endswith("# EOF\n") else prometheus_families
    found: list[Metric] = list(parse(text))  # type: ignore[no-untyped-call]
    assert all(family.documentation for family in found)
    return found


def parsed(text: str) -> dict[str, Values]:
    """The values by the names of their series; the key has table and part."""
    families: dict[str, Values] = {}
    for family in families_of(text):
        if family.name.removesuffix("_info") == "cdc_ops_build":
            continue
        series = f"{family.name}_total" if family.type == "counter" else family.name
        families[series] = {}
        for sample in family.samples:
            assert sample.name == series
            parts = [text for name, text in sample.labels.items() if name not in ("pipeline", "table")]
            families[series][tuple(filter(None, (sample.labels["table"], *parts)))] = sample.value
    assert families
    return families


def command(ledger: str, monkeypatch: pytest.MonkeyPatch, *arguments: str) -> str:
    monkeypatch.setenv("CDC_OPS_LEDGER", ledger)
    result = CliRunner().invoke(app, ["metrics", *arguments])
    assert result.exit_code == 0, result.output
    return result.stdout


def test_the_command_says_of_each_table_what_the_ledger_says(ledger: str, reader: StateReader, monkeypatch: pytest.MonkeyPatch) -> None:
    found = parsed(command(ledger, monkeypatch))
    overviews = {str(one.state.table): one for one in reader.overview()}
    assert len(overviews) > 5
    read = {table: one for table, one in overviews.items() if one.state.progress.fresh_at is not None}
    assert 0 < len(read) < len(overviews), "tables that were never read have no lag"
    assert set(found["cdc_ops_lag_seconds"]) == {(table,) for table in read}
    for table, one in read.items():
        lag = one.state.lag(reader.now())
        assert lag is not None
        assert found["cdc_ops_lag_seconds"][(table,)] == pytest.approx(lag.total_seconds(), abs=60)
    ran = {table: one.last_run for table, one in overviews.items() if one.last_run is not None}
    assert found["cdc_ops_last_run_failed"] == {(table,): float(run.status == "failed") for table, run in ran.items()}
    assert sum(found["cdc_ops_last_run_failed"].values()) == 1
    for table, one in overviews.items():
        lines = [line for line in reader.history(one.state.pipeline, one.state.table, limit=500) if line.status.has_ended]
        counts = [line.result.counts for line in lines]
        assert [found["cdc_ops_rows_total"][table, part] for part in ("insert", "update", "delete")] == [
            sum(count.inserted for count in counts),
            sum(count.updated for count in counts),
            sum(count.deleted for count in counts),
        ]
        assert found["cdc_ops_read_rows_total"][(table,)] == sum(count.read for count in counts)
        results = [found["cdc_ops_runs_total"][table, str(status)] for status in ENDS]
        assert results == [sum(line.status is status for line in lines) for status in ENDS]
    assert len(found["cdc_ops_rows_total"]) == 3 * len(found["cdc_ops_read_rows_total"]) > 0
    assert sum(found["cdc_ops_rows_total"].values()) > 1000
    assert sum(found["cdc_ops_leased"].values()) == sum(one.lease is not None for one in overviews.values()) > 0
    assert {table for (table,) in found["cdc_ops_delta_size_bytes"]} == {table for table, one in overviews.items() if one.stats}


def test_a_file_is_replaced_as_a_whole_and_has_only_the_pipelines_that_were_asked_for(
    ledger: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "cdc_ops.prom"
    target.write_text("of yesterday")
    assert command(ledger, monkeypatch, "--pipeline", "clickstream", "--output", str(target)) == ""
    few, every = parsed(target.read_text()), parsed(command(ledger, monkeypatch))
    assert 0 < len(few["cdc_ops_leased"]) < len(every["cdc_ops_leased"])
    assert [path.name for path in tmp_path.iterdir()] == [target.name]


def test_a_file_that_cannot_be_written_is_an_error_that_says_so(ledger: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CDC_OPS_LEDGER", ledger)
    result = CliRunner().invoke(app, ["metrics", "--output", str(tmp_path / "missing" / "x.prom")])
    assert result.exit_code != 0
    assert "cannot be written" in result.output
    assert "next:" in result.output


def test_the_page_shows_the_figures_of_the_pipelines_that_the_visitor_may_see(reader: StateReader) -> None:
    answers = [
        TestClient(create_app(lambda: reader, visible_pipelines=lambda visible=visible: visible)).get("/metrics")
        for visible in (None, {"clickstream": PipelineInfo()}, {})
    ]
    assert all(answer.status_code == 200 for answer in answers)
    assert all(answer.headers["content-type"].startswith("text/plain; version=0.0.4") for answer in answers)
    every, some, none = (len(parsed(answer.text)["cdc_ops_leased"]) for answer in answers)
    assert every > some > none == 0


def test_each_format_says_what_kind_of_figure_it_is_and_openmetrics_its_unit(ledger: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plain, open_text = command(ledger, monkeypatch), command(ledger, monkeypatch, "--openmetrics")
    assert "# EOF" not in plain
    assert "# UNIT" not in plain
    assert {family.type for family in families_of(plain)} == {"gauge", "counter"}, "the node exporter refuses any other"
    families = {family.name: family for family in families_of(open_text)}
    assert {family.type for family in families.values()} == {"gauge", "counter", "info"}
    assert families["cdc_ops_build"].samples[0].labels == {"version": __version__}
    for name, family in families.items():
        unit = next((unit for unit in ("seconds", "bytes") if name.endswith(f"_{unit}")), "")
        assert family.unit == unit
        assert not name.endswith("_total")
        assert family.type != "gauge" or not name.endswith("_count")
        assert (f"# UNIT {name} {unit}\n" in open_text) == bool(unit)
    assert {name for name, family in families.items() if family.unit == "bytes"} == {"cdc_ops_written_bytes", "cdc_ops_delta_size_bytes"}
    one, other = parsed(plain), parsed(open_text)
    assert {name: set(values) for name, values in one.items()} == {name: set(values) for name, values in other.items()}


def test_prometheus_gets_openmetrics_from_the_page(reader: StateReader) -> None:
    answer = TestClient(create_app(lambda: reader)).get("/metrics", headers={"Accept": ACCEPT_OF_PROMETHEUS})
    assert answer.headers["content-type"].startswith("application/openmetrics-text; version=1.0.0")
    assert answer.text.endswith("# EOF\n")
    assert parsed(answer.text)["cdc_ops_leased"]


def test_labels_have_few_values_however_long_the_pipelines_run(ledger: str, reader: StateReader, monkeypatch: pytest.MonkeyPatch) -> None:
    tables = len(reader.overview())
    bounds = {"": 1, "operation": 3, "result": 4, "phase": len(RunPhase)}
    seen = set()
    for family in families_of(command(ledger, monkeypatch)):
        if family.name == "cdc_ops_build_info":
            continue
        names = {name for sample in family.samples for name in sample.labels}
        part = next(iter(names - {"pipeline", "table"}), "")
        assert names <= {"pipeline", "table", part}
        assert len(family.samples) <= tables * bounds[part]
        seen.add(part)
    assert seen == set(bounds)


def test_counters_stay_when_the_ledger_forgets_old_runs_and_success_keeps_its_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = f"sqlite:///{tmp_path}/ledger.db"
    with open_store(url) as store:
        filler = Filler(store)
        table = filler.table("shop", "orders", behind=timedelta(minutes=5), version=3)
        for minutes in (300, 200, 100):
            filler.run("shop", table, TableRunStatus.COMMITTED, minutes, rows=90)
        filler.run("shop", table, TableRunStatus.FAILED, 50)
        filler.run("shop", table, TableRunStatus.IDLE, 40)
        filler.run("shop", table, TableRunStatus.FAILED, 30)
        before, now = parsed(command(url, monkeypatch)), store.now()
        store.prune("shop", table, now)
        assert len(store.history("shop", table)) == 2
        after = parsed(command(url, monkeypatch))
    counters = {name for name in before if name.endswith("_total")}
    assert len(counters) == 9
    assert {name: after[name] for name in counters} == {name: before[name] for name in counters}
    assert [after["cdc_ops_runs_total"]["shop.orders", str(status)] for status in ENDS] == [3, 1, 2]
    assert after["cdc_ops_rows_total"]["shop.orders", "insert"] == 90
    assert after["cdc_ops_run_seconds_total"] == {("shop.orders",): 6 * 41}
    succeeded, attempted = after["cdc_ops_last_success_timestamp_seconds"], after["cdc_ops_last_run_started_timestamp_seconds"]
    assert succeeded["shop.orders",] == pytest.approx((now - timedelta(minutes=40)).timestamp() + 41, abs=5)
    assert attempted["shop.orders",] == pytest.approx((now - timedelta(minutes=30)).timestamp(), abs=5)
    assert after["cdc_ops_watermark_timestamp_seconds"]["shop.orders",] == pytest.approx((now - timedelta(minutes=5)).timestamp(), abs=60)


def test_questions_that_wait_and_their_ends_are_figures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = f"sqlite:///{tmp_path}/ledger.db"
    with open_store(url) as store:
        filler = Filler(store)
        for name in ("orders", "other"):
            filler.run("shop", filler.table("shop", name, behind=timedelta(minutes=5)), TableRunStatus.FAILED, 4)
        for number in range(3):
            store.ask_approval(question(f"q{number}"))
        store.ask_approval(question("late", expires_at=store.now() - timedelta(seconds=1)))
        store.ask_approval(question("of all", table=None))
        store.answer_approval("q0", ApprovalStatus.REFUSED, "ann")
        found = parsed(command(url, monkeypatch))
    assert found["cdc_ops_approvals_waiting"] == {("shop.orders",): 2, ("shop.other",): 0, (): 1}, (
        "a question whose time is over waits for nobody"
    )
    assert found["cdc_ops_approvals_asked_total"] == {("shop.orders",): 4, ("shop.other",): 0, (): 1}
    assert found["cdc_ops_approvals_ended_total"]["shop.orders", "refused"] == 1
    assert sum(found["cdc_ops_approvals_ended_total"].values()) == 1


def test_a_table_with_a_limit_says_whether_it_is_over_it_in_metrics_status_and_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"sqlite:///{tmp_path}/limits.db"
    with open_store(url) as store:
        filler = Filler(store)
        for name, limit in (("near", timedelta(hours=3)), ("far", timedelta(hours=1)), ("free", None)):
            filler.run("shop", filler.table("shop", name, behind=timedelta(hours=2), version=3), TableRunStatus.IDLE, 1)
            line = store.history("shop", TableName(schema="shop", name=name))[0]
            store.record(replace(line, max_lag=limit))
    found = parsed(command(url, monkeypatch))
    assert found["cdc_ops_max_lag_seconds"] == {("shop.near",): 10800, ("shop.far",): 3600}
    assert found["cdc_ops_over_max_lag"] == {("shop.near",): 0, ("shop.far",): 1}
    shown = CliRunner().invoke(app, ["status"]).output
    assert [line for line in shown.splitlines() if "max_lag" in line] == ["shop.far: further behind than its max_lag, 1 h"]
    infos = {"shop": PipelineInfo(every=timedelta(hours=4))}
    with open_reader(url) as reader:
        rows = table_rows(reader.overview(), infos, reader.now())
        page = TestClient(create_app(lambda: reader)).get("/ui").text
    assert {str(row.overview.state.table): row.health for row in rows} == {
        "shop.far": Health.LATE,
        "shop.near": Health.IDLE,
        "shop.free": Health.IDLE,
    }
    assert "of 1 h" in page
    assert "of 3 h" in page


def test_a_bound_that_is_held_back_and_deletes_over_the_guard_are_figures_until_they_are_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"sqlite:///{tmp_path}/ledger.db"
    names = ("held", "free", "older", "emptied")
    with open_store(url) as store:
        filler = Filler(store)
        for name in names:
            table = filler.table("shop", name, behind=timedelta(minutes=5), version=3)
            filler.run("shop", table, TableRunStatus.COMMITTED, 4, held_by="" if name in ("free", "emptied") else "connection 7")
            line = store.history("shop", table)[0]
            fresh = None if name == "older" else line.timing.started_at - timedelta(seconds=90)
            store.record(replace(line, result=replace(line.result, fresh_at=fresh)))
        emptied = replace(line, kind=OperationKind.RECONCILE)
        note_deletes(store, emptied, DeletesRefusedError("The comparison would delete 30 of 50 rows."))
        found = parsed(command(url, monkeypatch))
        filler.run("shop", table, TableRunStatus.COMMITTED, 3)
        assert parsed(command(url, monkeypatch))["cdc_ops_deletes_refused"]["shop.emptied",] == 1, "an increment settles nothing"
        note_deletes(store, emptied, None)
        after = parsed(command(url, monkeypatch))
    assert found["cdc_ops_last_run_bound_held"] == {("shop.held",): 1, ("shop.free",): 0, ("shop.older",): 1, ("shop.emptied",): 0}
    assert found["cdc_ops_last_run_bound_held_seconds"] == {("shop.held",): 90, ("shop.free",): 0, ("shop.emptied",): 0}
    assert found["cdc_ops_deletes_refused"] == {(f"shop.{name}",): float(name == "emptied") for name in names}
    assert set(after["cdc_ops_deletes_refused"].values()) == {0}
    with open_reader(url) as reader:
        assert (
            parsed(TestClient(create_app(lambda: reader)).get("/metrics").text)["cdc_ops_deletes_refused"]
            == after["cdc_ops_deletes_refused"]
        )
