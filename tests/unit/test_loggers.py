"""The loggers of cdc-ops: those that the documentation names are those that the source has, and nothing is shown unless somebody asks."""

import io
import logging
import re
import subprocess
import sys
from collections import defaultdict
from contextlib import suppress
from pathlib import Path

import pytest

from cdc_ops.steps.reporting.log_output import shown_by

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "monitor.md").read_text("utf-8")
LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR")


def documented() -> dict[str, set[str]]:
    """The levels of each logger in the table of the page."""
    rows = re.findall(r"^\| `(cdc_ops\.\w+)` \| .* \| ([A-Z, ]+) \|$", PAGE, re.MULTILINE)
    return {name: set(levels.split(", ")) for name, levels in rows}


def used() -> dict[str, set[str]]:
    """The levels at which each logger is used in the source."""
    found = defaultdict[str, set[str]](set)
    for path in (ROOT / "cdc_ops").rglob("*.py"):
        text = path.read_text("utf-8")
        for name in re.findall(r'^(?:_?log|logger) = logging\.getLogger\("(cdc_ops[.\w]*)"\)$', text, re.MULTILINE):
            found[name] |= {level.upper() for level in re.findall(r"\b(?:_?log|logger)\.(debug|info|warning|error)\(", text)}
            if "logger.log(" in text:
                found[name] |= set(re.findall(rf"\blogging\.({'|'.join(LEVELS)})\b", text))
    return dict(found)


def test_each_logger_of_the_source_is_documented_with_its_levels_and_each_documented_one_exists() -> None:
    assert len(used()) > 5
    assert documented() == used()


def test_no_module_names_its_logger_by_chance() -> None:
    assert [path for path in (ROOT / "cdc_ops").rglob("*.py") if "getLogger(__name__)" in path.read_text("utf-8")] == [
        ROOT / "cdc_ops" / "__init__.py"
    ]


def test_importing_cdc_ops_configures_no_logging_and_unheard_warnings_show_nothing() -> None:
    script = """
import logging
import cdc_ops, cdc_ops.cli, cdc_ops.cli.output.moving_lines, cdc_ops.jobs, cdc_ops.steps.runs.run
logger = logging.getLogger("cdc_ops")
assert not logging.getLogger().handlers, logging.getLogger().handlers
assert [type(one) for one in logger.handlers] == [logging.NullHandler]
assert (logger.level, logger.propagate) == (logging.NOTSET, True)
logging.getLogger("cdc_ops.run").warning("nobody hears it")
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=ROOT, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_library_user_gets_the_lines_by_the_standard_means() -> None:
    script = """
import logging, sys
logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s %(message)s", stream=sys.stdout)
import cdc_ops
from cdc_ops.steps.runs import run
run.logger.warning("lease of shop.orders lost; another run finishes it")
logging.getLogger("cdc_ops.job").debug("shop.orders: reads 1 row")
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout == "WARNING cdc_ops.run lease of shop.orders lost; another run finishes it\n"


@pytest.mark.parametrize("level", [logging.DEBUG, logging.INFO])
def test_an_application_shows_lines_while_it_works_and_leaves_logging_as_it_was(level: int) -> None:
    shown, logger = io.StringIO(), logging.getLogger("cdc_ops")
    before = (logger.level, list(logger.handlers))
    with suppress(ZeroDivisionError), shown_by(logging.StreamHandler(shown), level):
        logging.getLogger("cdc_ops.job").info("shop.orders: 100% read")
        logging.getLogger("cdc_ops.job").debug("shop.orders: reads")
        raise ZeroDivisionError
    logging.getLogger("cdc_ops.job").info("shop.orders: too late")
    assert shown.getvalue() == "shop.orders: 100% read\n" + ("shop.orders: reads\n" if level == logging.DEBUG else "")
    assert (logger.level, list(logger.handlers)) == before
