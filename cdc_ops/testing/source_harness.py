"""What the conformance suite for sources needs of a server: statements in its dialect, second connections, sources; outside the data path.

The author of a source writes one `SourceHarness`; `cdc_ops.testing.source_suite` has the tests. The tables of the suite are:

- `numbers`: a key `id` (64 bits), `v` (32 bits, nullable) and `u`, an indexed time without zone with microseconds, never NULL;
- `events`: a key `id` that counts by itself, `v` (32 bits) and `at`, a time with microseconds that the server sets at each insert;
- `keyed`: a key of `t` (text that tells all texts apart), `n` (decimal with two places) and `b` (bytes), and `d` (a date).
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, Protocol

from cdc_ops.core.schema.tables import TableName
from cdc_ops.sources.base import Source

PATIENCE_SECONDS: Final = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SuiteStatements:
    """The suite's statements in one dialect; identifiers in braces are filled in by the suite.

    Args:
        tables: Create `numbers`, `events` and `keyed` anew, whatever is there.
        types: Declared type and the type in the lake of columns that the server can have, the hostile ones included.
        not_orderable: A declared type that is no cursor.
        touch: Changes the row `{id}` of `events` and moves its `at`, as an application of this server would.
        shown: An expression that prints the time `{column}` as `YYYY-MM-DD hh:mm:ss.ffffff`, in UTC if it is an instant.
        moment: A literal of the time `{text}` for `u`.
        prepare: Starts a transaction, and prepares it under the name `{name}`; () where the server cannot.
        rollback_prepared: Ends what was prepared.
        readers_hold: Whether a transaction that has only read so far may later write with its old clock, and so holds the bound.
        quote: What stands around a name.
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
        """Quotes a name."""
        return f"{self.quote}{identifier.replace(self.quote, self.quote * 2)}{self.quote}"


class Application(Protocol):
    """A connection of somebody else to the server, each statement committed unless a transaction is open."""

    def run(self, *statements: str) -> list[tuple[Any, ...]]:
        """Runs the statements, returns the rows of the last."""
        ...

    def is_running(self) -> bool:
        """True while the server executes a statement of this connection; asked from another thread."""
        ...

    @property
    def label(self) -> str:
        """What a bound that this connection holds back says of it, its number, say."""
        ...

    def close(self) -> None:
        """Closes the connection."""
        ...


class SourceHarness(Protocol):
    """A server with a database of the suite's own, and the source under test on it."""

    statements: SuiteStatements

    def table(self, name: str) -> TableName:
        """Returns the full name of a table of the suite."""
        ...

    def open_source(self, *, password: str = "", port: int = 0) -> Source:
        """Opens the source under test, which may see open transactions; with a wrong password or port if one is given."""
        ...

    def connect(self) -> Application:
        """Opens another application's connection."""
        ...

    @property
    def secret(self) -> str:
        """The password with which the source logs in."""
        ...


def wait_until(condition: Callable[[], object], what: str) -> None:
    """Waits for something that another thread or the server does.

    Raises:
        AssertionError: It did not come true within `PATIENCE_SECONDS`.
    """
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"{what}: the wait was in vain")
        time.sleep(0.05)


@contextmanager
def background(action: Callable[[], object]) -> Iterator[None]:
    """Runs something that waits for the body of the `with`; its error is raised at the end."""
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
