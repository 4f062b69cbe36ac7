"""Reads the DDL statements of MySQL and MariaDB among change events: what each statement did to a table. sqlglot parses; no Spark here.

A statement that sqlglot cannot parse in full counts as not understood, as a whole: nothing is guessed.
"""

import logging
import re
from collections.abc import Iterator
from typing import Final

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.tokenizer_core import Token, TokenType

from cdc_ops.core.events.ddl_changes import DdlChange, TableChangeKind
from cdc_ops.core.events.format_spec import MYSQL
from cdc_ops.core.schema.tables import TableName

# sqlglot warns of each statement that it cannot parse; the run reports these statements itself.
logging.getLogger("sqlglot").setLevel(logging.ERROR)

EXECUTED: Final = re.compile(r"/\*M?!")
"""Comments whose text the server executes, but which sqlglot skips."""
_WITHOUT_EFFECT: Final = (exp.AddConstraint, exp.AlterColumn, exp.DropPrimaryKey, exp.ForceProperty, exp.RenameIndex)
"""Actions of ALTER TABLE that change neither a column nor a stored row: keys, indexes, checks, defaults of future rows."""
_NOT_COLUMNS: Final = ("INDEX", "FOREIGN KEY", "CONSTRAINT", "CHECK", "KEY")
_NEVER_NULL: Final = ("SERIAL", "TIMESTAMP")
"""Types whose columns are NOT NULL even where the statement does not say NOT NULL."""


class _NotUnderstoodError(Exception):
    """A statement, or an action in it, that cdc-ops does not understand."""


def table_changes(text: str, table: TableName, schema: str = "") -> tuple[DdlChange, ...] | None:
    """Returns what a statement did to a table: () if nothing, None if the statement is not understood.

    Names are compared without case, as many servers do.

    Args:
        text: The statement.
        table: The table.
        schema: The database of table names without a database; "" = unknown, then the table's own database is assumed.
    """
    statement = only_statement(text)
    if statement is None:
        return None
    try:
        return _Reader(table, schema).changes(statement)
    except (SqlglotError, RecursionError, _NotUnderstoodError):
        return None


def only_statement(text: str) -> exp.Expr | None:
    """Returns the one statement that a text is, parsed; None for several or none, and for one that is not understood."""
    if EXECUTED.search(text):
        return None
    try:
        parsed = [one for one in sqlglot.parse(text, read=MYSQL) if one is not None]
    except (SqlglotError, RecursionError):
        return None
    return parsed[0] if len(parsed) == 1 else None


class _Reader:
    """Reads statements for one table.

    Args:
        table: The table.
        schema: The database of table names without a database, "" = the table's.
    """

    def __init__(self, table: TableName, schema: str) -> None:
        self._table, self._schema = table, schema

    def changes(self, statement: exp.Expr) -> tuple[DdlChange, ...]:
        """Returns the changes that a statement made to the table.

        Raises:
            _NotUnderstoodError: the statement has an action that may have changed the table, and that is not understood.
        """
        match statement:
            case exp.Alter() if statement.args.get("kind") == "TABLE":
                return self._altered(statement)
            case exp.Drop():
                return self._dropped(statement)
            case exp.Create():
                return self._created(statement)
            case exp.TruncateTable():
                emptied = any(self._is_mine(one) for one in statement.expressions)
                return (DdlChange(kind=TableChangeKind.TRUNCATED),) if emptied else ()
            case exp.Command() if str(statement.this).upper() == "RENAME":
                pairs = _renamed_tables(statement.expression.name)
                return tuple(change for before, after in pairs for change in self._moved(before, after))
            case _:
                raise _NotUnderstoodError

    def _altered(self, statement: exp.Alter) -> tuple[DdlChange, ...]:
        moves = [one for one in statement.args["actions"] if isinstance(one, exp.AlterRename)]
        moved = tuple(change for one in moves for change in self._moved(statement.this, one.this))
        if not self._is_mine(statement.this):
            return moved
        return (*(found for one in statement.args["actions"] if one not in moves for found in _column_changes(one)), *moved)

    def _moved(self, before: exp.Expr, after: exp.Expr) -> tuple[DdlChange, ...]:
        gone, come = self._is_mine(before), self._is_mine(after)
        if gone == come:
            return ()
        kind = TableChangeKind.TABLE_RENAMED if gone else TableChangeKind.TABLE_REPLACED
        return (DdlChange(kind=kind, other=(after if gone else before).name),)

    def _dropped(self, statement: exp.Drop) -> tuple[DdlChange, ...]:
        kind, names = statement.args.get("kind"), statement.args.get("tables") or ()
        if kind in ("INDEX", "VIEW") or statement.args.get("temporary"):
            return ()
        if kind == "TABLE":
            gone = any(self._is_mine(one) for one in names)
        elif kind in ("DATABASE", "SCHEMA"):
            gone = any(one.name.casefold() == self._table.schema.casefold() for one in names)
        else:
            raise _NotUnderstoodError
        return (DdlChange(kind=TableChangeKind.TABLE_DROPPED),) if gone else ()

    def _created(self, statement: exp.Create) -> tuple[DdlChange, ...]:
        if statement.args.get("kind") in ("INDEX", "VIEW"):
            return ()
        if statement.args.get("kind") != "TABLE":
            raise _NotUnderstoodError
        name = statement.this.this if isinstance(statement.this, exp.Schema) else statement.this
        properties = statement.args.get("properties")
        if not self._is_mine(name) or (properties is not None and properties.find(exp.TemporaryProperty)) or statement.args.get("exists"):
            return ()
        dropped = (DdlChange(kind=TableChangeKind.TABLE_DROPPED),) if statement.args.get("replace") else ()
        return (*dropped, DdlChange(kind=TableChangeKind.TABLE_CREATED))

    def _is_mine(self, name: exp.Expr) -> bool:
        if not isinstance(name, exp.Table) or name.catalog or name.alias:
            raise _NotUnderstoodError
        schema = name.db or self._schema or self._table.schema
        return (schema.casefold(), name.name.casefold()) == (self._table.schema.casefold(), self._table.name.casefold())


def _column_changes(action: exp.Expr) -> tuple[DdlChange, ...]:
    match action:
        case exp.ColumnDef():
            return (_added(action),)
        case exp.Drop() if action.args.get("kind") == "COLUMN":
            kind, maybe = TableChangeKind.DROPPED, bool(action.args.get("exists"))
            return tuple(DdlChange(kind=kind, column=one.name, conditional=maybe) for one in action.args["tables"])
        case exp.Drop() if action.args.get("kind") in _NOT_COLUMNS:
            return ()
        case exp.RenameColumn():
            maybe = bool(action.args.get("exists"))
            return (DdlChange(kind=TableChangeKind.RENAMED, column=action.args["to"].name, other=action.this.name, conditional=maybe),)
        case exp.ModifyColumn():
            return _modified(action)
        case _ if isinstance(action, _WITHOUT_EFFECT):
            return ()
        case _:
            raise _NotUnderstoodError


def _added(column: exp.ColumnDef) -> DdlChange:
    maybe = bool(column.args.get("exists"))
    return DdlChange(kind=TableChangeKind.ADDED, column=column.name, detail=_given(column), conditional=maybe)


def _given(column: exp.ColumnDef) -> str:
    """Returns the value that existing rows got in an added column, "" = NULL."""
    constraints = [one.args.get("kind") for one in column.args.get("constraints") or ()]
    kind = column.args.get("kind")
    for one in constraints:
        if isinstance(one, exp.DefaultColumnConstraint):
            return "" if isinstance(one.this, exp.Null) else f"DEFAULT {one.this.sql(MYSQL)}"
        if isinstance(one, exp.ComputedColumnConstraint):
            return "a computed value"
        if isinstance(one, exp.AutoIncrementColumnConstraint):
            return "AUTO_INCREMENT"
    nulls = [bool(one.args.get("allow_null")) for one in constraints if isinstance(one, exp.NotNullColumnConstraint)]
    if False in nulls or any(isinstance(one, exp.PrimaryKeyColumnConstraint) for one in constraints):
        return "NOT NULL"
    declared = kind.sql(MYSQL) if kind is not None else ""
    return declared if declared.split("(")[0] in _NEVER_NULL and not nulls else ""


def _modified(action: exp.ModifyColumn) -> tuple[DdlChange, ...]:
    column, before = action.this, action.args.get("rename_from")
    declared = column.args["kind"].sql(MYSQL) if column.args.get("kind") is not None else ""
    retyped = DdlChange(kind=TableChangeKind.RETYPED, column=column.name, detail=declared)
    if before is None or before.name.casefold() == column.name.casefold():
        return (retyped,)
    return (DdlChange(kind=TableChangeKind.RENAMED, column=column.name, other=before.name), retyped)


def _renamed_tables(text: str) -> Iterator[tuple[exp.Expr, exp.Expr]]:
    """Yields pairs of old and new table names of a RENAME TABLE statement, which sqlglot only splits into words."""
    words = sqlglot.tokenize(text, read=MYSQL)
    plain = ["" if word.token_type in (TokenType.IDENTIFIER, TokenType.STRING) else word.text.upper() for word in words]
    if not plain or plain[0] not in ("TABLE", "TABLES"):
        raise _NotUnderstoodError
    begin = 3 if plain[1:3] == ["IF", "EXISTS"] else 1
    while begin < len(words):
        end = plain.index(",", begin) if "," in plain[begin:] else len(words)
        if plain[begin:end].count("TO") != 1:
            raise _NotUnderstoodError
        middle = plain.index("TO", begin)
        yield _name(text, words[begin:middle]), _name(text, words[middle + 1 : end])
        begin = end + 1


def _name(text: str, words: list[Token]) -> exp.Expr:
    if not words:
        raise _NotUnderstoodError
    return sqlglot.parse_one(text[words[0].start : words[-1].end + 1], read=MYSQL, into=exp.Table)
