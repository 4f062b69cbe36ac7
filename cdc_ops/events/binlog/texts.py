"""Changes of a binlog as records: one JSON document each, with every value as the text that the server shows.

    RowChange | Definition | BadRows -> record_of -> {"kind": "u", "file_no": "7", "pos": "1660", ..., "before": {...}, "after": {...}}

Bytes are base64. A column that an image lacks is not named in it; a NULL is `null`. What a row has and no text can stand for makes the
record bad, with the reason.
"""

import base64
import json
import re
from collections.abc import Iterator
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any, Final

from cdc_ops.core.binlog.statements import without_quotes
from cdc_ops.core.events.format_spec import EventOperation, RecordKind
from cdc_ops.events.binlog.charsets import BadText
from cdc_ops.events.binlog.decoder import BadRows, Change, Definition, RowChange
from cdc_ops.events.binlog.rows import Image
from cdc_ops.events.binlog.temporal import OddDate
from cdc_ops.events.binlog.values import Value

_NAME: Final = r"`(?:[^`]|``)+`|[^\s`.;]+"
_TRUNCATE: Final = re.compile(rf"\s*TRUNCATE\s+(?:TABLE\s+)?(?P<first>{_NAME})(?:\s*\.\s*(?P<second>{_NAME}))?\s*;?\s*\Z", re.IGNORECASE)
_COMMENT: Final = re.compile(r"/\*(?!M?!).*?\*/", re.DOTALL)
_OF_TABLES: Final = re.compile(
    r"(?:CREATE|ALTER|DROP|RENAME|TRUNCATE)\s+(?:OR\s+REPLACE\s+)?(?:ONLINE\s+|IGNORE\s+)*(?:TABLES?|DATABASE|SCHEMA)\b"
)
_AS_ROWS: Final = re.compile(r"\s+START\s+TRANSACTION\s*\Z", re.IGNORECASE)
"""What MySQL adds to CREATE TABLE ... SELECT, whose rows follow."""
_PARTIAL_IMAGE: Final = "its image lacks columns: the session or the server has binlog_row_image=MINIMAL or NOBLOB"


def record_of(change: Change, file_number: int) -> str:
    """Returns a change as a record.

    Args:
        change: The change.
        file_number: The number at the end of its file's name.
    """
    place = {"file_no": file_number, "pos": change.place.offset, "inner": change.place.inner, "row": change.place.row}
    found: dict[str, Any] = {name: str(number) for name, number in place.items()}
    found |= {"gtid": change.transaction.gtid or None, "micros": str(change.transaction.committed)}
    match change:
        case RowChange():
            found |= _row(change)
        case Definition():
            found |= _definition(change)
        case BadRows():
            reason = f"the rows do not fit the description of their table: {change.reason}"
            found |= {**_table(change.table.database, change.table.table), "kind": RecordKind.BAD.value, "reason": reason}
            found["bytes"] = base64.b64encode(change.raw).decode("ascii")
    return json.dumps(found, ensure_ascii=False)


def text_of_value(value: Value) -> str | None:
    """Returns a value as the server shows it; bytes as base64, also those that are no text.

    >>> from datetime import timedelta
    >>> text_of_value(timedelta(hours=-26, microseconds=-500000)), text_of_value(b"ab"), text_of_value(None)
    ('-26:00:00.500000', 'YWI=', None)
    """
    match value:
        case None | str():
            return value
        case int() | float():
            return repr(value)
        case Decimal():
            return f"{value:f}"
        case bytes() | BadText():
            return base64.b64encode(value if isinstance(value, bytes) else value.raw).decode("ascii")
        case OddDate():
            return value.text
        case _:
            return _moment(value)


def _moment(value: date | datetime | timedelta) -> str:
    match value:
        case datetime():
            return value.replace(tzinfo=None).isoformat(" ")
        case date():
            return value.isoformat()
        case timedelta():
            return _time(value)


def _time(value: timedelta) -> str:
    size = abs(value)
    seconds = size // timedelta(seconds=1)
    fraction = f".{size.microseconds:06d}" if size.microseconds else ""
    return f"{'-' if value < timedelta(0) else ''}{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}{fraction}"


def _table(database: str, name: str) -> dict[str, str]:
    return {"database": database, "table": name}


def _row(change: RowChange) -> dict[str, Any]:
    named = _table(change.table.database, change.table.table)
    problem = next(_problems(change), "")
    images = {side: image for side, image in (("before", change.before), ("after", change.after)) if image is not None}
    texts = {side: {name: text_of_value(value) for name, value in image.items()} for side, image in images.items()}
    if problem:
        return {**named, "kind": RecordKind.BAD.value, "op": change.op.value, "reason": problem, **texts}
    return {**named, "kind": RecordKind.CHANGE.value, "op": change.op.value, **texts}


def _problems(change: RowChange) -> Iterator[str]:
    """Yields why a change cannot be followed exactly."""
    for image in (change.before, change.after):
        for name, value in (image or {}).items():
            if isinstance(value, BadText):
                yield f"the bytes of the column {name} are no text of {value.charset}: {value.raw[:40].hex()}"
    if change.after is not None and _lacks(change, change.after):
        yield _PARTIAL_IMAGE


def _lacks(change: RowChange, image: Image) -> bool:
    return len(image) < len(change.table.columns)


def _definition(change: Definition) -> dict[str, Any]:
    """Returns a TRUNCATE as a change of its table, a statement about tables as such, and others as what changes no row."""
    sql = _AS_ROWS.sub("", change.sql)
    if found := _TRUNCATE.match(_COMMENT.sub(" ", sql)):
        names = [name[1:-1].replace("``", "`") if name[0] == "`" else name for name in (found["first"], found["second"]) if name]
        database, table = names if len(names) == 2 else (change.database, names[0])
        return {**_table(database, table), "kind": RecordKind.CHANGE.value, "op": EventOperation.TRUNCATE.value}
    is_of_tables = bool(_OF_TABLES.match(without_quotes(sql)))
    return {**_table(change.database, ""), "kind": (RecordKind.DDL if is_of_tables else RecordKind.CONTROL).value, "sql": sql}
