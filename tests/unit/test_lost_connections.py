"""What an error of a driver means: a server that is away, a statement that was ended, a refusal."""

from unittest.mock import Mock

import psycopg
import pymysql
import pytest
from sqlalchemy import exc

from cdc_ops.errors import CdcError, SourceAccessError, SourceError, SourceInterruptedError, SourceTableError, SourceUnreachableError
from cdc_ops.sources.mysql import session as mysql_session
from cdc_ops.sources.postgres import session as postgres_session

MYSQL = mysql_session.Address("mysql://cdc:pw@db.example:3306/shop")
POSTGRES = postgres_session.PostgresAddress("postgresql://cdc:pw@db.example:5432/shop")


@pytest.mark.parametrize(
    ("codes", "kind"),
    [
        ((2002, 2003, 2006, 2013, 1053, 1077, 1079, 3032, 1047, 1152, 1158, 1159, 1184, 1927, 3169, 4031), SourceUnreachableError),
        ((1040, 1041, 1203), SourceUnreachableError),
        ((1317, 1969, 3024, 1205, 1213, 3797), SourceInterruptedError),
        ((1045, 1142, 1227), SourceAccessError),
        ((1054, 1146), SourceTableError),
        ((1064,), SourceError),
    ],
)
def test_codes_of_mysql_and_mariadb_are_retryable_where_the_server_was_away_or_ended_a_statement(
    codes: tuple[int, ...], kind: type[CdcError]
) -> None:
    for code in codes:
        error = mysql_session.source_error(pymysql.err.OperationalError(code, "the server's words"), MYSQL)
        assert type(error) is kind, code
        assert error.retryable == kind.retryable
        assert "the server's words" in error.why


class _Answer(psycopg.OperationalError):
    """An error as libpq reports it, with the code of the server."""

    def __init__(self, state: str) -> None:
        super().__init__("the server's words")
        self.sqlstate = state


@pytest.mark.parametrize(
    ("states", "kind"),
    [
        (("57P01", "57P02", "57P03", "57P05", "08000", "08003", "08006", "53300", "53200"), SourceUnreachableError),
        (("57014", "40001", "40P01", "55P03"), SourceInterruptedError),
        (("28P01", "42501"), SourceAccessError),
        (("42P01", "3D000"), SourceTableError),
        (("42601",), SourceError),
    ],
)
def test_states_of_postgres_are_retryable_where_the_server_was_away_or_ended_a_statement(
    states: tuple[str, ...], kind: type[CdcError]
) -> None:
    for state in states:
        error = postgres_session.source_error(_Answer(state), POSTGRES)
        assert type(error) is kind, state
        assert error.retryable == kind.retryable


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("consuming input failed: SSL connection has been closed unexpectedly", SourceUnreachableError),
        ("consuming input failed: SSL SYSCALL error: EOF detected", SourceUnreachableError),
        ('connection failed: could not translate host name "ssl.example" to address', SourceUnreachableError),
        ("connection failed: Connection refused", SourceUnreachableError),
        ("connection failed: FATAL: the database system is starting up", SourceUnreachableError),
        ("connection failed: FATAL: sorry, too many clients already", SourceUnreachableError),
        ("connection failed: server does not support SSL, but SSL was required", SourceAccessError),
        ("connection failed: SSL error: certificate verify failed", SourceAccessError),
        ('connection failed: Connection refused; FATAL: password authentication failed for user "cdc"', SourceAccessError),
        ('connection failed: FATAL: database "shop" does not exist', SourceTableError),
    ],
)
def test_texts_of_the_client_library_of_postgres_tell_a_server_that_is_away_from_one_that_refuses(text: str, kind: type[CdcError]) -> None:
    assert type(postgres_session.source_error(psycopg.OperationalError(text), POSTGRES)) is kind


def test_a_server_that_starts_is_not_said_to_take_no_more_connections() -> None:
    error = postgres_session.source_error(psycopg.OperationalError("FATAL: the database system is starting up"), POSTGRES)
    assert "cdc-ops cannot reach" in error.what


@pytest.mark.parametrize(
    "says",
    [exc.ResourceClosedError("This Connection is closed"), exc.OperationalError("ROLLBACK", None, OSError("gone")), OSError("reset")],
)
def test_closing_a_lost_connection_never_fails_whatever_the_driver_says(says: Exception) -> None:
    session = mysql_session.MySQLSession(MYSQL)
    lost = session._connection = Mock()
    lost.close.side_effect = lost.invalidate.side_effect = says
    session.close()
    assert lost.close.called
    assert session._connection is None, "a later question opens another"
