"""`sequence_by`: what orders the changes of a row. `config.expressions.sequence_by` reads it from a pipeline file. Pure."""

from dataclasses import dataclass
from typing import Final

_SORTABLE: Final = frozenset(("tinyint", "smallint", "int", "bigint", "decimal", "date", "timestamp", "timestamp_ntz"))


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
    return delta_type.lower().partition("(")[0] in _SORTABLE


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
