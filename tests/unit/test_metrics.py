"""What monitoring reads: the figures of tables as OpenMetrics text, by the command and by the page, read back by Prometheus' own parser."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from typer.testing import CliRunner

from cdc_ops.cli import app
from cdc_ops.core.operation.operation import OperationKind
from cdc_ops.core.schema.tables import TableName
from cdc_ops.errors import DeletesRefusedError
from cdc_ops.state.base import StateReader
from cdc_ops.state.sql import open_reader, open_store
from cdc_ops.state.table_run import TableRunStatus
from cdc_ops.steps.reporting.findings import note_deletes
from cdc_ops.web.app import create_app
from cdc_ops.web.view import Health, PipelineInfo, table_rows
from tests.status_case import Filler, fill_ledger

Values = dict[tuple[str, ...], float]


@pytest.fixture(scope="module")
def ledger(tmp_path_factory: pytest.TempPathFactory) -> str:
    return fill_ledger(tmp_path_factory.mktemp("ledger") / "ledger.db")


@pytest.fixture(scope="module")
def reader(ledger: str) -> StateReader:
    return open_reader(ledger)


def parsed(text: str) -> dict[str, Values]:
    """The values by family; the key has table and part."""
    families = {}
    for family in text_string_to_metric_families(text):  # type: ignore[no-untyped-call]
        assert family.documentation
        names = [name for sample in family.samples for name in sample.labels if name not in ("pipeline", "table")]
        part = names[0] if names else ""
        families[family.name] = {
            tuple(text for text in (sample.labels["table"], sample.labels.get(part, "")) if text): sample.value for sample in family.samples
        }
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
    rows = found["cdc_ops_last_run_rows"]
    assert len(rows) == 4 * len(ran)
    assert any(rows.values())
    for table, run in ran.items():
        counts = run.result.counts
        assert [rows[table, part] for part in ("read", "inserted", "updated", "deleted")] == [
            counts.read,
            counts.inserted,
            counts.updated,
            counts.deleted,
        ]
    assert found["cdc_ops_last_run_late_rows"] == {(table,): run.result.late_rows for table, run in ran.items()}
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
    assert all(answer.headers["content-type"].startswith("application/openmetrics-text") for answer in answers)
    every, some, none = (len(parsed(answer.text)["cdc_ops_leased"]) for answer in answers)
    assert every > some > none == 0


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
