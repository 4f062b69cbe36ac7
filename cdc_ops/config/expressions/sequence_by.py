"""`sequence_by`: columns and expressions that order the changes of a row, checked without Spark.

    changed_at                           a column
    [changed_at, change_id]              several: a struct of them, as struct(changed_at, change_id) is
    COALESCE(changed_at, created_at)     also GREATEST and LEAST: of columns of one type
    CAST(payload_version AS bigint)      any expression whose type is said

The type has to be known at the plan, because it is stored. What cannot be cast is NULL, and so without a place in the order.

sqlglot checks an expression, and says where its parts begin and end. What it would write itself is not used: Spark gets the user's text.
"""

from collections.abc import Iterable
from typing import Final

from cdc_ops.config.expressions.spark_conditions import check_condition, named_columns, tokens_of
from cdc_ops.core.apply.sequence_by import SequencePart, is_sortable
from cdc_ops.core.schema.tables import TableSchema
from cdc_ops.core.schema.type_widening import canonical_type
from cdc_ops.core.text import did_you_mean, quoted
from cdc_ops.errors import SourceTableError

_CASTS: Final = ("cast", "try_cast")
_OF_ONE_TYPE: Final = ("coalesce", "greatest", "least")
_SETTING: Final = "sequence_by"


def split_parts(sequence_by: Iterable[str]) -> tuple[str, ...]:
    """Returns the parts of a setting; a struct's are parts of their own.

    >>> split_parts(["struct(changed_at, COALESCE(a, b))", "id"])
    ('changed_at', 'COALESCE(a, b)', 'id')
    """
    found: list[str] = []
    for text in sequence_by:
        name, arguments = _call(text)
        found += arguments if name == "struct" else [text]
    return tuple(found)


def order_names(sequence_by: Iterable[str], columns: Iterable[str]) -> tuple[str, ...]:
    """Returns the columns that a setting names: a plain name as it stands there, of an expression those that are among `columns`."""
    known = tuple(columns)
    parts = ((part,) if not _call(part)[0] else named_columns((part,), known) for part in split_parts(sequence_by))
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


def _read(text: str, name: str, schema: TableSchema) -> SequencePart:
    column = schema.column(text)
    function, arguments = ("", ()) if column else _call(text)
    if not function:
        if column is None or not is_sortable(column.delta_type):
            raise _unusable(
                schema,
                f"names {text!r}, " + ("not a column of the table." if column is None else f"which is {column.source_type}: {_NO_ORDER}"),
                did_you_mean(text, schema.names) if column is None else "Use numbers, dates or times, or CAST(... AS bigint).",
            )
        return SequencePart(text=text, name=text, sql=quoted(text), type=column.delta_type, reads=(text,))
    check_condition(_SETTING, text, schema.names)
    sql, kind = text, _common_type(arguments, schema) if function in _OF_ONE_TYPE else ""
    if function in _CASTS:
        _, (value, named) = _call(text, "as")
        kind = canonical_type(named)
        sql = f"TRY_CAST({value} AS {kind})"
    if not kind:
        raise _unusable(schema, f"has {text!r}, whose type is unknown without Spark.", "A sequence is stored with the rows, in its type.")
    if not is_sortable(kind):
        raise _unusable(schema, f"has {text!r}, which is {kind}: {_NO_ORDER}", "Use numbers, dates or times.")
    return SequencePart(text=text, name=name, sql=sql, type=kind, reads=named_columns((text,), schema.names))


_NO_ORDER: Final = "a type without a dependable order."


def _common_type(names: Iterable[str], schema: TableSchema) -> str:
    plain = (name[1:-1].replace("``", "`") if name.startswith("`") else name for name in names)
    columns = [schema.column(name) for name in plain]
    kinds = {column.delta_type if column else "" for column in columns}
    return kinds.pop() if len(kinds) == 1 else ""


def _call(text: str, separator: str = ",") -> tuple[str, tuple[str, ...]]:
    """Returns name and arguments of a text that is one call of a function, "" and () otherwise.

    >>> _call("greatest(a, concat(b, '),'))"), _call("CAST(a AS int)", "as"), _call("f(a) + f(b)")
    (('greatest', ('a', "concat(b, '),')")), ('cast', ('a', 'int')), ('', ()))
    """
    name, *inner = tokens_of(text) or (None,)
    if name is None or len(inner) < 3 or not text[name.start].isidentifier() or inner[-1].text != ")":
        return "", ()
    depth, cuts = 0, []
    for token in inner:
        sign = text[token.start : token.end + 1].lower()
        depth += {"(": 1, ")": -1}.get(sign, 0)
        if depth == 0 and token is not inner[-1]:
            return "", ()
        if depth == 1 and sign == separator:
            cuts.append(token)
    starts = [inner[0].end + 1, *(cut.end + 1 for cut in cuts)]
    ends = [*(cut.start for cut in cuts), inner[-1].start]
    return name.text.lower(), tuple(text[start:end].strip() for start, end in zip(starts, ends, strict=True))


def _unusable(schema: TableSchema, what: str, why: str) -> SourceTableError:
    return SourceTableError(
        f"'{_SETTING}' of {schema.table} {what}",
        why=why,
        data="Nothing was read or written; the watermark stays.",
        next="Correct 'sequence_by' in the pipeline file: columns, COALESCE, GREATEST or LEAST of columns of one type, or"
        " CAST(... AS type). Columns in it may be stored or listed in 'except_column_list'.",
    )
