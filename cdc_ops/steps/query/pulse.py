"""Rows that tasks of the native reader have read so far: each task counts into a file, and the driver, on the same machine, looks.

Spark counts no rows that Python reads, and hands on what a task has counted only when it has ended. Nothing but a line of progress depends
on these files: what cannot be written or read is left out.
"""

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import Any, Final

_FOLDER: Final[ContextVar[str]] = ContextVar("pulse", default="")


@contextmanager
def pulses() -> Iterator[Callable[[], int]]:
    """Yields a function that returns the rows read so far by what this thread has Spark read in the block."""
    folder = tempfile.mkdtemp(prefix="cdc-ops-rows-")
    token = _FOLDER.set(folder)
    try:
        yield lambda: _rows(folder)
    finally:
        _FOLDER.reset(token)
        shutil.rmtree(folder, ignore_errors=True)


def pulse_folder() -> str:
    """Returns where tasks of a read that begins now are to count, "" for nowhere."""
    return _FOLDER.get()


def counted(batches: Iterator[Any], folder: str, number: int) -> Iterator[Any]:
    """Hands batches on, and counts their rows.

    Args:
        batches: Arrow batches.
        folder: Where to count, "" for nowhere.
        number: Of the slice; a try of its task begins anew.
    """
    rows = 0
    for batch in batches:
        if folder:
            rows += batch.num_rows
            with suppress(OSError):  # the driver has ended, or is on another machine
                Path(folder, str(number)).write_text(str(rows))
        yield batch


def _rows(folder: str) -> int:
    rows = 0
    with suppress(OSError):
        for file in Path(folder).iterdir():
            with suppress(OSError, ValueError):  # it is being written
                rows += int(file.read_text())
    return rows
