"""`cdc-ops check` on real servers: users with all rights and with few, cursors with and without an index, an archive."""

import json
import re
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy
from typer.testing import CliRunner

from cdc_ops.cli import app
from cdc_ops.core.pipeline.connections import ConnectionUrl
from cdc_ops.dev.object_store import ObjectStore
from cdc_ops.dev.servers import DatabaseServer, PostgresServer
from cdc_ops.errors import LakeError
from cdc_ops.lake.file_io import open_filesystem, read_text, write_text
from cdc_ops.lake.spark.probes import probe_folder
from tests.declared_world import MAXWELL
from tests.unit.test_docs import FENCE, ROOT, text_of

PASSWORD = "few-rights-9"
PIPELINE = """
pipeline: shop
source: {{kind: {kind}, connection: shop_db}}
target: {{root: {folder}/lake, staging: {folder}/staging}}
archive: {{url: {folder}/archive, {maxwell}}}
tables:
  {schema}.orders: {{cursor: [updated_at, id]}}
  {schema}.slow: {{cursor: updated_at}}
  {schema}.plain: {{cursor: []}}
  {schema}.of_a_*: {{cursor: []}}
  {schema}.events: {{method: log}}
  {schema}.gone: {{cursor: []}}
"""


@pytest.fixture(params=["mariadb", "mysql", "postgres"])
def server(request: pytest.FixtureRequest) -> DatabaseServer:
    found: DatabaseServer = request.getfixturevalue(request.param)
    return found


@pytest.fixture
def database(server: DatabaseServer) -> str:
    name = f"check_{uuid.uuid4().hex[:8]}"
    server.create_database(name)
    server.execute(
        "CREATE TABLE orders (id BIGINT PRIMARY KEY, updated_at TIMESTAMP(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6))",
        "CREATE INDEX moved ON orders (updated_at, id)",
        "CREATE TABLE slow (id BIGINT PRIMARY KEY, updated_at TIMESTAMP(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6))",
        "CREATE TABLE plain (id BIGINT PRIMARY KEY)",
        "CREATE TABLE of_a_day (day DATE PRIMARY KEY)",
        "CREATE TABLE events (id BIGINT PRIMARY KEY)",
        database=name,
    )
    return name


@pytest.fixture
def check(
    server: DatabaseServer, database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., tuple[int, list[dict[str, Any]]]]:
    postgres = isinstance(server, PostgresServer)
    scheme, schema = ("postgresql", "public") if postgres else ("mysql", database)
    (tmp_path / "archive" / "one").mkdir(parents=True)
    (tmp_path / "archive" / "one" / "a.json").write_text("{}\n")
    (tmp_path / "shop.yaml").write_text(PIPELINE.format(kind=server.name.lower(), folder=tmp_path, schema=schema, maxwell=MAXWELL))
    monkeypatch.setenv("CDC_OPS_PIPELINES", str(tmp_path))
    monkeypatch.setenv("CDC_OPS_LEDGER", f"sqlite:///{tmp_path / 'ledger.db'}")

    def run(user: str = "", password: str = "") -> tuple[int, list[dict[str, Any]]]:
        login = (user or server.user, password or server.password)
        url = ConnectionUrl.from_parts(scheme, server.host, server.port, *login, database).render()
        monkeypatch.setenv("CDC_OPS_CONN_SHOP_DB", url)
        result = CliRunner().invoke(app, ["check", "shop", "--json"])
        assert login[1] not in result.output
        return result.exit_code, json.loads(result.stdout)

    return run


def test_a_probe_on_an_object_store_leaves_no_object_and_makes_no_bucket(
    object_store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", object_store.endpoint)
    folder = f"s3a://{object_store.bucket}/{uuid.uuid4().hex}"
    probe_folder(f"{folder}/lake")
    filesystem, inner = open_filesystem(folder)
    assert filesystem.find(inner) == []
    with pytest.raises(LakeError, match="cannot write to"):
        probe_folder("s3a://misspelled/lake")
    assert "misspelled" not in filesystem.ls("", refresh=True)
    monkeypatch.delenv("AWS_ENDPOINT_URL")
    probe_folder(folder, {"endpoint_url": object_store.endpoint})
    assert filesystem.find(object_store.bucket + folder.rpartition(object_store.bucket)[2]) == []


def test_a_small_file_on_an_object_store_is_written_whole_and_makes_no_bucket(
    object_store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", object_store.endpoint)
    path = f"s3a://{object_store.bucket}/{uuid.uuid4().hex}/new/folder/manifest.json"
    write_text(path, "first")
    write_text(path, "second")
    assert read_text(path) == "second"
    with pytest.raises(FileNotFoundError):
        write_text("s3a://misspelled-too/staging/1/manifest.json", "text")
    filesystem, _ = open_filesystem(path)
    assert "misspelled-too" not in filesystem.ls("", refresh=True)


def findings_of(found: list[dict[str, Any]], what: str, verdict: str) -> list[dict[str, Any]]:
    return [one for one in found if one["what"].rpartition(".")[2] == what and one["verdict"] == verdict]


def test_everything_is_told_at_once_for_a_user_with_all_rights(server: DatabaseServer, check: Callable[..., Any]) -> None:
    code, found = check()
    [source] = findings_of(found, "source", "ok")
    assert server.user in source["seen"]
    assert str(server.port) in source["seen"]
    for what in ("ledger", "open writers", "clock", "target", "staging", "archive"):
        assert findings_of(found, what, "ok"), what
    [indexless] = [one for one in findings_of(found, "slow", "warning") if "No index" in one["seen"]]
    assert indexless["next"].startswith("Create one: CREATE INDEX")
    assert not [one for one in found if one["what"].endswith(".orders") and "No index" in one["seen"]]
    [compared] = findings_of(found, "no cursor", "ok")
    assert ".plain: each run compares the whole table" in compared["seen"]
    [dates] = findings_of(found, "of_a_day", "warning")
    assert "'zero_dates: string' stores such keys as text" in dates["seen"], "what each plan warns of, for tables of a pattern too"
    [gone] = findings_of(found, "gone", "failed")
    assert (gone["error"], code) == ("ConfigError", 2)


def test_a_user_without_grants_gets_the_statements_that_are_missing(
    server: DatabaseServer, database: str, check: Callable[..., Any]
) -> None:
    user = f"few_{uuid.uuid4().hex[:6]}"
    if isinstance(server, PostgresServer):
        server.execute(f"CREATE ROLE {user} LOGIN PASSWORD '{PASSWORD}'", database=database)
        server.execute(f"GRANT SELECT ON orders TO {user}", database=database)
        grant = "pg_read_all_stats"
    else:
        server.execute(f"CREATE USER '{user}'@'%' IDENTIFIED BY '{PASSWORD}'", f"GRANT SELECT ON {database}.orders TO '{user}'@'%'")
        grant = "GRANT PROCESS ON *.*"
    code, found = check(user, PASSWORD)
    [writers] = findings_of(found, "open writers", "warning")
    assert grant in writers["next"]
    for hidden in ("slow", "plain", "events"):
        [refused] = findings_of(found, hidden, "failed")
        assert "SELECT" in refused["next"]
    assert code == 2
    assert not findings_of(found, "orders", "failed")


def test_a_wrong_password_is_one_failure_among_checks_that_go_on(server: DatabaseServer, check: Callable[..., Any]) -> None:
    code, found = check(server.user, "not-the-password")
    [refused] = findings_of(found, "source", "failed")
    assert (code, refused["error"]) == (3, "SourceAccessError")
    assert findings_of(found, "staging", "ok")


def test_the_grants_of_the_page_are_taken_by_the_server_and_enough(
    server: DatabaseServer, database: str, check: Callable[..., tuple[int, list[dict[str, Any]]]]
) -> None:
    own, mariadb, postgres = (body for language, body in FENCE.findall(text_of(ROOT / "docs/install.md")) if language == "sql")
    page = {"MariaDB": own + mariadb, "MySQL": own, "Postgres": postgres}[server.name]
    user = f"page_{uuid.uuid4().hex[:8]}"
    statements = re.sub(r"--.*", "", page).replace("cdc", user).replace("shop.", f"{database}.").replace("'...'", f"'{PASSWORD}'")
    server.execute(*(statement.strip() for statement in statements.split(";") if statement.strip()), database=database)
    _, found = check(user, PASSWORD)
    assert {"source": "ok", "open writers": "ok"}.items() <= {item["what"]: item["verdict"] for item in found}.items()
    if server.name != "Postgres":
        status = "SHOW ALL SLAVES STATUS" if server.name == "MariaDB" else "SHOW REPLICA STATUS"
        login = sqlalchemy.URL.create(server.driver, user, PASSWORD, server.host, server.port, database)
        with sqlalchemy.create_engine(login).connect() as connection:
            assert connection.exec_driver_sql(status).all() == []
