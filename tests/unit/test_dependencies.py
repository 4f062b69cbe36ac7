"""What the package imports is declared in pyproject.toml, so that no other package decides whether it is there."""

import ast
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

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


@pytest.mark.parametrize(("for_developers", "extras", "expected"), [(False, ("s3",), "croniter"), (True, ("s3", "demo", "dev"), "httpx")])
def test_every_import_of_another_package_is_declared(for_developers: bool, extras: tuple[str, ...], expected: str) -> None:
    paths = [path for folder in ("cdc_ops", "spark_jobs", "dags", "plugins") for path in (ROOT / folder).rglob("*.py")]
    names = {name for path in paths if is_for_developers(path) is for_developers for name in imported(path)}
    names -= OURS | set(sys.stdlib_module_names)
    assert expected in names
    providers, known = packages_distributions(), declared(*extras)
    assert {name for name in names if not known & {canonicalize_name(found) for found in providers[name]}} == set()
