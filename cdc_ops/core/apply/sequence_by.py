"""`sequence_by`: columns and expressions that order the changes of a row, checked without Spark. Pure.

    changed_at                           a column
    [changed_at, change_id]              several: a struct of them, as struct(changed_at, change_id) is
    COALESCE(changed_at, created_at)     also GREATEST and LEAST: of columns of one type
    CAST(payload_version AS bigint)      any expression whose type is said

The type has to be known at the plan, because it is stored. What cannot be cast is NULL, and so without a place in the order.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from cdc_ops.core.schema.sql_conditions import check_condition, named_columns
from cdc_ops.core.schema.tables import TableSchema
from cdc_ops.core.schema.type_widening import canonical_type
from cdc_ops.core.text import did_you_mean, quoted
from cdc_ops.errors import SourceTableError

_CALL: Final = re.compile(r"(?is)\s*(\w+)\s*\((.*)\)\s*")
_CAST: Final = re.compile(r"(?is)(.*\S)\s+as\s+(\w+(?:\s*\(\s*\d+\s*(?:,\s*\d+\s*)?\))?)\s*")
_CASTS: Final = ("cast", "try_cast")
_OF_ONE_TYPE: Final = ("coalesce", "greatest", "least")
_SORTABLE: Final = ("tinyint", "smallint", "int", "bigint", "decimal", "date", "timestamp")
_SETTING: Final = "sequence_by"


@dataclass(frozen=True, slots=True, kw_only=True)
class SequencePart:
    """One part of a sequence.

    Args:
        text: As the pipeline file has it.
        name: Of the field in a struct of several parts.
        sql: Spark SQL over the columns of a row.
        type: Its type as Spark SQL DDL.
        reads: The columns that it names.
    """

    text: str
    name: str
    sql: str
    type: str
    reads: tuple[str, ...]


def is_sortable(delta_type: str) -> bool:
    """True for types that every system orders in the same way: numbers, dates and times. The order of texts depends on collations.

    >>> is_sortable("decimal(10,2)"), is_sortable("string")
    (True, False)
    """
    return delta_type.lower().startswith(_SORTABLE)


def split_parts(sequence_by: Iterable[str]) -> tuple[str, ...]:
    """Returns the parts of a setting; a struct's are parts of their own.

    >>> split_parts(["struct(changed_at, COALESCE(a, b))", "id"])
    ('changed_at', 'COALESCE(a, b)', 'id')
    """
    found: list[str] = []
    for text in sequence_by:
        name, inner = _call(text)
        found += _arguments(inner) if name == "struct" else [text]
    return tuple(found)


def order_names(sequence_by: Iterable[str], columns: Iterable[str]) -> tuple[str, ...]:
    """Returns the columns that a setting names: a plain name as it stands there, of an expression those that are among `columns`."""
    known = tuple(columns)
    parts = ((part,) if not _call(part)[0] else named_columns(part, known) for part in split_parts(sequence_by))
    return tuple(name for names in parts for name in names)


def read_parts(sequence_by: Iterable[str], schema: TableSchema) -> tuple[SequencePart, ...]:
    """Returns the parts of a setting, of columns that are read.

    Raises:
        SourceTableError: it names a column that the table has not, or one without a dependable order.
        ConfigError: an expression is none, or says no type.
    """
    texts = split_parts(sequence_by)
    parts = (_read(text, f"p{number}", schema) for number, text in enumerate(texts, start=1))
    return tuple(parts)


def type_of(parts: tuple[SequencePart, ...]) -> str:
    """Returns the type of a sequence: of one part its own, of several a struct of them.

    >>> def part(name: str, kind: str) -> SequencePart:
    ...     return SequencePart(text=name, name=name, sql=name, type=kind, reads=(name,))
    >>> type_of((part("version", "bigint"),))
    'bigint'
    >>> type_of((part("changed_at", "timestamp"), part("id", "int")))
    'struct<changed_at:timestamp,id:int>'
    """
    return parts[0].type if len(parts) == 1 else "struct<" + ",".join(f"{part.name}:{part.type}" for part in parts) + ">"


def _read(text: str, name: str, schema: TableSchema) -> SequencePart:
    column = schema.column(text)
    function, inner = ("", "") if column else _call(text)
    if not function:
        if column is None or not is_sortable(column.delta_type):
            raise _unusable(
                schema,
                f"names {text!r}, " + ("not a column of the table." if column is None else f"which is {column.source_type}: {_NO_ORDER}"),
                did_you_mean(text, schema.names) if column is None else "Use numbers, dates or times, or CAST(... AS bigint).",
            )
        return SequencePart(text=text, name=text, sql=quoted(text), type=column.delta_type, reads=(text,))
    check_condition(_SETTING, text, schema.names)
    sql, kind = text, _common_type(inner, schema) if function in _OF_ONE_TYPE else ""
    if function in _CASTS and (cast := _CAST.fullmatch(inner)) and _is_balanced(cast[1]):
        kind = canonical_type(cast[2])
        sql = f"TRY_CAST({cast[1]} AS {kind})"
    if not kind:
        raise _unusable(schema, f"has {text!r}, whose type is unknown without Spark.", "A sequence is stored with the rows, in its type.")
    if not is_sortable(kind):
        raise _unusable(schema, f"has {text!r}, which is {kind}: {_NO_ORDER}", "Use numbers, dates or times.")
    return SequencePart(text=text, name=name, sql=sql, type=kind, reads=named_columns(text, schema.names))


_NO_ORDER: Final = "a type without a dependable order."


def _common_type(inner: str, schema: TableSchema) -> str:
    columns = [schema.column(name) for name in _arguments(inner)]
    kinds = {column.delta_type if column else "" for column in columns}
    return kinds.pop() if len(kinds) == 1 else ""


def _call(text: str) -> tuple[str, str]:
    """Returns name and arguments of a text that is one call of a function, "" and "" otherwise."""
    found = _CALL.fullmatch(text)
    return (found[1].lower(), found[2]) if found and _is_balanced(found[2]) else ("", "")


def _is_balanced(text: str) -> bool:
    depth = 0
    for sign in text:
        depth += {"(": 1, ")": -1}.get(sign, 0)
        if depth < 0:
            return False
    return depth == 0


def _arguments(inner: str) -> list[str]:
    found, depth = [""], 0
    for sign in inner:
        depth += {"(": 1, ")": -1}.get(sign, 0)
        if sign == "," and not depth:
            found.append("")
        else:
            found[-1] += sign
    return [one.strip() for one in found]


def _unusable(schema: TableSchema, what: str, why: str) -> SourceTableError:
    return SourceTableError(
        f"'{_SETTING}' of {schema.table} {what}",
        why=why,
        data="Nothing was read or written; the watermark stays.",
        next="Correct 'sequence_by' in the pipeline file: columns, COALESCE, GREATEST or LEAST of columns of one type, or"
        " CAST(... AS type). Columns in it may be stored or listed in 'except_column_list'.",
    )
