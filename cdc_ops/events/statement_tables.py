"""Which tables a statement of MySQL or MariaDB changes that was logged in place of rows. sqlglot parses; no Spark here.

A statement concerns the tables that it changes. Of one that is not understood, those whose name stands in it; of one that calls something,
every table. Tables that it changes by triggers, or by foreign keys, no text of it names.
"""

import re
from functools import lru_cache
from typing import Final

from sqlglot import exp

from cdc_ops.core.binlog.unfollowed import UnfollowedChange
from cdc_ops.core.schema.tables import TableName
from cdc_ops.events.ddl import EXECUTED, only_statement

Names = frozenset[tuple[str, str]]
"""Database and name of tables, in lower case: many servers compare them so."""

_NAME: Final = r"(?:`(?:[^`]|``)+`|[\w$]+)"
_TABLE: Final = rf"({_NAME}(?:\s*\.\s*{_NAME})?)"
_COMMENTS: Final = re.compile(r"/\*(?!M?!).*?\*/", re.DOTALL)
_QUOTED: Final = re.compile(r"'(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.|\"\")*\"", re.DOTALL)
_ALTERED: Final = re.compile(rf"\s*ALTER\s+(?:ONLINE\s+|IGNORE\s+)*TABLE\s+(?:IF\s+EXISTS\s+)?{_TABLE}", re.IGNORECASE)
_OTHER_TABLES: Final = re.compile(rf"\b(?:WITH|CONVERT|TO)\s+TABLE\s+{_TABLE}", re.IGNORECASE)
_LOADED: Final = re.compile(rf"\s*LOAD\s+(?:DATA|XML)\b.*?\bINTO\s+TABLE\s+{_TABLE}", re.IGNORECASE | re.DOTALL)
_INSERTED: Final = re.compile(
    rf"\s*(?:INSERT|REPLACE)\s+(?:(?:LOW_PRIORITY|DELAYED|HIGH_PRIORITY|IGNORE)\s+)*(?:INTO\s+)?{_TABLE}", re.IGNORECASE
)
_CHANGES: Final = (exp.Insert, exp.Update, exp.Delete, exp.Merge, exp.Create)
_CALLS: Final = re.compile(r"\s*(?:CALL|DO|EXECUTE|SELECT|WITH|HANDLER|BEGIN|IF|SET)\b|\s*\Z", re.IGNORECASE)


def concerns(change: UnfollowedChange, table: TableName) -> bool:
    """Returns whether a change that cannot be followed may have changed rows of a table.

    >>> from cdc_ops.core.binlog.unfollowed import UnfollowedChange
    >>> change = UnfollowedChange(start=4, end=99, database="shop", sql="INSERT INTO log SELECT * FROM orders")
    >>> concerns(change, TableName(schema="shop", name="log")), concerns(change, TableName(schema="shop", name="orders"))
    (True, False)
    """
    mine = (table.schema.lower(), table.name.lower())
    if change.tables is not None:
        return mine in {(database.lower(), name.lower()) for database, name in change.tables}
    names = changed_tables(change.sql, change.database, is_cut=change.is_cut)
    if names is not None or change.is_cut:
        return names is None or mine in names
    return bool(_CALLS.match(change.sql)) or bool(re.search(rf"(?<![\w$]){re.escape(table.name)}(?![\w$])", change.sql, re.IGNORECASE))


@lru_cache(maxsize=4096)  # each table of a batch asks of the same statements
def changed_tables(sql: str, database: str, *, is_cut: bool = False) -> Names | None:
    """Returns the tables that a statement changes, None if it is not understood.

    Args:
        sql: The statement.
        database: The database of names without one.
        is_cut: Only the begin of the statement is there.
    """
    text = _COMMENTS.sub(" ", sql)
    if EXECUTED.search(text):
        return None
    for begin in (_ALTERED, _LOADED, _INSERTED):
        if found := begin.match(text):
            others = _OTHER_TABLES.findall(_QUOTED.sub("''", text)) if begin is _ALTERED else ()
            return frozenset(_named(name, database) for name in (found[1], *others))
    if is_cut:
        return None
    statement = only_statement(text)
    if not isinstance(statement, _CHANGES):
        return None
    tables = [table for table in statement.find_all(exp.Table) if table.find_ancestor(exp.Select, exp.Subquery, exp.With) is None]
    found_names = frozenset(((table.db or database).lower(), table.name.lower()) for table in tables if table.name)
    return found_names or None


def _named(text: str, database: str) -> tuple[str, str]:
    parts = [part[1:-1].replace("``", "`") if part[0] == "`" else part for part in re.findall(_NAME, text)]
    return (parts[0] if len(parts) == 2 else database).lower(), parts[-1].lower()
