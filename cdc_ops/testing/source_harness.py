"""What the conformance suite for sources needs of a server: SQL in its dialect, further connections, sources; outside the data path.

The author of a source writes one `SourceHarness`; `cdc_ops.testing.source_suite` has the tests. The tables of the suite are:

- `numbers`: a key `id` (64 bits), `v` (32 bits, nullable) and `u`, an indexed time without zone with microseconds, never NULL;
- `events`: an auto-increment key `id`, `v` (32 bits) and `at`, a time with microseconds that the server sets at each insert;
- `keyed`: a key of `t` (text with a binary collation), `n` (decimal with two places) and `b` (bytes), and `d` (a date).
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, Protocol

from cdc_ops.core.schema.tables import TableName
from cdc_ops.sources.base import Source

__all__ = ["Application", "SourceHarness", "SuiteStatements"]

PATIENCE_SECONDS: Final = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SuiteStatements:
    """The suite's statements in one SQL dialect; the suite fills in identifiers in braces.

    Args:
        tables: Drop and create `numbers`, `events` and `keyed`.
        types: Declared types of the server and their types in the lake, including the hostile ones.
        not_orderable: A declared type that cannot be a cursor.
        touch: Changes the row `{id}` of `events` and moves its `at`, as an application of this server would.
        shown: An SQL expression that prints the time `{column}` as `YYYY-MM-DD hh:mm:ss.ffffff`, in UTC if it is an instant.
        moment: A literal of the time `{text}` for `u`.
        prepare: Starts a transaction, and prepares it under the name `{name}`; () if the server has no prepared transactions.
        rollback_prepared: Rolls the prepared transaction back.
        readers_hold: Whether a transaction that has only read so far may later write with an old clock, and so holds the bound back.
        quote: The quote character of names.
    """

    tables: tuple[str, ...]
    types: tuple[tuple[str, str], ...]
    not_orderable: str
    touch: str
    shown: str
    moment: str
    prepare: tuple[str, tuple[str, ...]] | tuple[()]
    rollback_prepared: str
    readers_hold: bool
    quote: str

    def name(self, identifier: str) -> str:
        """Returns a name in quotes."""
        return f"{self.quote}{identifier.replace(self.quote, self.quote * 2)}{self.quote}"


class Application(Protocol):
    """Another application's connection to the server; each statement is committed unless a transaction is open."""

    def run(self, *statements: str) -> list[tuple[Any, ...]]:
        """Runs the statements, and returns the rows of the last one."""
        ...

    def is_running(self) -> bool:
        """True while the server executes a statement of this connection; called from another thread."""
        ...

    @property
    def label(self) -> str:
        """Returns the text by which a bound names this connection when it holds the bound back, such as its number."""
        ...

    def close(self) -> None:
        """Closes the connection."""
        ...


class SourceHarness(Protocol):
    """A server with a database for the suite, and the source under test on it."""

    statements: SuiteStatements

    def table(self, name: str) -> TableName:
        """Returns the full name of a table of the suite, with its schema."""
        ...

    def open_source(self, *, password: str = "", port: int = 0) -> Source:
        """Returns the source under test, with the grants to see open transactions; with another password or port if one is given."""
        ...

    def connect(self) -> Application:
        """Returns a new connection of another application."""
        ...

    @property
    def secret(self) -> str:
        """Returns the password with which the source logs in."""
        ...


def wait_until(condition: Callable[[], object], what: str) -> None:
    """Waits until `condition` is true; another thread or the server makes it so.

    Raises:
        AssertionError: the condition was not true within `PATIENCE_SECONDS`.
    """
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"{what}: the wait was in vain")
        time.sleep(0.05)


@contextmanager
def background(action: Callable[[], object]) -> Iterator[None]:
    """Runs a function in a thread during the `with`, and raises its error at the end."""
    errors: list[BaseException] = []

    def run() -> None:
        try:
            action()
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield
    finally:
        thread.join(PATIENCE_SECONDS)
    if errors:
        raise errors[0]
