"""Logins in files: `<NAME>_FILE` in place of the variable, for the ledger and for connections, in the command line and in Airflow."""

import os
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cdc_ops.airflow.connections import ledger_url, with_airflow_settings
from cdc_ops.cli import app
from cdc_ops.config.connections import connection_text, connection_url
from cdc_ops.config.secret_files import secret_value
from cdc_ops.config.settings import load_settings
from cdc_ops.errors import ConfigError
from tests.status_case import fill_ledger

URL = "mysql://cdc:hidden@db:3306/shop"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "a secret"
    path.write_text(f"{URL}\n")
    return path


def test_a_connection_is_read_from_the_file_that_its_variable_names(file: Path) -> None:
    assert connection_url("shop_db", {"CDC_OPS_CONN_SHOP_DB_FILE": str(file)}) == URL
    assert connection_url("shop_db", {"CDC_OPS_CONN_SHOP_DB": "", "CDC_OPS_CONN_SHOP_DB_FILE": f" {file} "}) == URL
    file.write_text("smtps://me:hidden@mail:465")
    assert connection_text("mail", "smtp://...", {"CDC_OPS_CONN_MAIL_FILE": str(file)}) == "smtps://me:hidden@mail:465"


def test_a_connection_whose_name_ends_in_file_is_no_file_of_another() -> None:
    environ = {"CDC_OPS_CONN_SHOP_FILE": URL}
    assert connection_url("shop_file", environ) == URL
    with pytest.raises(ConfigError, match="CDC_OPS_CONN_SHOP is not set"):
        connection_url("shop", environ)


def test_the_ledger_is_read_from_the_file_that_its_variable_names(file: Path) -> None:
    file.write_text("postgresql://cdc:hidden@db/ledger\n")
    assert load_settings({"CDC_OPS_LEDGER_FILE": str(file)}).ledger == "postgresql://cdc:hidden@db/ledger"
    file.write_text("oracle://cdc:hidden@db/ledger")
    with pytest.raises(ConfigError, match="not the URL of a ledger") as caught:
        load_settings({"CDC_OPS_LEDGER_FILE": str(file)})
    assert "hidden" not in str(caught.value)


def test_a_command_works_on_the_ledger_of_the_file(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file.write_text(fill_ledger(tmp_path / "ledger.db"))
    monkeypatch.delenv("CDC_OPS_LEDGER", raising=False)
    monkeypatch.setenv("CDC_OPS_LEDGER_FILE", str(file))
    shown = CliRunner().invoke(app, ["metrics"])
    assert (shown.exit_code, 'table="shop.orders"' in shown.output) == (0, True), shown.output


@pytest.mark.parametrize(
    ("content", "why"), [(None, "No such file or directory"), (b"", "It is empty"), (b" \n", "It is empty"), (b"\xff", "It is not UTF-8")]
)
def test_a_file_without_a_value_is_an_error_that_names_it(file: Path, content: bytes | None, why: str) -> None:
    file.unlink() if content is None else file.write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        connection_url("shop_db", {"CDC_OPS_CONN_SHOP_DB_FILE": str(file)})
    assert str(file) in str(caught.value)
    assert why in str(caught.value)
    assert caught.value.next


def test_a_value_and_a_file_are_an_error_that_shows_neither(file: Path) -> None:
    with pytest.raises(ConfigError, match="both set") as caught:
        secret_value("CDC_OPS_LEDGER", {"CDC_OPS_LEDGER": "sqlite:////a-place", "CDC_OPS_LEDGER_FILE": str(file)})
    assert not [text for text in ("a-place", "hidden") if text in str(caught.value)]


def test_in_airflow_the_file_goes_over_its_configuration(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file.write_text("sqlite:////of/the/file.db")
    monkeypatch.setenv("AIRFLOW__CDC_OPS__LEDGER", "sqlite:////of/airflow.db")
    clean = {name: value for name, value in os.environ.items() if not name.startswith("CDC_OPS_LEDGER")}
    assert ledger_url(clean) == "sqlite:////of/airflow.db"
    assert ledger_url({**clean, "CDC_OPS_LEDGER_FILE": str(file)}) == "sqlite:////of/the/file.db"
    assert "CDC_OPS_LEDGER" not in with_airflow_settings({"CDC_OPS_LEDGER_FILE": str(file)})
