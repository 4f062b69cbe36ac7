"""Statements that end at a row: their failure becomes the error that names it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from cdc_ops.errors import CdcError


@contextmanager
def translated_row_errors(*readers: Callable[[str], CdcError | None]) -> Iterator[None]:
    """Turns the failure of a statement into an error of ours.

    Args:
        readers: Each returns the error that the text of a failure stands for, None if it stands for another; the first that knows it wins.

    Raises:
        CdcError: what a reader returned; a failure that none of them knows passes.
    """
    try:
        yield
    except Exception as error:  # of a failing statement, Py4J's own error comes through as well as PySpark's
        text = _full_text(error)
        for reader in readers:
            if (found := reader(text)) is not None:
                raise found from error
        raise


def _full_text(error: BaseException | None) -> str:
    """Returns an error's text and those of its causes: a failing write has its reason one or two exceptions further down, in the JVM.

    An error of a Spark server has them in its stack trace.
    """
    parts = []
    while error is not None:
        parts.append(f"{error} {getattr(error, '_stackTrace', '')} {getattr(error, '_stacktrace', '') or ''} ")
        error = getattr(error, "_cause", None) or error.__cause__
    return "".join(parts)
