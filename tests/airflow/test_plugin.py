"""The status page inside Airflow's API server: who gets in, what they see, what is not there at all."""

import os
import re
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.status_case import fill_ledger

ROUTES = (
    "/cdc/ui",
    "/cdc/table?pipeline=shop&name=shop.orders",
    "/cdc/dag?dag_id=cdc_shop",
    "/cdc/run?dag_id=cdc_shop&run_id=none",
    "/cdc/task?pipeline=shop&name=shop.orders&run_id=none",
    "/cdc/metrics",
    "/cdc/style.css",
    "/cdc/page.js",
    "/cdc/forms.js",
    "/cdc/ask?pipeline=shop&name=shop.orders",
    "/cdc/pipeline?name=shop",
)


@pytest.fixture(scope="module")
def client(metadata: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    from airflow import plugins_manager
    from airflow.api_fastapi.app import create_app, purge_cached_app
    from fastapi.testclient import TestClient

    patch = pytest.MonkeyPatch()
    patch.setenv("CDC_OPS_LEDGER", fill_ledger(tmp_path_factory.mktemp("ledger") / "ledger.db"))
    plugins_manager._get_plugins.cache_clear()
    purge_cached_app()
    with TestClient(create_app(apps="core"), raise_server_exceptions=False) as client:
        yield client
    purge_cached_app()
    patch.undo()


@pytest.fixture
def allowed(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """DAGs that visitors may read; the tests put them in."""
    from airflow.api_fastapi.app import get_auth_manager

    dags: set[str] = set()
    monkeypatch.setattr(type(get_auth_manager()), "get_authorized_dag_ids", lambda self, **_: set(dags))
    return dags


def token(role: str) -> str:
    from airflow.api_fastapi.app import get_auth_manager
    from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser

    return str(get_auth_manager().generate_jwt(SimpleAuthManagerUser(username="t", role=role)))


def headers(role: str = "viewer") -> dict[str, str]:
    return {"Authorization": f"Bearer {token(role)}"}


def test_the_routes_that_are_tried_here_are_all_there_are(client: Any) -> None:
    [mounted] = [route.app for route in client.app.routes if getattr(route, "path", "") == "/cdc"]
    assert {f"/cdc{route.path}" for route in mounted.routes} == {route.partition("?")[0] for route in ROUTES}


@pytest.mark.parametrize("route", ROUTES)
def test_nobody_gets_in_without_a_login(client: Any, route: str) -> None:
    assert client.get(route).status_code == 401
    assert client.get(route, headers={"Authorization": "Bearer nonsense"}).status_code in (401, 403)


@pytest.mark.parametrize("role", ["viewer", "user", "op", "admin"])
def test_whoever_may_see_plugins_gets_in(client: Any, allowed: set[str], role: str) -> None:
    allowed.add("cdc_shop")
    for route in ROUTES:
        answer = client.get(route, headers=headers(role), follow_redirects=False)
        assert answer.status_code == (303 if route.startswith("/cdc/task") else 200), answer.text
        assert "frame-ancestors 'self'" in answer.headers["Content-Security-Policy"]


def test_the_cookie_of_airflows_own_page_is_enough_for_its_frame(client: Any, allowed: set[str]) -> None:
    client.cookies.set("_token", token("viewer"))
    try:
        assert client.get("/cdc/ui").status_code == 200
    finally:
        client.cookies.clear()


@pytest.mark.parametrize("route", ["/cdc/docs", "/cdc/redoc", "/cdc/openapi.json", "/cdc/static/x", "/cdc/"])
def test_there_is_nothing_but_the_page(client: Any, route: str) -> None:
    assert client.get(route, headers=headers("admin")).status_code == 404
    assert client.get(route).status_code in (401, 404)


def stored() -> list[str]:
    """All that the ledger has."""
    with closing(sqlite3.connect(os.environ["CDC_OPS_LEDGER"].removeprefix("sqlite:///"))) as ledger:
        return list(ledger.iterdump())


def apps_of_the_plugin() -> dict[str, Any]:
    """Each application that the plugin gives to Airflow's API server, by its prefix."""
    from airflow import plugins_manager

    plugins_manager._get_plugins.cache_clear()
    [plugin] = [plugin for plugin in plugins_manager._get_plugins()[0] if plugin.name == "cdc_ops"]
    assert not plugin.fastapi_root_middlewares
    return {one["url_prefix"]: one["app"] for one in plugin.fastapi_apps}


@pytest.mark.parametrize("role", ["", "viewer", "user", "op", "admin"])
def test_no_visitor_reaches_a_route_that_changes_anything_because_there_is_none(client: Any, allowed: set[str], role: str) -> None:
    allowed.add("cdc_shop")
    who = headers(role) if role else {}
    routes = {f"{prefix}{route.path}": route.methods for prefix, app in apps_of_the_plugin().items() for route in app.routes}
    assert set(routes) == {route.partition("?")[0] for route in ROUTES}
    assert set().union(*routes.values()) <= {"GET", "HEAD"}
    before = stored()
    assert any("shop" in line for line in before)
    seen = {client.get(route, headers=who, follow_redirects=False).status_code for route in ROUTES}
    assert seen == ({200, 303} if role else {401})
    for method in ("POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "MKCOL"):
        answers = {route: client.request(method, route, headers=who, json={}).status_code for route in ROUTES}
        assert set(answers.values()) <= {401, 403, 404, 405}, (method, answers)
    assert stored() == before


def test_a_visitor_sees_the_pipelines_whose_dag_they_may_read(client: Any, allowed: set[str]) -> None:
    allowed.update({"cdc_shop", "other"})
    page = client.get("/cdc/ui", headers=headers()).text
    assert "shop.orders" in page
    assert "clickstream" not in page
    assert "shop.orders" in client.get("/cdc/dag?dag_id=cdc_shop", headers=headers()).text
    for dag in ("other", "cdc_clickstream"):
        assert client.get(f"/cdc/dag?dag_id={dag}", headers=headers()).status_code == 404
    hidden = client.get("/cdc/table?pipeline=clickstream&name=shop.carts", headers=headers())
    missing = client.get("/cdc/table?pipeline=shop&name=shop.none", headers=headers())
    assert (hidden.status_code, missing.status_code) == (404, 404)
    allowed.clear()
    assert "No table yet" in client.get("/cdc/ui", headers=headers()).text


PIPELINE = """
pipeline: {name}
source: {{kind: mariadb, connection: shop_db}}
target: {{root: /lake, staging: /staging}}
defaults: {{cursor: updated_at, deletes: hard}}
{more}
tables: {{shop.orders: {{}}}}
"""


DECLARED = """
pipeline: {name}
source: {{kind: none, tables: {{erp.orders: {{id: bigint primary key}}}}}}
archive: {{url: /archive, format: goldengate-json, settings: {{GETTRUNCATES: "true", GETUPDATEBEFORES: "true"}}}}
target: {{root: /lake, staging: /staging}}
defaults: {{method: log}}
tables: {{erp.orders: {{}}}}
"""
"""Its DAG refuses backfills, as those do that reconcile."""


def known_dags(folder: Path, patch: pytest.MonkeyPatch) -> set[str]:
    """Makes Airflow know the DAGs of `shop`, with one that reconciles, of `clickstream`, and of pipelines that are named as if they did."""
    from airflow.dag_processing.dagbag import DagBag, sync_bag_to_db
    from airflow.models.dagbundle import DagBundleModel
    from airflow.utils.session import create_session

    for name, more in (("shop", 'reconcile_schedule: "0 3 * * *"'), ("clickstream", ""), ("clickstream_reconcile", "")):
        (folder / f"{name}.yaml").write_text(PIPELINE.format(name=name, more=more))
    (folder / "erp_reconcile.yaml").write_text(DECLARED.format(name="erp_reconcile"))
    patch.setenv("CDC_OPS_PIPELINES", str(folder))
    bag = DagBag(dag_folder=os.environ["AIRFLOW__CORE__DAGS_FOLDER"])
    with create_session() as session:
        session.merge(DagBundleModel(name="dags"))
        session.flush()
        sync_bag_to_db(bag, "dags", None, session=session)
    return set(bag.dags)


def test_the_dag_that_reconciles_belongs_to_its_pipeline_and_a_pipeline_of_such_a_name_to_itself(
    client: Any, allowed: set[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from cdc_ops.airflow.auth import _schedules

    dags = known_dags(tmp_path, monkeypatch)
    assert dags == {"cdc_shop", "cdc_shop_reconcile", "cdc_clickstream", "cdc_clickstream_reconcile", "cdc_erp_reconcile"}
    assert {name: info.dag_ids for name, info in _schedules(dags).items()} == {
        "clickstream": ("cdc_clickstream",),
        "clickstream_reconcile": ("cdc_clickstream_reconcile",),
        "erp_reconcile": ("cdc_erp_reconcile",),
        "shop": ("cdc_shop", "cdc_shop_reconcile"),
    }
    allowed.update(dags)
    for dag, shown in (("cdc_shop", True), ("cdc_shop_reconcile", True), ("cdc_clickstream_reconcile", False)):
        page = client.get(f"/cdc/dag?dag_id={dag}", headers=headers()).text
        assert ("shop.orders" in page, "shop.carts" in page) == (shown, False)
    allowed.remove("cdc_shop")
    assert client.get("/cdc/dag?dag_id=cdc_shop_reconcile", headers=headers()).status_code == 404


def test_the_page_stays_closed_where_airflow_has_moved_its_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    from fastapi.testclient import TestClient

    from cdc_ops.airflow.auth import status_page

    monkeypatch.setitem(sys.modules, "airflow.api_fastapi.core_api.security", None)
    client = TestClient(status_page())
    assert [client.get(route.removeprefix("/cdc")).status_code for route in ROUTES] == [403] * len(ROUTES)


def test_a_log_that_cannot_be_found_because_airflow_has_moved_its_models_is_looked_for_on_the_page_of_the_run(
    client: Any, allowed: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    allowed.add("cdc_shop")
    monkeypatch.setitem(sys.modules, "airflow.models.xcom", None)
    answer = client.get("/cdc/task?pipeline=shop&name=shop.orders&run_id=manual__1", headers=headers(), follow_redirects=False)
    assert (answer.status_code, answer.headers["location"]) == (303, "../dags/cdc_shop/runs/manual__1")


def test_airflow_lists_the_plugin_once_also_with_the_copied_file(metadata: Path) -> None:
    from airflow import plugins_manager

    shim = Path(__file__).resolve().parents[2] / "plugins" / "cdc_ops_plugin.py"
    namespace: dict[str, Any] = {}
    exec(compile(shim.read_text(), str(shim), "exec"), namespace)
    assert "CdcOpsPlugin" not in namespace
    plugins_manager._get_plugins.cache_clear()
    plugins, errors = plugins_manager._get_plugins()
    assert [plugin.name for plugin in plugins].count("cdc_ops") == 1
    assert errors == {}


def test_the_page_is_in_the_menu_and_a_tab_on_each_dag_run_and_task(metadata: Path) -> None:
    from airflow import plugins_manager

    plugins_manager._get_plugins.cache_clear()
    plugins_manager._get_ui_plugins.cache_clear()
    views, _ = plugins_manager._get_ui_plugins()
    ours = {view["destination"]: view["href"] for view in views if view["name"] in ("CDC tables", "CDC run")}
    assert set(ours) == {"nav", "dag", "dag_run", "task_instance"}
    assert "{DAG_ID}" in ours["dag"]
    assert ours["task_instance"] == ours["dag_run"]
    assert {"{DAG_ID}", "{RUN_ID}"} <= set(re.findall(r"{\w+}", ours["dag_run"]))


@pytest.mark.parametrize(
    ("dag_id", "tags", "address"),
    [
        ("cdc_shop", ["cdc", "mysql"], "/sub/cdc/run?dag_id=cdc_shop&run_id=manual__1%2B00%3A00"),
        ("cdc_shop_reconcile", ["cdc", "reconcile"], "/sub/cdc/run?dag_id=cdc_shop_reconcile&run_id=manual__1%2B00%3A00"),
        ("cdc-ops-alerts", ["alerts", "cdc"], ""),
        ("cdc_others", ["marketing"], ""),
    ],
)
def test_every_task_of_a_pipeline_has_a_button_to_the_page_of_its_run_from_the_start_and_no_other_task(
    dag_id: str, tags: list[str], address: str, metadata: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from airflow import plugins_manager
    from airflow.models.taskinstancekey import TaskInstanceKey
    from airflow.sdk import DAG, task
    from airflow.serialization.serialized_objects import DagSerialization

    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "https://airflow.example.com/sub/")
    plugins_manager._get_plugins.cache_clear()
    plugins_manager._get_extra_operators_links_plugins.cache_clear()
    with DAG(dag_id=dag_id, schedule=None, tags=tags) as dag:

        @task
        def work(number: int) -> int:
            return number

        work.override(task_id="plain")(0)
        work.override(task_id="mapped").expand(number=[1, 2])
    stored = DagSerialization.from_dict(DagSerialization.to_dict(dag))
    for one in ("plain", "mapped"):  # as the API server asks for them, of tasks that have not begun too
        node: Any = stored.get_task(one)
        key = TaskInstanceKey(dag_id=dag_id, task_id=one, run_id="manual__1+00:00", try_number=0, map_index=0)
        assert "CDC run" in node.extra_links
        assert node.get_extra_links(SimpleNamespace(key=key), "CDC run") == address


LOAD = """
import airflow.sdk.plugins_manager, sys
known = set(sys.modules)
import cdc_ops.airflow.plugin
print("LOADED", *sorted(set(sys.modules) - known))
"""


def test_loading_the_plugin_costs_next_to_nothing() -> None:
    done = subprocess.run([sys.executable, "-c", LOAD], check=True, capture_output=True, text=True)
    loaded = done.stdout.partition("LOADED")[2].splitlines()[0].split()
    assert set(loaded) <= {"cdc_ops", "cdc_ops.airflow", "cdc_ops.airflow.plugin"}
