"""A folder that a reader can hold in the head has few modules: those that are one thought are a folder of their own."""

from collections import Counter
from pathlib import Path
from typing import Final

MOST: Final = 12
LARGE: Final = {
    "cdc_ops/airflow": 23,  # Airflow keeps the paths of its classes in its database; each module is one thing that Airflow loads or shows
    "cdc_ops/cli/commands": 20,  # a module a command
    "cdc_ops/steps": 16,  # a module a verb
}
"""Folders that have more, with how many and why: nothing may grow, and what shrinks leaves this list."""


def test_no_folder_has_more_modules_than_a_reader_can_hold() -> None:
    paths = [path for path in Path("cdc_ops").rglob("*.py") if path.name != "__init__.py"]
    sizes = Counter(path.parent.as_posix() for path in paths)
    assert len(sizes) > 50
    assert {folder: count for folder, count in sizes.items() if count > MOST} == LARGE
