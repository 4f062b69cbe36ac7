"""The whole text of an error of Spark's: what failed often stands some causes deeper than what Spark says."""

import re

from cdc_ops.errors import EnvironmentSetupError


def error_text(error: BaseException | None) -> str:
    """Returns an error's text and those of its causes: a failing write has its reason one or two exceptions further down, in the JVM.

    An error of a Spark server has them in its stack trace.
    """
    parts = []
    while error is not None:
        parts.append(f"{error} {getattr(error, '_stackTrace', '')} {getattr(error, '_stacktrace', '') or ''} ")
        error = getattr(error, "_cause", None) or error.__cause__
    return "".join(parts)


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
