"""What tells a pooler that lends out the sessions of a Postgres from one that keeps a session for each client."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

import pytest

from cdc_ops.errors import SourceError
from cdc_ops.sources.postgres.session import PostgresAddress, PostgresSession


class Client:
    """A client whose statements are run by these sessions of the server, one after the other."""

    def __init__(self, *sessions: int) -> None:
        self._sessions = iter(sessions)

    def exec_driver_sql(self, sql: str) -> "Client":
        return self

    def scalar_one(self) -> int:
        return next(self._sessions)


class Engine:
    """Opens a second client."""

    def __init__(self, second: Client) -> None:
        self._second = second

    @contextmanager
    def connect(self) -> Iterator[Client]:
        yield self._second


@pytest.mark.parametrize(
    ("first", "second", "lends"),
    [
        ((7, 7, 7), (8, 8, 8), False),
        ((7, 7, 7), (7, 7, 7), True),
        ((7, 7, 9), (8, 8, 8), True),
        ((7, 7, 7), (8, 8, 7), True),
    ],
)
def test_a_pooler_that_gives_one_session_to_two_clients_or_two_to_one_is_refused(
    first: tuple[int, ...], second: tuple[int, ...], lends: bool
) -> None:
    session = PostgresSession(PostgresAddress("postgresql://u:p@h:5432/d"))
    session._engine = cast(Any, Engine(Client(*second)))
    if not lends:
        session._check_pooler(cast(Any, Client(*first)), 7)
        return
    with pytest.raises(SourceError, match="lends out the server's sessions"):
        session._check_pooler(cast(Any, Client(*first)), 7)
