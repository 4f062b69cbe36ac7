"""The SQL of a Sqoop import: what `--where` keeps as Spark reads it, and the table behind a simple `--query`.

sqlglot parses it. It is imported where it is used: no other command needs it.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from cdc_ops.core.pipeline.pipeline import SourceKind

if TYPE_CHECKING:
    from sqlglot import exp

_CONDITIONS: Final = "$CONDITIONS"
_STAND_IN: Final = "sqoop_conditions_"
"""A column's name in place of `$CONDITIONS`, which no parser takes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowFilter:
    """The condition that Sqoop keeps rows by, as one that names the rows to leave out.

    Args:
        deletes: The condition for `apply_as_deletes`, "" if it cannot be translated at all.
        certain: Whether Spark decides as the source does: only comparisons of columns with numbers and NULL.
        columns: The columns that it names.
    """

    deletes: str = ""
    certain: bool = False
    columns: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SimpleQuery:
    """A `--query` that reads one table and computes nothing.

    Args:
        schema, table: The table; schema "" where the query names none.
        columns: The columns, () for all.
        where: Its condition without `$CONDITIONS`, "" for none.
    """

    schema: str
    table: str
    columns: tuple[str, ...]
    where: str


def row_filter(where: str, kind: SourceKind) -> RowFilter:
    """Translates a condition of the source into Spark SQL, negated: rows for which it is false or NULL are left out.

    >>> row_filter("id > 400 AND gone IS NULL", SourceKind.MYSQL).deletes
    'NOT COALESCE(id > 400 AND gone IS NULL, FALSE)'
    >>> row_filter("status <> 'draft'", SourceKind.MYSQL).certain
    False
    """
    from sqlglot import exp, parse_one
    from sqlglot.errors import SqlglotError

    try:
        tree = parse_one(where, into=exp.Condition, dialect=_dialect(kind))
    except SqlglotError:
        return RowFilter()
    if tree.find(exp.Query, exp.Parameter) or any(column.name.startswith("$") for column in tree.find_all(exp.Column)):
        return RowFilter()
    columns = tuple(dict.fromkeys(column.name for column in tree.find_all(exp.Column)))
    for column in tree.find_all(exp.Column):  # `orders.id`: a condition of a pipeline file knows one table only
        for part in ("table", "db", "catalog"):
            column.set(part, None)
    return RowFilter(
        deletes=f"NOT COALESCE({tree.sql(dialect='spark', comments=False)}, FALSE)", certain=_is_certain(tree), columns=columns
    )


def simple_query(query: str, kind: SourceKind) -> SimpleQuery | None:
    """Returns the table of a query that only selects columns and rows of one; None for any other query."""
    from sqlglot import exp, parse_one
    from sqlglot.errors import SqlglotError

    try:
        tree = parse_one(query.replace(_CONDITIONS, _STAND_IN), dialect=_dialect(kind))
    except SqlglotError:
        return None
    if not isinstance(tree, exp.Select) or _has_more(tree, ("expressions", "from_", "where", "order")):
        return None
    begin = tree.args.get("from_")
    if begin is None or not isinstance(begin.this, exp.Table) or len(list(tree.find_all(exp.Table))) != 1:
        return None
    table = begin.this
    alias = table.args.get("alias")
    if not isinstance(table.this, exp.Identifier) or _has_more(table, ("this", "db", "alias", "hints")) or (alias and alias.columns):
        return None
    star = any(
        isinstance(part, exp.Star) or (isinstance(part, exp.Column) and isinstance(part.this, exp.Star)) for part in tree.expressions
    )
    if not star and not all(isinstance(part, exp.Column) for part in tree.expressions):
        return None
    where = _without_stand_in(tree.args.get("where"), _dialect(kind))
    if where is None:
        return None
    columns = () if star else tuple(_name(part.this, kind) for part in tree.expressions)
    return SimpleQuery(schema=_name(table.args.get("db"), kind), table=_name(table.this, kind), columns=columns, where=where)


def _name(part: "exp.Identifier | None", kind: SourceKind) -> str:
    """Returns a name as the source has it: Postgres folds those without quotes to small letters."""
    name = str(part.this) if part else ""
    return name.lower() if part and kind is SourceKind.POSTGRES and not part.args.get("quoted") else name


def _without_stand_in(where: "exp.Where | None", dialect: str) -> str | None:
    """Returns the condition without `$CONDITIONS`, "" if nothing else is there, None if it is not one of several that all must hold."""
    from sqlglot import exp

    if where is None:
        return ""
    tree = where.this
    parts = list(tree.flatten()) if isinstance(tree, exp.And) else [tree]
    rest = [part for part in parts if part.unnest().name != _STAND_IN]
    if any(column.name == _STAND_IN for part in rest for column in part.find_all(exp.Column)):
        return None
    return exp.and_(*rest, copy=True).sql(dialect=dialect, comments=False) if rest else ""


def _has_more(tree: "exp.Expr", parts: Collection[str]) -> bool:
    """Whether something else is said, such as LIMIT or PARTITION, that adds rows or leaves some out."""
    return any(value for name, value in tree.args.items() if name not in parts)


def _is_certain(tree: "exp.Expr") -> bool:
    """Whether columns are compared with numbers and NULL only: text, dates and functions Spark compares by rules of its own."""
    from sqlglot import exp

    if isinstance(tree, (exp.And, exp.Or)):
        return _is_certain(tree.left) and _is_certain(tree.right)
    if isinstance(tree, (exp.Not, exp.Paren)):
        return _is_certain(tree.this)
    if isinstance(tree, exp.Between):
        sides = [tree.this, tree.args["low"], tree.args["high"]]
    elif isinstance(tree, exp.In) and tree.expressions:
        sides = [tree.this, *tree.expressions]
    elif isinstance(tree, (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.Is)):
        sides = [tree.left, tree.right]
    else:
        return False
    columns = [side for side in sides if isinstance(side, exp.Column)]
    return len(columns) == 1 and all(side in columns or _is_number(side) for side in sides)


def _is_number(tree: "exp.Expr") -> bool:
    from sqlglot import exp

    while isinstance(tree, (exp.Neg, exp.Paren)):
        tree = tree.this
    return isinstance(tree, exp.Null) or (isinstance(tree, exp.Literal) and not tree.is_string)


def _dialect(kind: SourceKind) -> str:
    return "postgres" if kind is SourceKind.POSTGRES else "mysql"
