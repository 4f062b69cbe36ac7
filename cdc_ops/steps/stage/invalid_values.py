"""Values that no stored type can hold and whose policy is `fail`: the read stops at the first one and says which row it is in."""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from cdc_ops.core.schema.tables import TableName
from cdc_ops.errors import UnstorableValueError

_MARK: Final = "CDC_OPS_UNSTORABLE:"
_FOUND: Final = re.compile(re.escape(_MARK) + r"([0-9A-F]+)")


def failing(condition: str, decoded: str, column: str, keys: tuple[tuple[str, str], ...]) -> str:
    """Returns Spark SQL that gives a decoded value, and fails for one that cannot be stored.

    Args:
        condition: True for such a value.
        decoded: The value.
        column: Its column.
        keys: Name and decoded value of each key column, for the message.
    """
    values = ", ".join(f"CAST({value} AS STRING)" for _, value in keys)
    names = ", ".join(_literal(name) for name, _ in keys)
    facts = f"named_struct('column', {_literal(column)}, 'names', array({names}), 'key', array({values}))"
    return f"IF({condition}, raise_error(concat('{_MARK}', hex(to_json({facts}, map('ignoreNullFields', 'false'))))), {decoded})"


@contextmanager
def translated_failures(table: TableName) -> Iterator[None]:
    """Turns the failure of such an expression into an error of ours.

    Raises:
        UnstorableValueError: a value cannot be stored; it names column and key.
    """
    try:
        yield
    except Exception as error:  # of a failing write, Py4J's own error comes through as well as PySpark's
        found = _FOUND.search(full_text(error))
        if found is None:
            raise
        facts = json.loads(bytes.fromhex(found[1]).decode())
        key = ", ".join(f"{name} = {value}" for name, value in zip(facts["names"], facts["key"], strict=True))
        raise UnstorableValueError(
            f"Column {facts['column']!r} of {table} has a value that no stored type can hold, in the row with {key or 'no known key'}.",
            why="Such are zero, partial and impossible dates, infinite ones and NaN; the table's policy for them is 'fail'.",
            data="Nothing of this batch was written; the watermark stays.",
            next="Repair the row at the source, or set 'zero_dates' ('nan_values' for NaN) to 'null', which counts them; then run again.",
        ) from error


def full_text(error: BaseException | None) -> str:
    """Returns an error's text and those of its causes: a failing write has its reason one or two exceptions further down, in the JVM."""
    parts = []
    while error is not None:
        parts.append(f"{error} {getattr(error, '_stackTrace', '')} ")
        error = getattr(error, "_cause", None) or error.__cause__
    return "".join(parts)


def _literal(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
