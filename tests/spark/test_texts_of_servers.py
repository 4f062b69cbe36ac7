"""What Maxwell, Canal and DTS write of the hostile corpus, by their documented text forms, is read as the query method stores it."""

import base64
import json
import re
from typing import Any

import pytest
from cdc_ops.formats.registry import open_format
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F

from cdc_ops.core.events.format_spec import FormatOptions
from cdc_ops.core.schema.logical_types import LogicalType, logical_type_of
from cdc_ops.core.schema.mysql_types import mysql_mapping
from cdc_ops.core.schema.tables import Column
from cdc_ops.core.schema.unsigned_bigints import widened
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
def test_texts_of_the_server_become_what_the_query_method_stores(form: str, spark: SparkSession) -> None:
    opened, options = open_format(form), FormatOptions(name=form, time_zone="UTC")
    columns = [(column_of(number, declared), literal, expected) for number, (declared, literal, expected) in enumerate(CASES)]
    readable = [
        (column, literal, expected) for column, literal, expected in columns if logical_type_of(column) not in opened.spec.unreadable
    ]
    written = {column.name: text_of(form, column, literal, expected) for column, literal, expected in readable}
    texts = spark.createDataFrame([Row(**written)])
    read, none = [], F.lit(None).cast("string")
    for column, _, _ in readable:
        reading = opened.reading(column, F.col(column.name), none, options)
        lost = F.lit(False) if reading.unstorable is None else F.coalesce(reading.unstorable, F.lit(False))
        read += [reading.value.cast(column.delta_type).alias(column.name), lost.alias(f"lost_{column.name}")]
    row = texts.select(*read).first()
    assert row is not None
    wrong = [
        (column.source_type, literal, row[column.name], expected)
        for column, literal, expected in readable
        if plain(row[column.name], column.delta_type) != expected or row[f"lost_{column.name}"] != (expected is None)
    ]
    assert wrong == []
    assert len(readable) >= 55
