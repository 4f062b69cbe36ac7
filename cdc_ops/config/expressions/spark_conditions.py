"""Conditions in pipeline files: Spark SQL over a table's columns, checked without Spark before any row is read.

sqlglot parses them. It is imported where it is used: a DAG file and the start of the command line need none of it.
"""

import logging
import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

from cdc_ops.core.text import did_you_mean
from cdc_ops.errors import ConfigError

if TYPE_CHECKING:
    from sqlglot import exp
    from sqlglot.errors import ParseError
    from sqlglot.tokenizer_core import Token

# It warns of statements that it does not know; the error says it.
logging.getLogger("sqlglot").setLevel(logging.ERROR)

_DIALECT: Final = "spark"
_QUOTE: Final = "A column whose name is a word of SQL stands in back-quotes."
_SIGNS: Final = frozenset(";:?@$#{}")
"""What sqlglot reads as parameters, templates, casts of other servers or the end of a statement."""
_MOVING: Final = frozenset(
    (
        *("now", "current_timestamp", "current_date", "current_time", "localtimestamp", "rand", "random", "randn", "uuid"),
        *("current_user", "user", "session_user"),
    )
)


def check_condition(setting: str, text: str, columns: Iterable[str]) -> None:
    """Checks the form of a condition or expression, and that every name in it is a column.

    Its types are Spark's to check.

    Args:
        setting: The field that it stands in, for messages.
        text: The condition.
        columns: The table's columns, as they are copied.

    Raises:
        ConfigError: it is no expression, does not name a column, names an unknown one, or returns another value each time.
    """
    known = {name.lower(): name for name in columns}
    try:
        names = tuple(_names(_checked(text)))
        if unknown := [name for name in names if name.lower() not in known]:
            raise _NoConditionError(f"The table has no column {unknown[0]!r}. {did_you_mean(unknown[0], known.values())}")
        if not names:
            raise _NoConditionError("It does not name a column.")
    except _NoConditionError as error:
        raise _wrong(setting, text, str(error)) from error.__cause__


def check_form(setting: str, text: str) -> None:
    """Checks what can be checked of a condition without its table.

    Args:
        setting: The field that it stands in, for messages.
        text: The condition.

    Raises:
        ConfigError: it is no expression, or returns another value each time.
    """
    try:
        _checked(text)
    except _NoConditionError as error:
        raise _wrong(setting, text, str(error)) from error.__cause__


def _checked(text: str) -> "exp.Expr":
    tree = _parsed(text)
    if moving := next((name for name in _functions(tree) if name in _MOVING), ""):
        raise _NoConditionError(f"{moving!r} returns another value each time, but a condition is evaluated only when a row is read.")
    return tree


def named_columns(texts: Iterable[str], columns: Iterable[str]) -> tuple[str, ...]:
    """Returns the table's columns that conditions name, in whatever case or quotes; `check_condition` refuses texts that are none.

    >>> named_columns(("`ID` = 1", "lower(note) = 'name'", "broken ="), ("id", "name", "note"))
    ('id', 'note')
    """
    found: set[str] = set()
    for text in filter(str.strip, texts):
        try:
            found |= {name.lower() for name in _names(_parsed(text))}
        except _NoConditionError:
            continue
    return tuple(name for name in columns if name.lower() in found)


def tokens_of(text: str) -> "tuple[Token, ...]":
    """Returns the words and signs of a text with their places in it, () if it is no Spark SQL."""
    from sqlglot.dialects.dialect import Dialect
    from sqlglot.errors import TokenError

    try:
        return tuple(Dialect.get_or_raise(_DIALECT).tokenize(text))
    except TokenError:
        return ()


class _NoConditionError(Exception):
    """Why a text is no condition."""


def _parsed(text: str) -> "exp.Expr":
    """Returns a condition as a tree.

    Raises:
        _NoConditionError: it cannot be parsed, or has parts that no condition has.
    """
    from sqlglot import exp
    from sqlglot.dialects.dialect import Dialect
    from sqlglot.errors import ParseError, TokenError

    spark = Dialect.get_or_raise(_DIALECT)
    try:
        tokens = spark.tokenize(text)
        _check_tokens(text, tokens)
        [tree] = spark.parser().parse_into(exp.Condition, tokens, text)
    except TokenError as error:
        sign = re.search(r"Missing (.) from", str(error.__cause__))
        raise _NoConditionError(f"{sign[1]!r} opens a text or a name that does not end." if sign else "A comment does not end.") from error
    except ParseError as error:
        raise _NoConditionError(_explained(error)) from error
    except RecursionError as error:
        raise _NoConditionError("It is nested too deeply.") from error
    if tree is None:
        raise _NoConditionError("It is empty.")
    for kind, word in ((exp.Query, "SELECT"), (exp.Window, "OVER"), (exp.Star, "*"), (exp.Alias, "AS")):
        if tree.find(kind):
            raise _NoConditionError(f"A condition cannot contain {word!r}.")
    if isinstance(tree, exp.Command):
        raise _NoConditionError(f"A condition cannot contain {tree.name!r} at the start. {_QUOTE}")
    if bare := next((one.name for one in tree.find_all(exp.Identifier) if not one.quoted and not one.name.isascii()), ""):
        raise _NoConditionError(f"Spark takes names with such letters in back-quotes only: `{bare}`.")
    return tree


def _check_tokens(text: str, tokens: "list[Token]") -> None:
    """Refuses what the parser lets pass: it drops comments, and closes what is still open at the end."""
    if comment := next((found for token in tokens for found in token.comments), None):
        raise _NoConditionError(f"A condition cannot contain a comment, '--' or '/*': {comment.strip()!r}.")
    signs = [text[token.start] for token in tokens]
    if refused := next((sign for sign in signs if sign in _SIGNS), ""):
        raise _NoConditionError(f"A condition cannot contain {refused!r}.")
    if signs.count("(") > signs.count(")"):
        raise _NoConditionError("A parenthesis is not closed.")


def _explained(error: "ParseError") -> str:
    """Returns what the parser did not expect, in place of its own words."""
    found = error.errors[0]
    before, here, after = found["start_context"] or "", found["highlight"] or "", found["end_context"]
    if not after and found["description"] != "Invalid expression / Unexpected token":
        return f"It ends too early, behind {(before + here)[-40:]!r}."
    behind = f"behind {before[-40:]!r}" if before else "at the start"
    return f"A condition cannot contain {here!r} {behind}. {_QUOTE if here.isidentifier() else ''}".rstrip()


def _names(tree: "exp.Expr") -> Iterator[str]:
    from sqlglot import exp

    for column in tree.find_all(exp.Column):
        yield from (part.name for part in column.parts)
    for path in tree.find_all(exp.Dot):  # a function of a schema: no such functions are there
        if isinstance(path.this, exp.Identifier):
            yield path.this.name


def _functions(tree: "exp.Expr") -> Iterator[str]:
    from sqlglot import exp

    for call in tree.find_all(exp.Func):
        yield from (name.lower() for name in ((call.name,) if isinstance(call, exp.Anonymous) else call.sql_names()))


def _wrong(setting: str, text: str, why: str) -> ConfigError:
    return ConfigError(
        f"'{setting}: {text}' is not {'an order of' if setting == 'sequence_by' else 'a condition on'} the table's columns.",
        why=why,
        data="Nothing was read; the watermark stays.",
        next=f"Correct '{setting}' in the pipeline file, e.g. "
        + ('"CAST(version AS bigint)".' if setting == "sequence_by" else '"is_deleted = 1" or "deleted_at IS NOT NULL".'),
    )
