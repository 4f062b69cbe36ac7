"""The wheel and the source distribution: what the package reads at run time is in both. `make wheel-check` runs them."""

import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BROUGHT = {"spark_jobs": "cdc_ops/spark_jobs", "dags": "cdc_ops/demo/dags", "docs": "cdc_ops/docs"}
"""Folders of the repository, and where the wheel has them."""


def build(project: Path, target: Path, kind: str) -> Path:
    command = [sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", str(target)]
    subprocess.run(command, cwd=project, check=True, capture_output=True)
    [made] = target.iterdir()
    return made


def files_of(folder: Path) -> Iterator[Path]:
    return (path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts)


def contents(wheel: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel) as file:
        return {name: file.read(name) for name in file.namelist()}


@dataclass(frozen=True)
class Built:
    wheel: Path
    unpacked: Path
    """The wheel's files, as in site-packages."""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    folder = tmp_path_factory.mktemp("built")
    wheel = build(ROOT, folder / "wheel", "wheel")
    with zipfile.ZipFile(wheel) as file:
        file.extractall(folder / "site-packages")
    return Built(wheel, folder / "site-packages")


def test_the_wheel_has_every_file_of_the_package_and_of_what_it_hands_to_spark_and_airflow(built: Built) -> None:
    expected = {path.relative_to(ROOT).as_posix() for path in files_of(ROOT / "cdc_ops")}
    for folder, place in BROUGHT.items():
        expected |= {f"{place}/{path.relative_to(ROOT / folder).as_posix()}" for path in files_of(ROOT / folder)}
    in_wheel = {name for name in contents(built.wheel) if name.startswith("cdc_ops/")}
    assert in_wheel == expected
    some = {"web/style.css", "web/page.js", "web/templates/base.html", "lake/data_files/DeletedRows.java", "py.typed"}
    some |= {"spark_jobs/sync.py", "demo/dags/pipelines/shop.yaml", "docs/quickstart.md"}
    assert {f"cdc_ops/{name}" for name in some} <= in_wheel
    assert any(name.startswith("cdc_ops/state/migrations/versions/v0001") for name in in_wheel)


def test_the_source_distribution_builds_the_same_wheel(built: Built, tmp_path: Path) -> None:
    with tarfile.open(build(ROOT, tmp_path / "sdist", "sdist")) as file:
        file.extractall(tmp_path / "unpacked", filter="data")
    [project] = (tmp_path / "unpacked").iterdir()
    again = contents(build(project, tmp_path / "wheel", "wheel"))
    first = contents(built.wheel)
    assert len(first) > 600
    assert {name for name in {*again, *first} if again.get(name) != first.get(name)} == set()


PROBE = """
import sys
sys.path.insert(0, sys.argv[1])
import cdc_ops
from cdc_ops.airflow.spark.submit import application
from cdc_ops.cli.commands.docs import docs_folder
from cdc_ops.config.loading import load_pipelines
from cdc_ops.core.operation.job import Step
from cdc_ops.demo.layout import ARCHIVE_PIPELINE, Layout
from cdc_ops.web.pages import Pages
import os
layout = Layout.default()
os.environ.update(layout.settings(), CDC_OPS_ARCHIVE_ENDPOINT="http://127.0.0.1:1")
names = [one.name for pipeline in (layout, Layout.default(ARCHIVE_PIPELINE)) for one in load_pipelines(pipeline.shipped_pipelines)]
print(cdc_ops.__file__, application(Step.SYNC), layout.dags, layout.root, layout.cache, layout.command, docs_folder(), *names, sep="\\n")
"""


def test_an_installed_package_finds_its_own_files_and_works_in_the_users_folder(built: Built, tmp_path: Path) -> None:
    environment = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin", "AIRFLOW_HOME": str(tmp_path / "airflow")}
    done = subprocess.run(
        [sys.executable, "-c", PROBE, str(built.unpacked)], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    package, home = built.unpacked / "cdc_ops", tmp_path / ".cdc-ops"
    assert done.stdout.splitlines()[-10:] == [
        str(package / "__init__.py"),
        str(package / "spark_jobs" / "sync.py"),
        str(package / "demo" / "dags"),
        str(home / "demo"),
        str(home / "cache"),
        "python -m cdc_ops.demo ",
        str(package / "docs"),
        "shop",
        "shop_binlogs",
        "shop_events",
    ]
