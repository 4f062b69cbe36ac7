"""What the package imports is declared in pyproject.toml, so that no other package decides whether it is there; extras bring the rest."""

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from cdc_ops.archives.registry import open_archive
from cdc_ops.core.pipeline.extras import EXTRAS, install_command, missing_package
from cdc_ops.errors import EnvironmentSetupError
from cdc_ops.lake.file_io import open_filesystem
from cdc_ops.lake.spark.probes import probe_folder
from tests.next_airflow import NEXT, REPLACED, constraints

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
OURS = {"cdc_ops", "tests", "spark_jobs"}
FOR_DEVELOPERS = {"dev", "demo", "testing"}
"""Parts of the package that run where the extra `dev` is installed."""


def imported(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module.partition(".")[0]


def declared(*extras: str) -> set[str]:
    texts = [*PROJECT["dependencies"], *(text for extra in extras for text in PROJECT["optional-dependencies"][extra])]
    return {canonicalize_name(Requirement(text).name) for text in texts}


def is_for_developers(path: Path) -> bool:
    return path.is_relative_to(ROOT / "cdc_ops") and path.relative_to(ROOT / "cdc_ops").parts[0] in FOR_DEVELOPERS


@pytest.mark.parametrize(
    ("for_developers", "extras", "expected"), [(False, ("s3", "lineage"), "croniter"), (True, ("s3", "demo", "dev"), "httpx")]
)
def test_every_import_of_another_package_is_declared(for_developers: bool, extras: tuple[str, ...], expected: str) -> None:
    paths = [path for folder in ("cdc_ops", "spark_jobs", "dags", "plugins") for path in (ROOT / folder).rglob("*.py")]
    names = {name for path in paths if is_for_developers(path) is for_developers for name in imported(path)}
    names -= OURS | set(sys.stdlib_module_names)
    assert expected in names
    providers, known = packages_distributions(), declared(*extras)
    assert {name for name in names if not known & {canonicalize_name(found) for found in providers[name]}} == set()


@pytest.mark.parametrize(
    ("package", "url", "extra"), [("ossfs", "oss://b/x", "oss"), ("gcsfs", "gs://b/x", "gcs"), ("adlfs", "abfs://b/x", "azure")]
)
def test_a_package_of_a_store_that_is_missing_is_an_error_that_names_the_extra(
    monkeypatch: pytest.MonkeyPatch, package: str, url: str, extra: str
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    for use in (open_archive, open_filesystem, probe_folder):
        with pytest.raises(EnvironmentSetupError) as raised:
            use(url)
        assert raised.value.next == install_command(extra)
    names = [Requirement(text).name for text in PROJECT["optional-dependencies"][extra]]
    assert names == [package]


def test_s3_in_both_spellings_names_its_extra_too() -> None:
    assert {missing_package(f"{scheme}://b/x", "").next for scheme in ("s3", "s3a")} == {install_command("s3")}


def test_extras_that_messages_and_pages_name_exist() -> None:
    pages = [*(ROOT / "docs").rglob("*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "cdc_ops").rglob("*.py")]
    texts = [path.read_text() for path in pages]
    named = {name for text in texts for found in re.findall(r"(?:cdc-ops|'\.)\[([a-z0-9,]+)\]", text) for name in found.split(",")}
    named |= set(EXTRAS) | set(re.findall(r'install_command\("(\w+)"\)', "".join(texts)))
    assert {"s3", "demo", "kubernetes"} <= named
    assert named - set(PROJECT["optional-dependencies"]) == set()


def test_what_developers_install_has_all_that_tests_and_demo_need() -> None:
    extras = PROJECT["optional-dependencies"]
    assert "cdc-ops[s3]" in extras["demo"]
    assert "cdc-ops[demo,lineage,statsd]" in extras["dev"]


def test_the_next_airflow_is_newer_than_the_pinned_one_and_takes_the_place_of_its_pins_alone() -> None:
    pins = (ROOT / "constraints.txt").read_text()
    [pinned] = re.findall(r"^apache-airflow==(\S+)$", pins, re.MULTILINE)
    assert Version(NEXT) > Version(pinned)
    ours, theirs = set(constraints(pins).splitlines()), set(pins.splitlines())
    assert ours - theirs == {f"apache-airflow=={NEXT}"}
    assert theirs - ours == {line for line in theirs if line.partition("==")[0] in REPLACED}
    with pytest.raises(ValueError, match="should pin"):
        constraints("apache-airflow==1.0")
    files = [ROOT / "Makefile", *(path for folder in ("tests", "cdc_ops") for path in (ROOT / folder).rglob("*.py"))]
    assert [path.name for path in files if NEXT in path.read_text()] == ["next_airflow.py"]
