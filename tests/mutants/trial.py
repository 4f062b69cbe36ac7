"""Runs tests in a copy of the repository, unbroken or with one mechanism broken; the checkout is never edited."""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from tests.mutants.table import ROOT, Mechanism
from tests.mutants.watch import REPORT

_NOT_COPIED: Final = (".git", ".local", "__pycache__", ".hypothesis", ".ruff_cache", ".import_linter_cache")
_SHARED: Final = ("jars", "cache", "venv")
_SECONDS_A_TEST: Final = 300
_SECONDS_A_RUN: Final = 1200
_OLDEST: Final = 1_000_000_000

_PROVES_NOTHING: Final = frozenset(
    ("ImportError", "SyntaxError", "NameError", "FixtureLookupError", "EnvironmentSetupError", "MemoryError")
)
"""Errors by which a test fails for the edit's sake, or the machine's, and not because it noticed."""


class Verdict(StrEnum):
    """What came of one mechanism."""

    CAUGHT = "caught"
    NOT_CAUGHT = "NOT CAUGHT"
    NOT_RUN = "not run"
    """Its tests were skipped: this machine has not what they need."""

    BROKEN = "HARNESS"
    """The tests do not pass unbroken, cannot be collected, or the edit is no program."""


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """How one test ended: `passed`, `failed`, `skipped` or `not collected`."""

    test: str
    outcome: str
    kinds: tuple[str, ...]
    said: str

    @property
    def noticed(self) -> bool:
        """True if the test failed by what it is about: not by an edit that is no program, a machine without servers, or the clock."""
        told = self.kinds and not _PROVES_NOTHING.intersection(self.kinds) and not self.said.startswith("Timeout (")
        return self.outcome == "failed" and bool(told)


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What came of one mechanism, and why if it was not caught."""

    mechanism: Mechanism
    verdict: Verdict
    seconds: float
    why: str = ""


class Copy:
    """A copy of the repository, in which the tests of this environment run.

    Args:
        place: A folder that does not exist yet.
    """

    def __init__(self, place: Path) -> None:
        self._place = place
        self._report = place / ".local" / "report.json"
        self._edits = 0
        shutil.copytree(ROOT, place, ignore=shutil.ignore_patterns(*_NOT_COPIED), symlinks=True)
        (place / ".local").mkdir()
        for name in _SHARED:
            if (ROOT / ".local" / name).exists():
                (place / ".local" / name).symlink_to(ROOT / ".local" / name)

        self._forks = subprocess.Popen(
            [sys.executable, "-m", "tests.mutants.forks"],
            cwd=place,
            env={**os.environ, "PYTHONPATH": str(place), REPORT: str(self._report)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def close(self) -> None:
        """Ends the process that runs the tests."""
        self._forks.communicate()

    def run(self, tests: Iterable[str]) -> tuple[list[End], str]:
        """Runs tests as they are; returns how each ended, and the end of pytest's output."""
        self._report.unlink(missing_ok=True)
        arguments = ["-q", "-p", "tests.mutants.watch", "-o", "cache_dir=.local/pytest", "--tb=short"]
        arguments += [f"--timeout={_SECONDS_A_TEST}", "--hypothesis-seed=0", *tests]
        output = self._place / ".local" / "output.txt"
        order = {"arguments": arguments, "output": str(output), "seconds": _SECONDS_A_RUN}
        if self._forks.stdin is None or self._forks.stdout is None:
            raise RuntimeError("the process that runs tests has no pipes")
        self._forks.stdin.write(json.dumps(order) + "\n")
        self._forks.stdin.flush()
        self._forks.stdout.readline()
        said = output.read_text("utf-8", errors="replace")[-3000:] if output.exists() else ""
        if not self._report.exists():
            return [], said
        ends: list[dict[str, Any]] = json.loads(self._report.read_text("utf-8"))
        return [End(**{**end, "kinds": tuple(end["kinds"])}) for end in ends], said

    def run_broken(self, mechanism: Mechanism) -> Result:
        """Breaks one mechanism, runs its tests, and undoes the edit."""
        file, began = self._place / mechanism.file, time.monotonic()
        whole = file.read_text("utf-8")
        try:
            self._write(file, mechanism.broken_text(self._place))
            ends, said = self.run(mechanism.tests)
        except (ValueError, SyntaxError) as error:
            return Result(mechanism=mechanism, verdict=Verdict.BROKEN, seconds=0, why=str(error))
        finally:
            self._write(file, whole)
        verdict, why = judged(ends, said)
        return Result(mechanism=mechanism, verdict=verdict, seconds=time.monotonic() - began, why=why)

    def _write(self, file: Path, text: str) -> None:
        """Writes a module so that no compiled file of another text of it is taken for its own: those go by size and second."""
        file.write_text(text, "utf-8")
        self._edits += 1
        os.utime(file, (_OLDEST + self._edits, _OLDEST + self._edits))


def judged(ends: list[End], said: str = "") -> tuple[Verdict, str]:
    """Says what the ends of a mechanism's tests mean while it is broken."""
    if any(end.noticed for end in ends):
        return Verdict.CAUGHT, ""
    if not ends or any(end.outcome in ("failed", "not collected") for end in ends):
        found = next((end for end in ends if end.outcome in ("failed", "not collected")), None)
        return Verdict.BROKEN, f"{found.test}: {', '.join(found.kinds[:1])} {found.said}" if found else f"no test ran: {said[-600:]}"
    if all(end.outcome == "skipped" for end in ends):
        return Verdict.NOT_RUN, f"skipped: {ends[0].said}"
    return Verdict.NOT_CAUGHT, f"{sum(end.outcome == 'passed' for end in ends)} tests passed"


def unsound(mechanism: Mechanism, ends: Iterable[End], said: str = "") -> str:
    """Returns why a mechanism cannot be tried: its tests do not pass while nothing is broken; "" if they do."""
    known = list(ends)
    for test in mechanism.tests:
        own = [end for end in known if end.test == test or end.test.startswith((f"{test}[", f"{test}::"))]
        if not own:
            return f"{test} did not run: {said[-600:]}"
        for end in own:
            if end.outcome not in ("passed", "skipped"):
                return f"{end.test} fails while nothing is broken: {end.said}"
    return ""
