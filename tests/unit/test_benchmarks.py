"""Benchmarks are run by hand, so nothing else notices when what they use has moved."""

import importlib
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.mark.parametrize("name", sorted(path.stem for path in FOLDER.glob("[a-z]*.py")))
def test_every_benchmark_finds_what_it_uses(name: str) -> None:
    assert importlib.import_module(f"benchmarks.{name}").__doc__
