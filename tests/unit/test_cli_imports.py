"""What a command of `cdc-ops` imports: no more than it needs, because most of the time of a short one goes by with imports."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from cdc_ops.state.sql import open_store

HEAVY = {
    *("airflow", "alembic", "cdc_ops.config.loading", "cdc_ops.steps.plan", "deltalake", "fastavro", "fsspec", "jinja2", "mako", "numpy"),
    *("pandas", "psycopg", "py4j", "pyarrow", "pymysql", "pyspark", "sqlalchemy", "sqlalchemy.dialects.postgresql", "sqlglot", "yaml"),
}
"""Not Pydantic, which typer imports to read the options of most commands."""
SCRIPT = """
import json, sys
from cdc_ops.cli import app
try:
    app(json.loads(sys.argv[1]))
finally:
    print(json.dumps(sorted(sys.modules)), file=sys.stderr)
"""
PIPELINE = """\
pipeline: shop
source: {{kind: mysql, connection: shop_db}}
target: {{root: {folder}/lake, staging: {folder}/staging}}
tables: {{shop.orders: {{cursor: updated_at}}}}
"""


def test_a_job_loads_no_parser_of_sql_before_an_archive_has_a_statement() -> None:
    code = "import sys, cdc_ops.jobs; print(*(name for name in ('pyspark', 'sqlglot', 'pandas', 'airflow') if name in sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["pyspark"]


def imported(folder: Path, *command: str, code: int = 0) -> set[str]:
    """The heavy modules that a command leaves loaded, in a process of its own with an empty ledger."""
    ledger = f"sqlite:///{folder}/ledger.db"
    open_store(ledger).close()
    (folder / "shop.yaml").write_text(PIPELINE.format(folder=folder), "utf-8")
    environ = os.environ | {
        "CDC_OPS_LEDGER": ledger,
        "CDC_OPS_PIPELINES": str(folder),
        "CDC_OPS_CONN_SHOP_DB": "mysql://u:p@127.0.0.1:1/shop",
    }
    done = subprocess.run([sys.executable, "-c", SCRIPT, json.dumps(command)], capture_output=True, text=True, check=False, env=environ)
    assert done.returncode == code, done.stderr
    loaded = set(json.loads(done.stderr.splitlines()[-1]))
    assert "cdc_ops.cli.commands.pipelines" in loaded
    return loaded & HEAVY


@pytest.mark.parametrize("command", [("--help",), ("--version",), ("run", "--help"), ("state", "--help")], ids=" ".join)
def test_help_and_versions_need_no_library_but_that_of_the_command_line(tmp_path: Path, command: tuple[str, ...]) -> None:
    assert imported(tmp_path, *command) == set()


@pytest.mark.parametrize("command", [("status",), ("runs",), ("gap", "list")], ids=" ".join)
def test_what_only_looks_into_the_ledger_loads_its_library_and_nothing_of_pipelines(tmp_path: Path, command: tuple[str, ...]) -> None:
    assert imported(tmp_path, *command) == {"sqlalchemy"}


def test_pipeline_files_are_checked_without_a_database_or_a_file_system(tmp_path: Path) -> None:
    assert imported(tmp_path, "validate") == {"cdc_ops.config.loading", "yaml"}


@pytest.mark.parametrize("command", [("run",), ("plan",), ("reconcile",)], ids=" ".join)
def test_a_run_loads_no_spark_before_it_has_a_plan(tmp_path: Path, command: tuple[str, ...]) -> None:
    """Its source does not answer."""
    planning = {"cdc_ops.config.loading", "cdc_ops.steps.plan", "fsspec", "pymysql", "sqlalchemy", "yaml"}
    assert imported(tmp_path, *command, code=6) == planning
