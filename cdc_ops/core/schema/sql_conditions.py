"""Conditions in pipeline files: Spark SQL over a table's columns, checked without Spark before any row is read."""

import re
from collections.abc import Iterable
from typing import Final

from cdc_ops.core.text import did_you_mean
from cdc_ops.errors import ConfigError

_TOKEN: Final = re.compile(
    r"""(?P<text>'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*")|(?P<quoted>`(?:[^`]|``)+`)|(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?\w*)"""
    r"""|(?P<word>[^\W\d]\w*)|(?P<comment>--|/\*)|(?P<sign><=>|<>|!=|>=|<=|\|\||[-+*/%=<>!&|^~(),.\[\]])|(?P<space>\s+)|(?P<other>.)""",
    re.DOTALL,
)
_WORDS: Final = frozenset(
    (
        *("and", "or", "not", "is", "null", "true", "false", "in", "between", "like", "ilike", "rlike", "regexp", "escape", "case", "when"),
        *("then", "else", "end", "distinct", "from", "cast", "as", "div", "interval", "date", "timestamp", "timestamp_ntz", "boolean"),
        *("tinyint", "smallint", "int", "integer", "bigint", "float", "real", "double", "decimal", "dec", "numeric", "string", "binary"),
        *("byte", "short", "long", "year", "years", "month", "months", "day", "days", "hour", "hours", "minute", "minutes", "second"),
        *("seconds", "timestamp_ltz"),
    )
)
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
        ConfigError: it does not name a column, ends too early, or returns another value each time.
    """
    tokens = [found for found in _TOKEN.finditer(text) if found.lastgroup != "space"]
    known, depth, named = {name.lower(): name for name in columns}, 0, False
    for token, follower in zip(tokens, [*tokens[1:], None], strict=True):
        kind, part = token.lastgroup, token[0]
        depth += {"(": 1, ")": -1}.get(part, 0)
        if kind in ("other", "comment") or part.lower() == "select" or depth < 0:
            raise _wrong(setting, text, f"A condition cannot contain {part!r}.")
        if kind == "quoted" or (kind == "word" and not _is_grammar(part, follower)):
            name = part[1:-1].replace("``", "`") if kind == "quoted" else part
            named = named or name.lower() in known
            if name.lower() not in known and (kind == "quoted" or part.lower() not in _WORDS):
                raise _wrong(setting, text, f"The table has no column {name!r}. {did_you_mean(name, known.values())}")
        if kind == "word" and part.lower() in _MOVING:
            raise _wrong(setting, text, f"{part!r} returns another value each time, but a condition is evaluated only when a row is read.")
    if depth or not named:
        raise _wrong(setting, text, "A parenthesis is not closed." if depth else "It does not name a column.")


def named_columns(text: str, columns: Iterable[str]) -> tuple[str, ...]:
    """Returns the table's columns that a condition names, in whatever case or quotes."""
    tokens = (found for found in _TOKEN.finditer(text) if found.lastgroup in ("word", "quoted"))
    names = {(found[0][1:-1].replace("``", "`") if found.lastgroup == "quoted" else found[0]).lower() for found in tokens}
    return tuple(name for name in columns if name.lower() in names)


def _is_grammar(word: str, follower: re.Match[str] | None) -> bool:
    """True for the name of a function and for the type of a literal."""
    return follower is not None and (follower[0] == "(" or (follower.lastgroup == "text" and word.lower() in _WORDS))


def _wrong(setting: str, text: str, why: str) -> ConfigError:
    return ConfigError(
        f"'{setting}: {text}' is not {'an order of' if setting == 'sequence_by' else 'a condition on'} the table's columns.",
        why=why,
        data="Nothing was read; the watermark stays.",
        next=f"Correct '{setting}' in the pipeline file, e.g. "
        + ('"CAST(version AS bigint)".' if setting == "sequence_by" else '"is_deleted = 1" or "deleted_at IS NOT NULL".'),
    )
