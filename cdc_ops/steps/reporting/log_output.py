"""What the loggers of cdc-ops tell, shown by an application of ours: one handler, for as long as it works."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

ALL: Final = "cdc_ops"
"""The logger above all others of the package."""


@contextmanager
def shown_by(handler: logging.Handler, level: int = logging.INFO) -> Iterator[None]:
    """Gives a handler what is logged while the body of the `with` works.

    Args:
        handler: Shows it.
        level: What is below it is left out: lines that the next one makes obsolete are DEBUG.
    """
    logger = logging.getLogger(ALL)
    before = logger.level
    handler.setLevel(level)
    logger.addHandler(handler)
    logger.setLevel(level)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before)
