"""The status page inside Airflow's API server: who gets in, what they see, what is not there at all."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.status_case import fill_ledger

ROUTES = ("/cdc/ui", "/cdc/table?pipeline=shop&name=shop.orders", "/cdc/style.css")


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


@pytest.mark.parametrize("route", ROUTES)
def test_nobody_gets_in_without_a_login(client: Any, route: str) -> None:
    assert client.get(route).status_code == 401
    assert client.get(route, headers={"Authorization": "Bearer nonsense"}).status_code in (401, 403)


@pytest.mark.parametrize("role", ["viewer", "user", "op", "admin"])
def test_whoever_may_see_plugins_gets_in(client: Any, allowed: set[str], role: str) -> None:
    allowed.add("cdc_shop")
    for route in ROUTES:
        answer = client.get(route, headers=headers(role))
        assert answer.status_code == 200, answer.text
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


@pytest.mark.parametrize("method", ["post", "put", "patch", "delete"])
@pytest.mark.parametrize("route", ROUTES)
def test_nothing_can_be_changed(client: Any, method: str, route: str) -> None:
    assert getattr(client, method)(route, headers=headers("admin")).status_code == 405


def test_a_visitor_sees_the_pipelines_whose_dag_they_may_read(client: Any, allowed: set[str]) -> None:
    allowed.update({"cdc_shop", "other"})
    page = client.get("/cdc/ui", headers=headers()).text
    assert "shop.orders" in page
    assert "clickstream" not in page
    hidden = client.get("/cdc/table?pipeline=clickstream&name=shop.carts", headers=headers())
    missing = client.get("/cdc/table?pipeline=shop&name=shop.none", headers=headers())
    assert (hidden.status_code, missing.status_code) == (404, 404)
    allowed.clear()
    assert "No table yet" in client.get("/cdc/ui", headers=headers()).text


def test_the_page_stays_closed_where_airflow_has_moved_its_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    from fastapi.testclient import TestClient

    from cdc_ops.airflow.auth import status_page

    monkeypatch.setitem(sys.modules, "airflow.api_fastapi.core_api.security", None)
    client = TestClient(status_page())
    assert [client.get(route.removeprefix("/cdc")).status_code for route in ROUTES] == [403, 403, 403]


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
