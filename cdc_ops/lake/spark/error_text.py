"""The whole text of an error of Spark's: what failed often stands some causes deeper than what Spark says."""

import re
from typing import Final

from cdc_ops.errors import EnvironmentSetupError

_TRACEBACK: Final = re.compile(r"Traceback \(most recent call last\):\n(?:[ \t].*\n)*(\S.*)")
_LOST_TASK: Final = re.compile(r"Lost task [^\n]*?\(TID \d+\) \([^)\n]*\): (.*)")
_MOST: Final = 300


def error_text(error: BaseException | None) -> str:
    """Returns an error's text and those of its causes: a failing write has its reason one or two exceptions further down, in the JVM.

    An error of a Spark server has them in its stack trace.
    """
    parts = []
    while error is not None:
        parts.append(f"{error} {getattr(error, '_stackTrace', '')} {getattr(error, '_stacktrace', '') or ''} ")
        error = getattr(error, "_cause", None) or error.__cause__
    return "".join(parts)


def failure_of_task(error: BaseException) -> str:
    """Returns in one line what a task failed with: the end of its traceback, or what Spark says of the task, which stands far behind."""
    text = str(error)
    if found := _TRACEBACK.search(text) or _LOST_TASK.search(text):
        return found[1].strip()[:_MOST]
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return (lines[0] if lines else type(error).__name__)[:_MOST]


def unknown_store(what: str, error: BaseException, *, data: str, then: str = "") -> EnvironmentSetupError | None:
    """Returns the error for a URL that Spark has no file system for, None if an error says something else.

    Args:
        what: What failed, such as "Table shop.orders".
        error: What Spark raised.
        data: What that means for the data.
        then: What is to be done besides, once there is another URL.
    """
    found = re.search(r'No FileSystem for scheme "?(\w+)', error_text(error))
    if found is None:
        return None
    way = "Write s3a:// in its place" if found[1] == "s3" else f"Give Spark the jars for {found[1]}://, or choose another folder"
    return EnvironmentSetupError(f"{what} failed: Spark has no file system for {found[1]}://.", data=data, next=f"{way}{then}.")
