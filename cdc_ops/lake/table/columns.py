"""Checks that a Delta table fits the columns of an operation. Spark-free, so that a plan can check before Spark starts."""

import re
from collections.abc import Iterable, Sequence
from typing import Final

from cdc_ops.core.schema.tables import TableSchema
from cdc_ops.core.schema.type_widening import canonical_type, holds
from cdc_ops.core.text import quoted
from cdc_ops.errors import TargetSchemaError

_LISTED: Final = re.compile(r"\s*((?:`(?:[^`]|``)*`|[^`,])+)")
_WITHOUT_STATISTICS: Final = ("binary", "boolean", "array", "map", "struct", "variant")


def has_statistics(delta_type: str) -> bool:
    """True if Delta keeps smallest and largest values of such a column, by which files are skipped."""
    return not canonical_type(delta_type).startswith(_WITHOUT_STATISTICS)


def column_list(names: Iterable[str]) -> str:
    """Returns the value of a property that lists columns, as `delta.dataSkippingStatsColumns`: Delta reads it as identifiers of SQL."""
    return ",".join(map(quoted, names))


def listed_columns(text: str) -> list[str]:
    """Returns the columns that such a property lists, with backticks around them or without."""
    found = (match[1].strip() for match in _LISTED.finditer(text))
    return [name[1:-1].replace("``", "`") if name.startswith("`") and name.endswith("`") else name for name in found if name]


def check_columns(path: str, stored: Sequence[tuple[str, str]], schema: TableSchema) -> None:
    """Checks that a table can store rows of a schema exactly; columns that only the table has are ignored.

    Args:
        path: The table, for the message.
        stored: Name and type of the table's columns.
        schema: What the source has.

    Raises:
        TargetSchemaError: the table lacks columns, or has them with a type that does not hold every value of theirs.
    """
    have = {name.lower(): canonical_type(kind) for name, kind in stored}
    missing = [column.name for column in schema.columns if column.name.lower() not in have]
    differing = [
        f"{column.name}: {have[column.name.lower()]} in the table, {canonical_type(column.delta_type)} expected"
        for column in schema.columns
        if column.name.lower() in have and not holds(have[column.name.lower()], column.delta_type)
    ]
    if not missing and not differing:
        return
    problems = ([f"it lacks {', '.join(missing)}"] if missing else []) + differing
    raise TargetSchemaError(
        f"The Delta table {path} cannot store the rows of {schema.table}: {'; '.join(problems)}.",
        why=f"Table columns: {_listed(stored)}. Source columns: {_listed([(c.name, c.delta_type) for c in schema.columns])}.",
        data="Nothing was written; the watermark stays.",
        next="ALTER TABLE the Delta table to match, or exclude the columns ('except_column_list'), or set a new 'path' for the table.",
    )


def _listed(columns: Sequence[tuple[str, str]]) -> str:
    return ", ".join(f"{name} {kind}" for name, kind in columns)
