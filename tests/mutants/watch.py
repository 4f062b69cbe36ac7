"""A pytest plugin: which tests ran, how each ended and by what kind of error, as JSON; and that the package under test is the copy."""

import json
import os
from collections.abc import Generator
from pathlib import Path
from typing import Any, Final

import pytest

import cdc_ops

REPORT: Final = "CDC_OPS_MUTANTS_REPORT"
_ends: list[dict[str, Any]] = []


def pytest_configure(config: pytest.Config) -> None:
    root = config.rootpath.resolve()
    if not Path(cdc_ops.__file__).resolve().is_relative_to(root):
        raise pytest.UsageError(f"the package is {cdc_ops.__file__}, not the copy in {root}")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.when == "call" or report.outcome != "passed":
        error = call.excinfo
        kinds = [cls.__name__ for cls in error.type.__mro__] if error and report.failed else []
        said = str(error.value) if error else ""
        _ends.append({"test": item.nodeid, "outcome": report.outcome, "kinds": kinds, "said": said[:300]})
    return report


def pytest_collectreport(report: pytest.CollectReport) -> None:
    if report.failed:
        _ends.append({"test": report.nodeid, "outcome": "not collected", "kinds": [], "said": str(report.longrepr)[-300:]})


def pytest_sessionfinish() -> None:
    Path(os.environ[REPORT]).write_text(json.dumps(_ends), "utf-8")
