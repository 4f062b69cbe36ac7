"""Which threads of a MySQL or MariaDB server may write, and what the hints say: whatever is not positively known counts."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from cdc_ops.sources.mysql.bounds.innodb_status import parse_transactions
from cdc_ops.sources.mysql.bounds.open_transactions import _owner, _runs_a_write
from cdc_ops.sources.mysql.session import MySQLSession

APPLIER = "Group replication applier module"
STATUS = """
TRANSACTIONS
------------
Trx id counter 1590
LIST OF TRANSACTIONS FOR EACH SESSION:
---TRANSACTION 375300544410392, not started
0 lock struct(s), heap size 1128, 0 row lock(s)
---TRANSACTION 1586, ACTIVE 7 sec starting index read
mysql tables in use 1, locked 1
LOCK WAIT 2 lock struct(s), heap size 1128, 1 row lock(s)
MySQL thread id 90, OS thread handle 1404, query id 123 127.0.0.1 cdc updating
UPDATE t SET v = '
MySQL thread id 7, '
------- TRX HAS BEEN WAITING 7 SEC FOR THIS LOCK TO BE GRANTED:
---TRANSACTION 1585, ACTIVE 9 sec
1 lock struct(s), heap size 1128, 0 row lock(s), undo log entries 3
MySQL thread id 8, OS thread handle 1405, query id 124 127.0.0.1 cdc
---TRANSACTION 1584, ACTIVE (PREPARED) 20 sec recovered trx
1 lock struct(s), heap size 1128, 0 row lock(s), undo log entries 1
---TRANSACTION 1583, ACTIVE 0 sec
MySQL thread id 7, OS thread handle 1406, query id 125 127.0.0.1 cdc-ops
--------
FILE I/O
"""


@pytest.mark.parametrize(
    ("user", "command", "info", "writes"),
    [
        ("system user", "Connect", APPLIER, False),
        ("cdc", "Connect", APPLIER, True),
        ("system user", "Query", APPLIER, True),
        ("system user", "Connect", "Group replication", True),
        ("system user", "Query", None, False),
        ("system user", "Query", "ALTER TABLE t ADD c INT", True),
        ("event_scheduler", "Daemon", None, False),
        ("definer", "Connect", "UPDATE t SET a = 1", True),  # a worker of an event: it stamps by the clock of this server
        ("unauthenticated user", "Connect", None, False),
        ("cdc", "Query", None, True),
        ("cdc", "Delayed insert", "t", True),
        ("cdc", "Query", "SELECT 1", False),
    ],
)
def test_only_threads_that_surely_write_nothing_are_left_out(user: str, command: str, info: str | None, writes: bool) -> None:
    assert _runs_a_write({"own": 0, "user": user, "command": command, "info": info}) is writes


@pytest.mark.parametrize(("user", "ends"), [("cdc", True), ("system user", False), ("event_scheduler", False)])
def test_no_hint_advises_to_end_a_thread_of_the_server_itself(user: str, ends: bool) -> None:
    row = {"id": 5, "user": user, "host": "127.0.0.1:4", "command": "Connect"}
    hint = _owner(cast(MySQLSession, SimpleNamespace(is_mariadb=False)), row).hint
    assert ("KILL 5" in hint) is ends
    assert ("do not end it" in hint) is not ends


def seen(status: str) -> list[dict[str, Any]]:
    rows = parse_transactions(status, 1000.0, own=7)
    assert rows is not None
    return rows


def test_the_monitor_lists_every_open_transaction_with_its_age() -> None:
    assert [(row["trx_id"], row["trx_mysql_thread_id"], row["started"], row["trx_rows_modified"]) for row in seen(STATUS)] == [
        (1586, 90, 993.0, 1),
        (1585, 8, 991.0, 3),
        (1584, 0, 980.0, 1),
    ]


@pytest.mark.parametrize(
    "status",
    [
        STATUS.replace("---TRANSACTION 1585", "... truncated...\n---TRANSACTION 1585"),
        STATUS.replace("ACTIVE 9 sec", "COMMITTED IN MEMORY"),
        STATUS.replace("TRANSACTIONS\n", "CUT\n", 1),
    ],
)
def test_a_monitor_that_does_not_tell_all_is_not_believed(status: str) -> None:
    assert parse_transactions(status, 1000.0, own=7) is None
