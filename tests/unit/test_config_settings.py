"""Settings of a process: from the environment, with defaults."""

import re
from pathlib import Path

import pytest

from cdc_ops.config.settings import VARIABLES, load_settings
from cdc_ops.errors import ConfigError

ROOT = Path(__file__).resolve().parents[2]


def test_without_variables_everything_has_a_default(tmp_path: Path) -> None:
    settings = load_settings({"HOME": str(tmp_path)})
    assert settings.home == tmp_path / ".cdc-ops"
    assert settings.ledger == f"sqlite:///{tmp_path}/.cdc-ops/ledger.db"
    assert settings.pipelines == Path("dags/pipelines")
    assert settings.jars is None


def test_variables_win_over_defaults_and_the_ledger_follows_the_home(tmp_path: Path) -> None:
    settings = load_settings({"CDC_OPS_HOME": str(tmp_path), "CDC_OPS_PIPELINES": "/etc/pipelines", "CDC_OPS_JARS": "/opt/jars"})
    assert settings.ledger == f"sqlite:///{tmp_path}/ledger.db"
    assert (settings.pipelines, settings.jars) == (Path("/etc/pipelines"), Path("/opt/jars"))


def test_an_empty_variable_counts_as_not_set(tmp_path: Path) -> None:
    assert load_settings({"HOME": str(tmp_path), "CDC_OPS_JARS": "", "CDC_OPS_LEDGER": " "}).jars is None


def test_a_ledger_url_is_kept_and_not_shown() -> None:
    settings = load_settings({"CDC_OPS_LEDGER": "postgresql+psycopg://app:hunter2@db/ledger"})
    assert settings.ledger == "postgresql+psycopg://app:hunter2@db/ledger"
    assert "hunter2" not in repr(settings)


def test_a_ledger_url_of_another_kind_is_refused_without_showing_it() -> None:
    with pytest.raises(ConfigError, match="Did you mean 'postgresql'") as caught:
        load_settings({"CDC_OPS_LEDGER": "postgres://app:hunter2@db/ledger"})
    assert "hunter2" not in str(caught.value)


def test_a_folder_cannot_be_a_url() -> None:
    with pytest.raises(ConfigError, match="CDC_OPS_PIPELINES is not a local folder"):
        load_settings({"CDC_OPS_PIPELINES": "s3://bucket/pipelines"})


def test_nothing_is_created(tmp_path: Path) -> None:
    load_settings({"CDC_OPS_HOME": str(tmp_path / "new")})
    assert not (tmp_path / "new").exists()


def test_every_setting_stands_in_the_table_of_variables() -> None:
    names = {variable.name for variable in VARIABLES}
    assert names == {
        "CDC_OPS_HOME",
        "CDC_OPS_LEDGER",
        "CDC_OPS_PIPELINES",
        "CDC_OPS_JARS",
        "CDC_OPS_CLASSES",
        "CDC_OPS_CACHE",
        "CDC_OPS_IVY_SETTINGS",
        "CDC_OPS_LOGS",
        "CDC_OPS_ENV_FILE",
        "CDC_OPS_CONN_<ID>",
    }
    of_users = (file for file in (ROOT / "cdc_ops").rglob("*.py") if file.parent.name not in ("demo", "dev"))
    read = {name for file in of_users for name in re.findall(r"[\"'](CDC_OPS_[A-Z_]+)[\"']", file.read_text("utf-8"))}
    of_pipeline_files = {"CDC_OPS_LAKE", "CDC_OPS_STAGING", "CDC_OPS_ARCHIVE_ENDPOINT"}
    assert read - {"CDC_OPS_CONN_"} - of_pipeline_files <= names
