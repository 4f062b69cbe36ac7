"""What an Airflow run asks for; pure, no Airflow."""

import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from cdc_ops.airflow.job_files import open_journal
from cdc_ops.airflow.run_conf import DagRunFacts, run_request
from cdc_ops.core.operation.run_request import ResyncMode, RunKind, airflow_run_id
from cdc_ops.core.pipeline.airflow_settings import Downstream
from cdc_ops.core.pipeline.pipeline import Pipeline, SourceConfig, SourceKind, TargetConfig
from cdc_ops.errors import RequestError

HOUR = (datetime(2026, 1, 1, 5, tzinfo=UTC), datetime(2026, 1, 1, 6, tzinfo=UTC))
PIPELINE = Pipeline(
    name="shop",
    source=SourceConfig(kind=SourceKind.MARIADB, connection="db"),
    target=TargetConfig(root="/lake", staging="/staging"),
    tables=(),
)
FORM: dict[str, Any] = {"tables": [], "mode": "increment", "since": None, "until": None, "keys": []}
RUN_TYPES = ("scheduled", "manual", "asset_triggered", "operator_triggered", "asset_materialization")


def dag_run(run_type: str = "manual", interval: Any = None, run_id: str = "manual__1", **conf: Any) -> DagRunFacts:
    return DagRunFacts(dag_id="cdc_shop", run_id=run_id, run_type=run_type, conf=conf, interval=interval)


@pytest.mark.parametrize("run_type", RUN_TYPES)
@pytest.mark.parametrize("interval", [None, HOUR])
@pytest.mark.parametrize("conf", [{}, FORM])
def test_a_run_without_parameters_carries_forward_whatever_its_type_and_interval(
    run_type: str, interval: Any, conf: dict[str, Any]
) -> None:
    request = run_request(dag_run(run_type, interval, **conf))
    assert request.kind is RunKind.INCREMENT
    assert (request.tables, request.since, request.until, request.keys, request.mode) == ((), None, None, (), None)
    assert (request.trigger, request.holder) == (run_type, "airflow:cdc_shop:manual__1")


def test_runs_of_both_dags_that_are_due_at_the_same_instant_have_ids_of_their_own_in_the_ledger() -> None:
    """Airflow gives both `scheduled__<instant>`; jobs, lines and questions of a run are kept by the id."""
    midnight = "scheduled__2026-01-01T00:00:00+00:00"
    forward = run_request(dag_run("scheduled", HOUR, midnight))
    compares = run_request(DagRunFacts(dag_id="cdc_shop_reconcile", run_id=midnight, run_type="scheduled", reconcile=True))
    assert (forward.run_id, compares.run_id) == (midnight, f"reconcile__{midnight}")
    assert run_request(dag_run(run_id=midnight, mode="reconcile")).run_id == midnight, "a comparison by hand in the pipeline's own DAG"
    assert airflow_run_id(compares.run_id) == (midnight, True)
    assert len({open_journal(PIPELINE, run.run_id, 0).folder for run in (forward, compares)}) == 2


@pytest.mark.parametrize("run_id", ["backfill__2026-01-01T06:00:00+00:00", "scheduled__2026-01-01T06:00:00+00:00"])
def test_a_backfill_reads_its_interval_also_where_airflow_rewrote_an_older_run(run_id: str) -> None:
    request = run_request(dag_run("backfill", HOUR, run_id, tables=["shop.orders"]))
    assert (request.kind, request.since, request.until, request.tables) == (RunKind.BACKFILL, *HOUR, ("shop.orders",))


@pytest.mark.parametrize("empty", [None, ""])
@pytest.mark.parametrize("kind", ["manual", "backfill"])
def test_a_field_of_the_form_that_is_left_empty_says_nothing(kind: str, empty: Any) -> None:
    """Airflow's form sends all of its fields, and None for those that are empty."""
    form = dict.fromkeys(("since", "until", "accept_deletes", "downstream"), empty) | dict.fromkeys(("tables", "keys", "columns"))
    switches = {"dry_run": False, "accept_cost": False, "accept_server": False}
    assert run_request(dag_run(kind, HOUR, mode="increment", **form, **switches)) == run_request(dag_run(kind, HOUR))


@pytest.mark.parametrize("conf", [{"mode": "full"}, {"since": "2026-01-01T00:00:00Z"}, {"keys": ["1"]}])
def test_a_backfill_with_a_range_or_mode_of_its_own_is_refused(conf: dict[str, Any]) -> None:
    with pytest.raises(RequestError, match="takes its range from the dates"):
        run_request(dag_run("backfill", HOUR, **conf))


@pytest.mark.parametrize(
    ("usual", "conf", "silent"),
    [
        ("events", {}, False),
        ("events", {"downstream": ""}, False),
        ("events", {"downstream": "silent"}, True),
        ("silent", {}, True),
        ("silent", {"downstream": "events"}, False),
    ],
)
def test_a_backfill_is_silent_if_the_pipeline_or_the_run_says_so_and_the_run_goes_first(
    usual: str, conf: dict[str, Any], silent: bool
) -> None:
    for facts in (dag_run("backfill", HOUR, **conf), dag_run("manual", columns=["note"], **conf)):
        assert run_request(replace(facts, downstream=Downstream(usual))).silent is silent


def test_the_pipeline_s_word_is_about_backfills_and_a_resync_is_silent_only_if_it_says_so() -> None:
    resync = dag_run("manual", mode="full")
    assert run_request(replace(resync, downstream=Downstream.SILENT)).silent is False
    assert run_request(dag_run("manual", mode="full", downstream="silent")).silent is True
    assert run_request(replace(dag_run("scheduled"), downstream=Downstream.SILENT)).silent is False


@pytest.mark.parametrize(
    ("conf", "text"),
    [
        ({"downstream": "silent"}, "Only a backfill or a resync can be silent"),
        ({"downstream": "silent", "mode": "reconcile"}, "A reconcile cannot be silent"),
        ({"downstream": "quiet", "mode": "full"}, "downstream='quiet' is not valid"),
        ({"downstream": True, "mode": "full"}, "downstream=True is not valid"),
    ],
)
def test_what_brings_new_changes_cannot_be_silent(conf: dict[str, Any], text: str) -> None:
    with pytest.raises(RequestError, match=text):
        run_request(dag_run("manual", **conf))


def test_columns_are_a_backfill_of_them_of_all_rows_or_of_a_range() -> None:
    request = run_request(dag_run("manual", columns=["note"], tables=["shop.orders"]))
    assert (request.kind, request.columns, request.since) == (RunKind.BACKFILL, ("note",), None)
    odd = run_request(dag_run("manual", columns=['" note"', "a,b ", 'q"uote'], tables=['shop. odd "t"']))
    assert (odd.columns, odd.tables) == ((" note", "a,b", 'q"uote'), ('shop. odd "t"',))
    keys = run_request(dag_run("manual", mode="keys", keys=['1, " b, c "', ["2", " d "]], tables=["shop.orders"])).keys
    assert keys == (("1", " b, c "), ("2", " d "))
    with pytest.raises(RequestError, match="Only a backfill takes columns"):
        run_request(dag_run("manual", columns=["note"], mode="full"))


def test_a_backfill_without_interval_is_refused() -> None:
    with pytest.raises(RequestError, match="no data interval"):
        run_request(dag_run("backfill"))


def test_a_range_is_taken_from_the_parameters_never_from_the_interval() -> None:
    request = run_request(dag_run("manual", HOUR, mode="range", since="2025-12-01T00:00:00Z", until="2025-12-02T00:00:00+02:00"))
    assert (request.kind, request.mode) == (RunKind.RESYNC, ResyncMode.RANGE)
    assert (request.since, request.until) == (datetime(2025, 12, 1, tzinfo=UTC), datetime(2025, 12, 1, 22, tzinfo=UTC))


@pytest.mark.parametrize(
    ("given", "keys"),
    [
        (["1", "2"], (("1",), ("2",))),
        ([1, 2], (("1",), ("2",))),
        (["eu, 7"], (("eu", "7"),)),
        ([["a, b", 7]], (("a, b", "7"),)),
        (["", "1"], (("1",),)),
    ],
)
def test_keys_are_values_or_the_parts_of_composite_ones(given: list[Any], keys: tuple[tuple[str, ...], ...]) -> None:
    assert run_request(dag_run(mode="keys", tables=["shop.orders"], keys=given)).keys == keys


@pytest.mark.parametrize(
    ("conf", "says"),
    [
        ({"tabels": ["shop.orders"]}, "Did you mean 'tables'"),
        ({"mode": "fulll"}, "Did you mean 'full'"),
        (
            {"mode": "range", "since": "2026-01-01T00:00:00", "until": "2026-01-02T00:00:00Z"},
            "since='2026-01-01T00:00:00' has no time zone",
        ),
        ({"mode": "range", "since": "yesterday", "until": "2026-01-02T00:00:00Z"}, "since='yesterday' is not a date and time"),
        ({"mode": "range", "since": 5, "until": "2026-01-02T00:00:00Z"}, "since=5 is not text"),
        ({"mode": "range", "since": "2026-01-03T00:00:00Z", "until": "2026-01-02T00:00:00Z"}, "is not before until"),
        ({"mode": "range", "since": "2026-01-03T00:00:00Z"}, "needs since and until"),
        ({"since": "2026-01-01T00:00:00Z", "until": "2026-01-02T00:00:00Z"}, "An increment takes neither range"),
        ({"mode": "keys", "keys": ["1"]}, "works on one table"),
        ({"mode": "keys", "tables": ["shop.orders"]}, "needs keys"),
        ({"mode": "keys", "tables": ["shop.orders"], "keys": [1.5]}, "keys holds 1.5"),
        ({"mode": "keys", "tables": ["shop.orders"], "keys": "1"}, "keys='1' is not a list"),
        ({"tables": "shop.orders"}, "tables='shop.orders' is not a list"),
        ({"tables": [1]}, "tables holds 1"),
    ],
)
def test_what_cannot_be_meant_is_refused_and_named(conf: dict[str, Any], says: str) -> None:
    with pytest.raises(RequestError) as caught:
        run_request(dag_run(**conf))
    assert says in str(caught.value)
    assert "the watermark stays" in str(caught.value)


def test_run_requests_need_no_airflow() -> None:
    code = "import sys, cdc_ops.airflow.run_conf; sys.exit(any(m.split('.')[0] in ('airflow', 'pyspark') for m in sys.modules))"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_mode_reconcile_and_every_run_of_the_reconcile_dag_compare_by_checksums() -> None:
    asked = run_request(dag_run(mode="reconcile", tables=["shop.orders"], accept_deletes=7))
    assert (asked.kind, asked.tables, asked.accepts.deletes) == (RunKind.RECONCILE, ("shop.orders",), 7)
    for written, number, ratio in (("7", 7, 0.0), ("30%", 0, 0.3), ("", 0, 0.0)):
        asked = run_request(dag_run(mode="reconcile", tables=["shop.orders"], accept_deletes=written))
        assert (asked.accepts.deletes, asked.accepts.delete_ratio) == (number, ratio)
    for run_type in (*RUN_TYPES, "backfill"):
        own = DagRunFacts(dag_id="cdc_shop_reconcile", run_id="r", run_type=run_type, conf={}, interval=HOUR, reconcile=True)
        assert (run_request(own).kind, run_request(own).since) == (RunKind.RECONCILE, None)


@pytest.mark.parametrize(
    "wrong",
    [
        {"run_type": "backfill", "mode": "reconcile"},
        {"mode": "increment", "accept_deletes": 7, "tables": ["shop.orders"]},
        {"mode": "reconcile", "accept_deletes": 7},
        {"mode": "reconcile", "accept_deletes": "7 rows", "tables": ["shop.orders"]},
        {"mode": "reconcile", "accept_deletes": True, "tables": ["shop.orders"]},
        {"mode": "reconcile", "accept_deletes": "30%"},
        {"mode": "reconcile", "keys": ["1"]},
    ],
)
def test_a_reconcile_that_cannot_be_meant_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(RequestError):
        run_request(dag_run(**wrong))


def test_the_trigger_form_accepts_another_server_for_an_increment_and_for_nothing_else() -> None:
    assert not run_request(dag_run(tables=["shop.orders"])).accepts.server
    assert run_request(dag_run(tables=["shop.orders"], accept_server=True)).accepts.server
    for mode in ("full", "reconcile"):
        with pytest.raises(RequestError, match="Only an increment"):
            run_request(dag_run(mode=mode, accept_server=True))


@pytest.mark.parametrize("conf", [{}, {"mode": "full"}, {"mode": "reconcile"}])
def test_the_trigger_form_accepts_a_cost_for_one_run(conf: dict[str, Any]) -> None:
    assert not run_request(dag_run(**conf)).accepts.cost
    assert run_request(dag_run(**conf, accept_cost=True)).accepts.cost
    assert run_request(dag_run("backfill", HOUR, accept_cost=True)).accepts.cost
    with pytest.raises(RequestError, match="neither true nor false"):
        run_request(dag_run(**conf, accept_cost="yes"))
