"""The same commands in this process, for a test that has a Spark session already."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tests.torture.driver import Answer, document_of
from tests.torture.worker import answer, keep

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class InsideDriver:
    """Runs commands where the test runs; nothing can be killed here, so the generator has to leave that fault out."""

    def call(self, arguments: tuple[str, ...], environment: dict[str, str], *, kill_after: float = 0.0) -> Answer:
        assert not kill_after
        found = answer(arguments, environment)
        return Answer(code=found["code"], document=document_of(found["output"]), text=found["output"] + found["errors"])


@contextmanager
def inside(session: "SparkSession") -> Iterator[InsideDriver]:
    """Yields a driver that works in a session, and lets the command line start its own again afterwards."""
    before = keep(session)
    try:
        yield InsideDriver()
    finally:
        before()
