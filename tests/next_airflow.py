"""The tests of Airflow's side on the next Airflow, which is not released yet or not pinned yet.

    python -m tests.next_airflow [arguments of pytest]

An environment of its own, below .local/next-airflow, has the pins of constraints.txt, with `NEXT` in place of those of Airflow's core
and SDK. It is made anew when one of these changes. Without arguments all of tests/airflow is run.
"""

import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
WORK: Final = ROOT / ".local" / "next-airflow"

NEXT: Final = "3.4.0b2"
"""The one place that names the version."""

REPLACED: Final = ("apache-airflow", "apache-airflow-core", "apache-airflow-task-sdk")
"""The pins that give way: these three are released together."""

KNOWN_WARNINGS: Final = (
    # Of Airflow's own code, for a method that SQLAlchemy 2.1 no longer needs.
    "ignore:The Result.tuples() method is deprecated:sqlalchemy.exc.SADeprecationWarning",
)
"""Warnings of the next Airflow alone, which would be errors here; each goes when Airflow has mended it."""


def constraints(pins: str) -> str:
    """Returns the pins with the next Airflow in place of the tested one.

    Raises:
        ValueError: the pins name no Airflow, so that nothing would be replaced.
    """
    lines = pins.splitlines()
    kept = [line for line in lines if line.partition("==")[0] not in REPLACED]
    if len(lines) - len(kept) != len(REPLACED):
        raise ValueError(f"constraints.txt should pin each of {', '.join(REPLACED)} once")
    return "\n".join([*kept, f"apache-airflow=={NEXT}", ""])


def install() -> Path:
    """Makes the environment unless it is as it should be, and returns its Python."""
    wanted = constraints((ROOT / "constraints.txt").read_text("utf-8"))
    python, file, done = WORK / "venv" / "bin" / "python", WORK / "constraints.txt", WORK / "installed.txt"
    state = wanted + (ROOT / "pyproject.toml").read_text("utf-8")
    if done.exists() and done.read_text("utf-8") == state:
        return python
    print(f"\n== installing Airflow {NEXT} into {WORK.relative_to(ROOT)}/venv (some minutes)", flush=True)
    shutil.rmtree(WORK, ignore_errors=True)
    WORK.mkdir(parents=True)
    file.write_text(wanted, "utf-8")
    venv.create(WORK / "venv", with_pip=True)
    pip = [str(python), "-m", "pip", "--disable-pip-version-check"]
    subprocess.run([*pip, "install", "--quiet", "--progress-bar", "off", "-c", str(file), "-e", f"{ROOT}[dev]"], check=True)
    subprocess.run([*pip, "check"], check=True)
    done.write_text(state, "utf-8")
    return python


def main() -> None:
    """Installs, and runs the tests; its exit code is pytest's."""
    python = install()
    warnings = [part for warning in KNOWN_WARNINGS for part in ("-W", warning)]
    tests = sys.argv[1:] or ["tests/airflow"]
    print(f"\n== {' '.join(tests)} on Airflow {NEXT}", flush=True)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("VIRTUAL_ENV")} | {"PYTHONPATH": str(ROOT)}
    raise SystemExit(subprocess.run([python, "-m", "pytest", *warnings, *tests], cwd=ROOT, env=environment, check=False).returncode)


if __name__ == "__main__":
    main()
