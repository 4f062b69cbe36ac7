"""The open transactions by InnoDB's monitor, for when its table of transactions cannot be read.

MySQL refuses to fill `information_schema.innodb_trx` while a transaction runs a statement with a character of four bytes (error 3854),
whichever columns are asked for. The monitor prints such a text as it is. It does not say which transactions only read, so all count.
"""

import re
from typing import Any, Final

from cdc_ops.sources.sql.session import Row

_TRUNCATED: Final = "\n... truncated...\n"
_HEADER: Final = re.compile(r"^---TRANSACTION (\d+), (?!not started)(.*)$", re.MULTILINE)
_ACTIVE: Final = re.compile(r"ACTIVE (?:\(PREPARED\) )?(\d+) sec\b")
_THREAD: Final = re.compile(r"^MySQL thread id (\d+),", re.MULTILINE)
_CHANGED: Final = re.compile(r"\bundo log entries (\d+)$", re.MULTILINE)


def parse_transactions(status: str, unix_now: float, own: int) -> list[Row] | None:
    """Returns the transactions that the monitor lists, with the names that the table has.

    Args:
        status: What SHOW ENGINE INNODB STATUS has printed.
        unix_now: The server's clock before that.
        own: The connection's own id.

    Returns:
        One row each; None if the list is cut, or has a transaction whose age it does not tell: it is ending at this moment.
    """
    if _TRUNCATED in status or "\nTRANSACTIONS\n" not in status:
        return None
    headers = list(_HEADER.finditer(status))
    rows: list[Row] = []
    for place, header in enumerate(headers):
        age = _ACTIVE.match(header[2])
        if age is None:
            return None
        end = headers[place + 1].start() if place + 1 < len(headers) else len(status)
        row = _row(header[1], unix_now - int(age[1]), status[header.end() : end])
        if row["trx_mysql_thread_id"] != own:
            rows.append(row)
    return rows


def _row(identity: str, started: float, block: str) -> dict[str, Any]:
    # The statement stands behind the line of the thread: its text can pretend nothing about its own transaction.
    thread = _THREAD.search(block)
    changed = _CHANGED.search(block[: thread.start()] if thread else block)
    return {
        "trx_id": int(identity),
        "trx_state": "RUNNING",
        "trx_mysql_thread_id": int(thread[1]) if thread else 0,
        # Whether it only reads is not told: it counts as a writer.
        "trx_rows_modified": int(changed[1]) if changed else 1,
        "trx_query": None,
        "started": started,
    }
