"""`cdc-ops init --url`: the entries of a new pipeline file from the tables that the source has."""

import json
import uuid
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from cdc_ops.cli import app
from cdc_ops.config.loading import load_pipeline
from cdc_ops.core.pipeline.connections import ConnectionUrl
from cdc_ops.dev.servers import DatabaseServer, PostgresServer

TABLES = (
    "CREATE TABLE orders (id BIGINT PRIMARY KEY, created_at TIMESTAMP NULL, updated_at TIMESTAMP(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6))",
    "CREATE INDEX moved ON orders (updated_at)",
    "CREATE TABLE customers (country VARCHAR(2), no INT, changed TIMESTAMP(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6),"
    " PRIMARY KEY (country, no))",
    "CREATE TABLE countries (code VARCHAR(2) PRIMARY KEY, created_at TIMESTAMP NULL)",
    "CREATE TABLE visits (at TIMESTAMP NULL, page TEXT)",
)


@pytest.fixture(params=["mariadb", "postgres"])
def server(request: pytest.FixtureRequest) -> DatabaseServer:
    found: DatabaseServer = request.getfixturevalue(request.param)
    return found


@pytest.fixture
def url(server: DatabaseServer) -> ConnectionUrl:
    name = f"init_{uuid.uuid4().hex[:8]}"
    server.create_database(name)
    server.execute(*TABLES, database=name)
    scheme = "postgresql" if isinstance(server, PostgresServer) else "mariadb"
    return ConnectionUrl.from_parts(scheme, server.host, server.port, server.user, server.password, name)


def init(folder: Path, url: str) -> Result:
    result = CliRunner().invoke(app, ["init", str(folder), "--url", url, "--json"])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def test_each_table_has_its_entry_and_what_needs_a_decision_is_a_comment(
    url: ConnectionUrl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    schema = "public" if url.scheme == "postgresql" else url.database
    monkeypatch.setenv("CDC_OPS_CONN_SHOP_DB", url.render())
    made = init(tmp_path / "new", str(url).replace(":***@", "@"))
    assert made.exit_code == 0, made.output
    found = {one["table"].partition(".")[2]: one for one in json.loads(made.stdout)["tables"]}
    assert {name: (one["keys"], one["cursor"], one["entry"]) for name, one in found.items()} == {
        "orders": (["id"], "updated_at", True),
        "customers": (["country", "no"], "changed", True),
        "countries": (["code"], "", True),
        "visits": ([], "", False),
    }
    file = tmp_path / "new/dags/pipelines/shop.yaml"
    lines = [line.partition("   # ")[0].strip() for line in file.read_text().splitlines()]
    assert f"{schema}.orders: {{}}" in lines
    assert f"{schema}.customers: {{cursor: changed}}" in lines
    assert f"{schema}.countries: {{cursor: []}}" in lines
    assert f"# {schema}.visits: {{keys: [...]}}" in lines
    pipeline = load_pipeline(file, {"CDC_OPS_LAKE": "/lake", "CDC_OPS_STAGING": "/staging"})
    assert [rule.pattern for rule in pipeline.tables] == [f"{schema}.{name}" for name in ("countries", "customers", "orders")]
    assert pipeline.source.kind.value == ("postgres" if url.scheme == "postgresql" else "mariadb")
    written = "".join(path.read_text() for path in (tmp_path / "new").rglob("*") if path.is_file())
    assert "PASSWORD@" in written
    own = tmp_path / "new/.env"
    assert "# CDC_OPS_CONN_SHOP_DB was set already when this file was written\n" in own.read_text(), "a variable has it already"
    assert own.stat().st_mode & 0o777 == 0o600
    assert f":{url.password}@" not in written


def test_the_password_that_is_asked_for_is_kept_where_only_its_owner_reads_it_and_the_next_commands_need_no_more(
    url: ConnectionUrl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("CONN_SHOP_DB", "LAKE", "STAGING", "JARS", "LEDGER", "PIPELINES"):  # commands set them by the file
        monkeypatch.setenv(f"CDC_OPS_{name}", "")
        monkeypatch.delenv(f"CDC_OPS_{name}")
    monkeypatch.setenv("CDC_OPS_ENV_FILE", "")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("cdc_ops.cli.commands.setup.init.has_terminal", lambda: True)
    monkeypatch.setattr("typer.prompt", lambda *_, **__: url.password)
    made = CliRunner().invoke(app, ["init", "--url", str(url).replace(":***@", "@")])
    assert made.exit_code == 0, made.output
    assert url.password not in made.output
    assert (tmp_path / ".env").stat().st_mode & 0o777 == 0o600
    assert [path.name for path in tmp_path.rglob("*") if path.is_file() and url.render() in path.read_text()] == [".env"]
    kept = (tmp_path / ".env").read_text()
    planned = CliRunner().invoke(app, ["plan"])
    assert planned.exit_code == 0, planned.output
    monkeypatch.setenv("CDC_OPS_CONN_SHOP_DB", url.render())
    again = init(tmp_path / "two", str(url).replace(":***@", "@"))
    assert again.exit_code == 0, again.output
    assert (tmp_path / ".env").read_text() == kept


def test_a_source_that_refuses_or_has_no_table_leaves_no_file(url: ConnectionUrl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CDC_OPS_CONN_SHOP_DB", raising=False)
    told = init(tmp_path / "new", url.render())
    assert (told.exit_code, "has a password" in told.output, url.password in told.output) == (2, True, False)
    monkeypatch.setenv("CDC_OPS_CONN_SHOP_DB", "mysql://of-another@127.0.0.1/x")
    refused = init(tmp_path / "new", str(url).replace(":***@", "@"))
    assert refused.exit_code == 3, "nobody is there to be asked for the password"
    assert init(tmp_path / "new", f"{url.scheme}://{url.host}:{url.port}").exit_code == 2
    assert not (tmp_path / "new").exists()
