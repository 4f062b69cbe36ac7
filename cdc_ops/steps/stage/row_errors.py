"""Statements that end at a row: their failure becomes the error that names it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from cdc_ops.errors import CdcError
from cdc_ops.lake.spark.error_text import error_text


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
        text = error_text(error)
        for reader in readers:
            if (found := reader(text)) is not None:
                raise found from error
        raise
