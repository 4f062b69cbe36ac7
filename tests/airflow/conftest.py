"""Airflow with a folder and a metadata database of its own, made once per session and only if a test needs it."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.browser import Tab, browser, chromium

ROOT = Path(__file__).resolve().parents[2]
HOME = Path(tempfile.mkdtemp(prefix="cdc-ops-airflow-"))

# Airflow reads its settings when it is imported, so they stand here and not in a fixture.
os.environ.update(
    {
        "AIRFLOW_HOME": str(HOME),
        "AIRFLOW__CORE__DAGS_FOLDER": str(HOME / "dags"),
        "AIRFLOW__CORE__PLUGINS_FOLDER": str(HOME / "plugins"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__MIN_SERIALIZED_DAG_UPDATE_INTERVAL": "0",  # tests change the tasks of a DAG within seconds, and run it
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": "reader:viewer",
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{HOME / 'airflow.db'}",
        "AIRFLOW__OPENLINEAGE__DISABLED": "True",  # its listener forks for each event; test_lineage.py has one of its own
        "AIRFLOW__LOGGING__LOGGING_LEVEL": "INFO",
        "AIRFLOW__API_AUTH__JWT_SECRET": "for-tests-only-for-tests-only-for-tests-only-for-tests-only-1234",
    }
)


@pytest.fixture(scope="session", autouse=True)
def home() -> Iterator[Path]:
    """Airflow's folder."""
    (HOME / "dags").mkdir(exist_ok=True)
    (HOME / "plugins").mkdir(exist_ok=True)
    shutil.copy(ROOT / "dags" / "cdc_pipelines.py", HOME / "dags")
    yield HOME
    shutil.rmtree(HOME, ignore_errors=True)


@pytest.fixture(scope="session")
def metadata(home: Path) -> Path:
    """Airflow's metadata database, migrated."""
    from airflow.utils.db import initdb

    initdb()
    return home / "airflow.db"


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tab]:
    """A page of a browser of its own."""
    if chromium() is None and not os.environ.get("CI"):
        pytest.skip("Chromium is not installed; next: apt-get install -y chromium")
    folder = tmp_path_factory.mktemp("browser") / "profile"
    folder.mkdir()
    with browser(folder) as tab:
        yield tab
