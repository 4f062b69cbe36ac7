"""Records read by Spark's expressions (`formats`) and by plain Python (`events`), and what differs. Goes with the older of the two."""

import math
import re
from collections.abc import Iterable, Sequence
from typing import Any, Final

import pyarrow as pa
from cdc_ops.formats.feed.canonical import canonical_feed, records_of
from cdc_ops.formats.registry import open_format as open_spark_format
from pyspark.sql import SparkSession

from cdc_ops.core.events.change_feed import RECORD_COLUMNS
from cdc_ops.core.events.format_spec import FormatOptions
from cdc_ops.core.schema.tables import TableSchema
from cdc_ops.events.parse import envelopes_of
from cdc_ops.events.record import NOT_JSON, NOT_UTF8, Record
from cdc_ops.events.registry import open_format
from cdc_ops.events.table import TableReader, is_of

_TYPES: Final = ", ".join(f"{name} {kind}" for name, kind in RECORD_COLUMNS if name != "value")
Row = tuple[Any, ...]
"""A record: value (bytes or None), file, line, partition, offset."""


def by_spark(spark: SparkSession, options: FormatOptions, schema: TableSchema, keys: Sequence[str], rows: Iterable[Row]) -> list[Any]:
    """The feed of some records by Spark."""
    form = open_spark_format(options.name)
    given = [(None if value is None else bytearray(value), *place) for value, *place in rows]
    records = spark.createDataFrame(given, f"value binary, {_TYPES}").selectExpr("CAST(value AS STRING) AS value", "* EXCEPT (value)")
    feed = canonical_feed(form, records_of(form.envelopes(records, options), schema.table), schema, keys, options)
    return _plain(feed.drop("raw").toArrow())


def by_python(options: FormatOptions, schema: TableSchema, keys: Sequence[str], rows: Iterable[Row]) -> list[Any]:
    """The feed of some records by plain Python."""
    form = open_format(options)
    reader = TableReader(form, schema, keys)
    found = [
        (record, envelope)
        for record in (Record(*row) for row in rows)
        for envelope in envelopes_of(form, record)
        if is_of(envelope, schema.table)
    ]
    if not found:
        return []
    records, envelopes = zip(*found, strict=True)
    return _plain(reader.read(records, envelopes).feed())


_LENIENT: Final = re.compile(
    rb"\\u[dD]800"  # half a character: Spark makes it a question mark
    rb"|[:\[,] ?NaN"  # no JSON
    rb"|__cdc_ops_end"  # a mark of Spark's way
)
_TWICE: Final = "image has a column twice"
_NUMBER: Final = re.compile(rb"(?<=[:\[, ])-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?(?=[,}\] ])")
_OF_DOUBLE: Final = (b'"rate":', b'"rate": ')


def is_comparable(record: bytes, *, by_variants: bool = False) -> bool:
    """True for records of which Spark's parser takes what stands there, and no more than JSON.

    It writes numbers anew: 12.50 has the text 12.5, -0 the text 0, 1e3 the text 1000.0, 1e400 the text "Infinity". A format that is read
    by variants writes them so too.
    """
    if _LENIENT.search(record):
        return False
    return by_variants or all(_is_kept(found[0], record[: found.start()].endswith(_OF_DOUBLE)) for found in _NUMBER.finditer(record))


def _is_kept(number: bytes, of_double: bool) -> bool:
    if number.strip(b"-").isdigit():
        return number != b"-0"
    size = abs(float(number))
    return size != math.inf and (of_double or (repr(float(number)).encode() == number and (not size or 1e-3 <= size < 1e7)))


def _in_numbers(kind: pa.DataType) -> pa.DataType:
    """A type with numbers in place of dates and times: Python's types do not hold all of them."""
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_in_numbers(field.type)) for field in kind])
    return pa.int32() if pa.types.is_date32(kind) else pa.int64() if pa.types.is_timestamp(kind) else kind


def _plain(feed: pa.Table) -> list[dict[str, Any]]:
    rows = feed.cast(pa.schema([field.with_type(_in_numbers(field.type)) for field in feed.schema])).to_pylist()
    for row in rows:
        if row["table"] is not None and not row["table"]["name"]:
            row["table"] = None
        row["position"] = {name: number for name, number in (row["position"] or {}).items() if number is not None}
        if row["reason"] in (NOT_JSON, NOT_UTF8) or row["kind"] == "control":
            row["position"] = row["transaction"] = row["source_time"] = None
            row["snapshot"] = False
        if row["reason"] == NOT_UTF8:
            row["table"] = row["ddl"] = None  # which Spark has read of the record nevertheless
        if row["reason"] is not None and _TWICE in row["reason"]:
            row["reason"] = _TWICE  # Spark reads the first of the two values, which may be wrong too
    return sorted(rows, key=lambda row: (row["file"], row["line"], repr(row["position"])))


def differences(spark_rows: list[Any], python_rows: list[Any], rows: Sequence[Row]) -> list[str]:
    """Says what differs: the record, the field, both values. Numbers are compared by their text, which tells 0.0 from -0.0."""
    texts = {(file, line): value for value, file, line, *_ in rows}
    by_place: dict[Any, list[list[Any]]] = {}
    for side, found in enumerate((spark_rows, python_rows)):
        for row in found:
            by_place.setdefault((row["file"], row["line"]), [[], []])[side].append(row)
    said = []
    for place, (ours, theirs) in by_place.items():
        if repr(ours) == repr(theirs):
            continue
        if len(theirs) == 1 and all(row["reason"] == NOT_UTF8 for row in (*ours, *theirs)):
            continue  # Spark reads the table of such a record, and its rows; it is one record of no known table
        if len(ours) != len(theirs):
            said.append(f"{place} {texts.get(place)!r}: {len(ours)} rows by Spark, {len(theirs)} by Python")
            continue
        for one, other in zip(ours, theirs, strict=True):
            for name in one:
                if repr(one[name]) != repr(other[name]):
                    said.append(f"{place} {texts.get(place)!r}\n   {name}:\n    Spark  {one[name]!r}\n    Python {other[name]!r}")
    return said
