"""The places of events in the logs of their servers, in the order of `FormatSpec.order`. A number that is None makes the event bad."""

import re
from functools import lru_cache
from typing import Final, TypeAlias

from cdc_ops.core.events.change_feed import LANDED_NUMBER
from cdc_ops.events.said import number_in

Position: TypeAlias = tuple[int | None, ...]

_AT_THE_END: Final = re.compile(r"([0-9]+)\Z")
_COMMITTED: Final = re.compile(r'\["?([0-9]+)"?')
_LSN: Final = re.compile(r"([0-9A-Fa-f]{8}):([0-9A-Fa-f]{8}):([0-9A-Fa-f]{4})")
_SCN: Final = re.compile(r"[0-9]{1,20}")


def is_mariadb(connector: str | None, gtid: str | None) -> bool:
    """True for events of MariaDB, also through MySQL's connector: only MySQL's GTIDs have a colon.

    From 11.4 on, all rows of a MariaDB transaction have the binlog position of the transaction's start. The row number starts again with
    each statement. So neither tells which of two rows comes first.
    """
    return connector == "mariadb" or (gtid is not None and ":" not in gtid)


def mysql_position(
    file: str | None, pos: int | None, total: int | None, row: int | None, *, streamed: bool, offset: int | None
) -> Position:
    """Returns the position of an event of MySQL or MariaDB.

    Args:
        file: Name of the binlog file.
        pos: Where the event begins in it.
        total: What orders the events of one place: the number within the transaction.
        row: Number of the row in the event.
        streamed: True if the event was streamed, False if a snapshot read it.
        offset: In Kafka.
    """
    return (
        None if file is None else _file_number(file),
        pos,
        1 if streamed else 0,
        total,
        0 if row is None else row,
        LANDED_NUMBER if offset is None else offset,
    )


@lru_cache(maxsize=1024)
def _file_number(file: str) -> int | None:
    found = _AT_THE_END.search(file)
    return None if found is None else number_in(found[1])


def postgres_position(sequence: str | None, lsn: int | None, total: int | None, *, streamed: bool, offset: int | None) -> Position:
    """Returns the position of an event of Postgres.

    Events before the first commit that the connector sees have no commit LSN. Their own LSN replaces it: it is above all earlier commits,
    and below the commit of its own transaction.

    Args:
        sequence: A JSON array: LSN of the last commit, LSN of the change.
        lsn: LSN of the change.
        total: Number within the transaction, None if the record has none.
        streamed, offset: As for MySQL.
    """
    found = None if sequence is None else _COMMITTED.match(sequence)
    committed = None if found is None else number_in(found[1])
    return (
        lsn if committed is None else committed,
        lsn,
        1 if streamed else 0,
        LANDED_NUMBER if total is None else total,
        LANDED_NUMBER if offset is None else offset,
    )


def sql_server_position(commit: str | None, change: str | None, serial: int | None, *, streamed: bool, offset: int | None) -> Position:
    """Returns the position of an event of SQL Server.

    Args:
        commit: LSN of the commit, as text.
        change: LSN of the change, as text; ignored for rows of a snapshot.
        serial: Number of the event within its change, None if the change has one event.
        streamed, offset: As for MySQL.
    """
    return (
        _lsn(commit),
        1 if streamed else 0,
        _lsn(change) if streamed else LANDED_NUMBER,
        LANDED_NUMBER if serial is None else serial,
        LANDED_NUMBER if offset is None else offset,
    )


def _lsn(text: str | None) -> int | None:
    """Returns the number of a SQL Server LSN: 80 bits, such as `00000027:00000758:0005`."""
    found = None if text is None else _LSN.fullmatch(text)
    return None if found is None else int("".join(found.groups()), 16)


def oracle_position(commit: str | None, scn: str | None, number: int | None, *, streamed: bool, offset: int | None) -> Position:
    """Returns the position of an event of Oracle.

    Args:
        commit: SCN of the commit, as text; None for rows of a snapshot.
        scn: SCN of the change, or the SCN of the snapshot, as text.
        number: Number of the change in its transaction, None if the record has none: then its offset in Kafka is used.
        streamed, offset: As for MySQL.
    """
    counted = offset if number is None else number
    return (
        _scn(scn if commit is None and not streamed else commit),
        1 if streamed else 0,
        counted if streamed else LANDED_NUMBER,
        LANDED_NUMBER if offset is None else offset,
    )


def _scn(text: str | None) -> int | None:
    return int(text) if text is not None and _SCN.fullmatch(text) else None
