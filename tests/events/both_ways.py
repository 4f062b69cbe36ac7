"""Records read by Spark's expressions (`formats`) and by plain Python (`events`), and what differs. Goes with the older of the two."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, Final

from pyspark.sql import SparkSession

from cdc_ops.core.events.change_feed import RECORD_COLUMNS
from cdc_ops.core.events.format_spec import FormatOptions
from cdc_ops.core.schema.tables import TableSchema
from cdc_ops.events.parse import envelopes_of
from cdc_ops.events.record import NOT_JSON, NOT_UTF8, Record
from cdc_ops.events.registry import open_format
from cdc_ops.events.table import TableReader, is_of
from cdc_ops.formats.feed.canonical import canonical_feed, records_of
from cdc_ops.formats.registry import open_format as open_spark_format

_TYPES: Final = ", ".join(f"{name} {kind}" for name, kind in RECORD_COLUMNS if name != "value")
Row = tuple[Any, ...]
"""A record: value (bytes or None), file, line, partition, offset."""


def by_spark(spark: SparkSession, options: FormatOptions, schema: TableSchema, keys: Sequence[str], rows: Iterable[Row]) -> list[Any]:
    """The feed of some records by Spark."""
    form = open_spark_format(options.name)
    given = [(None if value is None else bytearray(value), *place) for value, *place in rows]
    records = spark.createDataFrame(given, f"value binary, {_TYPES}").selectExpr("CAST(value AS STRING) AS value", "* EXCEPT (value)")
    feed = canonical_feed(form, records_of(form.envelopes(records, options), schema.table), schema, keys, options)
    return _plain(feed.drop("raw").toArrow().to_pylist())


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
    return _plain(reader.read(records, envelopes).feed().to_pylist())


def _plain(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    for row in rows:
        if row["table"] is not None and not row["table"]["name"]:
            row["table"] = None
        row["position"] = {name: number for name, number in (row["position"] or {}).items() if number is not None}
        if row["reason"] in (NOT_JSON, NOT_UTF8) or row["kind"] == "control":
            row["position"] = row["transaction"] = row["source_time"] = None
            row["snapshot"] = False
        if isinstance(row["source_time"], datetime):
            row["source_time"] = row["source_time"].isoformat()
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
        if len(ours) != len(theirs):
            said.append(f"{place} {texts.get(place)!r}: {len(ours)} rows by Spark, {len(theirs)} by Python")
            continue
        for one, other in zip(ours, theirs, strict=True):
            for name in one:
                if repr(one[name]) != repr(other[name]):
                    said.append(f"{place} {texts.get(place)!r}\n   {name}:\n    Spark  {one[name]!r}\n    Python {other[name]!r}")
    return said
