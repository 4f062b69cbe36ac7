"""What Maxwell, Canal and DTS write of the hostile corpus, by their documented text forms, is read as the query method stores it."""

import base64
import json
import re
from typing import Any

import pyarrow as pa
import pytest

from cdc_ops.core.events.format_spec import FormatOptions
from cdc_ops.core.schema.logical_types import LogicalType, logical_type_of
from cdc_ops.core.schema.server_types.mysql_types import mysql_mapping
from cdc_ops.core.schema.server_types.unsigned_bigints import widened
from cdc_ops.core.schema.tables import Column
from cdc_ops.events.change import arrow_type
from cdc_ops.events.format import UNSTORABLE, NoValue
from cdc_ops.events.registry import open_format
from tests.corpus import MYSQL_CASES, MYSQL_ONLY, plain

FORMATS = ("maxwell", "canal", "dts-json")
CASES = [*MYSQL_CASES, *MYSQL_ONLY]
_ATTRIBUTES = re.compile(r" (null|zerofill|character set \w+|collate \w+|srid \d+)\b.*$", re.IGNORECASE)


def column_of(number: int, declared: str) -> Column:
    source_type = _ATTRIBUTES.sub("", declared)
    source_type = source_type if "'" in source_type else source_type.lower()
    source_type = re.sub(r"^(ENUM|SET)", lambda found: found[0].lower(), source_type)
    mapping = mysql_mapping(source_type)
    assert mapping is not None
    column = Column(name=f"c{number}", source_type=source_type, delta_type=mapping.delta_type, nullable=True, expression="")
    return widened((column,))[0]


def text_of(form: str, column: Column, literal: str, expected: Any) -> str:
    """The text that a format's tool writes: the server's own, but for bytes and lists."""
    match logical_type_of(column), form:
        case LogicalType.BINARY, "maxwell":
            return base64.b64encode(expected.rstrip(b"\0") if column.source_type.startswith("binary") else expected).decode()
        case LogicalType.BINARY, "canal":
            return str(expected.decode("latin-1"))
        case LogicalType.SET, "maxwell":
            return json.dumps(expected.split(",") if expected else [])
        case ((LogicalType.DATE | LogicalType.WALL_CLOCK | LogicalType.INSTANT | LogicalType.TIME), _):
            text, whole = literal.strip("'"), logical_type_of(column) in (LogicalType.DATE, LogicalType.TIME)
            return text if whole or " " in text else f"{text} 00:00:00"
        case _:
            return str(expected)


@pytest.mark.parametrize("form", FORMATS)
def test_texts_of_the_server_become_what_the_query_method_stores(form: str) -> None:
    opened = open_format(FormatOptions(name=form, time_zone="UTC"))
    wrong, read = [], 0
    for number, (declared, literal, expected) in enumerate(CASES):
        column = column_of(number, declared)
        if logical_type_of(column) in opened.spec.unreadable:
            continue
        read += 1
        found = opened.reader(column, None).read(text_of(form, column, literal, expected))
        value = pa.array([None if isinstance(found, NoValue) else found], arrow_type(column.delta_type))[0].as_py()
        if plain(value, column.delta_type) != expected or (found is UNSTORABLE) != (expected is None):
            wrong.append((column.source_type, literal, value, expected))
    assert wrong == []
    assert read >= 55
