"""Values that no stored type can hold and whose policy is `fail`: the read stops at the first one and says which row it is in."""

import json
import re
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


def unstorable_value(table: TableName, failure: str) -> UnstorableValueError | None:
    """Returns the error that names column and key, if the text of a failure is that of such an expression."""
    found = _FOUND.search(failure)
    if found is None:
        return None
    facts = json.loads(bytes.fromhex(found[1]).decode())
    key = ", ".join(f"{name} = {value}" for name, value in zip(facts["names"], facts["key"], strict=True))
    if facts["column"] in facts["names"]:
        return UnstorableValueError(
            f"Key column {facts['column']!r} of {table} has a value that no stored type can hold, in a row with {key}.",
            why="Such are zero, partial and impossible dates, infinite ones and NaN. As NULL, two keys would be one, which no run finds.",
            data="Nothing of this batch was written; the watermark stays.",
            next="Set 'zero_dates' ('nan_values' for NaN) to 'string', which stores the source's text and keeps such keys apart"
            " (if the table has rows, run cdc-ops resync --mode full then). Or name other 'keys', or repair the row at the source.",
        )
    return UnstorableValueError(
        f"Column {facts['column']!r} of {table} has a value that no stored type can hold, in the row with {key or 'no known key'}.",
        why="Such are zero, partial and impossible dates, infinite ones and NaN; the table's policy for them is 'fail'.",
        data="Nothing of this batch was written; the watermark stays.",
        next="Repair the row at the source, or set 'zero_dates' ('nan_values' for NaN) to 'null', which counts them; then run again.",
    )


def _literal(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
