"""Which statements of a binlog frame transactions, define tables, or change rows without saying which. Pure.

Known statements are listed; one that is not in the list counts as a change that cannot be followed, because a statement that is passed over
may be thousands of rows.
"""

import enum
import re
from typing import Final


class StatementKind(enum.StrEnum):
    """What a statement of a binlog stands for."""

    BEGIN = "begin"
    COMMIT = "commit"
    ROLLBACK = "rollback"
    ROLLBACK_TO = "rollback to a savepoint"
    SAVEPOINT = "savepoint"
    XA_START = "xa start"
    XA_END = "xa end"
    XA_COMMIT = "xa commit"
    XA_ROLLBACK = "xa rollback"
    DEFINITION = "definition"
    """It defines tables, users or settings, or empties a table."""
    CHANGE = "change"
    """It changes rows, or nobody knows."""


_PLAIN_COMMENT: Final = re.compile(r"/\*(?!M?!).*?\*/|(?:^|(?<=\n))\s*(?:#|--\s)[^\n]*", re.DOTALL)
_EXECUTED_COMMENT: Final = re.compile(r"/\*M?!\d*(.*?)\*/", re.DOTALL)
_SET_STATEMENT: Final = re.compile(r"SET\s+STATEMENT\b.*?\bFOR\b", re.IGNORECASE | re.DOTALL)
_QUOTED: Final = re.compile(r"'(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.|\"\")*\"|`(?:[^`]|``)*`", re.DOTALL)
_FRAMES: Final = (
    (re.compile(r"BEGIN\b"), StatementKind.BEGIN),
    (re.compile(r"COMMIT\b"), StatementKind.COMMIT),
    (re.compile(r"ROLLBACK\s+(?:WORK\s+)?TO\b"), StatementKind.ROLLBACK_TO),
    (re.compile(r"ROLLBACK\b"), StatementKind.ROLLBACK),
    (re.compile(r"SAVEPOINT\b"), StatementKind.SAVEPOINT),
    (re.compile(r"XA\s+(?:START|BEGIN)\b"), StatementKind.XA_START),
    (re.compile(r"XA\s+END\b"), StatementKind.XA_END),
    (re.compile(r"XA\s+COMMIT\b"), StatementKind.XA_COMMIT),
    (re.compile(r"XA\s+ROLLBACK\b"), StatementKind.XA_ROLLBACK),
)
_DEFINES: Final = re.compile(
    r"(?:CREATE|ALTER|DROP|TRUNCATE|RENAME|GRANT|REVOKE|SET|ANALYZE|OPTIMIZE|REPAIR|CHECK|FLUSH|INSTALL|UNINSTALL|LOCK|UNLOCK|USE)\b"
)
_FILLS: Final = re.compile(r"CREATE\s+(?:OR\s+REPLACE\s+)?(?:TEMPORARY\s+)?TABLE\b.*?\b(?:SELECT|VALUES\s+ROW|TABLE)\b", re.DOTALL)
_MOVES_PARTITIONS: Final = re.compile(
    r"ALTER\s.*?\b(?:(?:DROP|TRUNCATE|EXCHANGE|CONVERT|DISCARD|IMPORT)\s+(?:TABLE\s+)?PARTITION|(?:DISCARD|IMPORT)\s+TABLESPACE|CONVERT\s+TABLE)\b",
    re.DOTALL,
)
_VERSIONS: Final = re.compile(r"ALTER\s.*?\b(?:ADD|DROP)\s+SYSTEM\s+VERSIONING\b", re.DOTALL)
"""Rows of MariaDB's binlogs mean something else from then on."""
_XID: Final = re.compile(r"X'([0-9A-F]*)'\s*,\s*X'([0-9A-F]*)'\s*,\s*(\d+)", re.IGNORECASE)


def kind_of(sql: str) -> StatementKind:
    """Returns what a statement stands for.

    >>> str(kind_of("/* job 7 */ insert into t values (1)"))
    'change'
    >>> str(kind_of("CREATE TABLE t (a INT COMMENT 'like SELECT')"))
    'definition'
    """
    plain = without_quotes(sql)
    for pattern, kind in _FRAMES:
        if pattern.match(plain):
            return kind
    if not _DEFINES.match(plain) or _FILLS.match(plain) or _MOVES_PARTITIONS.match(plain) or _VERSIONS.match(plain):
        return StatementKind.CHANGE
    return StatementKind.DEFINITION


def without_quotes(sql: str) -> str:
    """Returns a statement in capitals, without comments, and with empty names and texts; comments that servers execute stay."""
    text = _QUOTED.sub("''", sql) if "/*" not in sql else _without_comments(sql)
    text = _PLAIN_COMMENT.sub(" ", text).strip().upper()
    return _SET_STATEMENT.sub("", text, count=1).strip() if text.startswith("SET") else text


def _without_comments(sql: str) -> str:
    """A comment may hold quotes, and a text may hold the begin of a comment: both are searched for at once."""
    both = re.compile(f"({_QUOTED.pattern})|{_PLAIN_COMMENT.pattern}", re.DOTALL)
    text = both.sub(lambda found: "''" if found[1] else " ", sql)
    return _EXECUTED_COMMENT.sub(lambda found: f" {found[1]} ", text)


def xid_of(sql: str) -> tuple[bytes, bytes, int] | None:
    """Returns the name of the distributed transaction that an XA statement concerns, as servers write it; None if it is not so."""
    found = _XID.search(sql)
    return None if found is None else (bytes.fromhex(found[1]), bytes.fromhex(found[2]), int(found[3]))


def savepoint_of(sql: str) -> str:
    """Returns the name of the savepoint that a statement sets, or rolls back to, in lower case; servers compare it so."""
    return sql.strip().rsplit(None, 1)[-1].strip("`;").lower()
