"""Alibaba Cloud DTS's Avro records, archived in Avro files; inside Spark.

    {"id": 7, "operation": "UPDATE", "objectName": "shop.orders", "fields": [{"name": "id", "dataTypeNumber": 8}, …],
     "beforeImages": [{"precision": 8, "value": "1"}, …], "afterImages": …}

An image is a list of values in the order of `fields`, each of one of a dozen types. `fields` has the number of each column's MySQL type.
Source: `Record.avsc` and the converter for MySQL in the example that DTS's documentation refers to. The fields called `millis` there hold
microseconds.
"""

from dataclasses import dataclass
from typing import Final

from pyspark.sql import Column as Expr
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from cdc_ops.core.events.format_spec import EventOperation, FormatOptions, FormatSpec, RecordKind
from cdc_ops.core.formats.catalog import format_spec
from cdc_ops.core.schema.logical_types import LogicalType, logical_type_of
from cdc_ops.core.schema.tables import Column
from cdc_ops.formats.dts import json_records
from cdc_ops.formats.feed import values
from cdc_ops.formats.feed.envelopes import completed, envelopes, is_truncate, moment_of, name_of, parsed
from cdc_ops.formats.feed.format import Format, Reading

_PARTS: Final = ("year", "month", "day", "hour", "minute", "second", "millis")
_VALUE: Final = (
    "struct<member_Integer: struct<value: string>, member_Decimal: struct<value: string>, member_Float: struct<value: string>,"
    " member_Character: struct<charset: string, value: string>, member_TextObject: struct<value: string>,"
    " member_BinaryObject: struct<value: string>, member_Timestamp: struct<timestamp: bigint, millis: bigint>,"
    f" member_DateTime: struct<{', '.join(f'{part}: int' for part in _PARTS)}>, member_EmptyObject: string>"
)
_IMAGE: Final = f"struct<member_string: string, member_array: array<{_VALUE}>>"
_LAYOUT: Final = (
    "id bigint, sourceTimestamp bigint, sourceTxid string, source struct<sourceType: string>, operation string, objectName string,"
    f" fields struct<member_array: array<struct<name: string, dataTypeNumber: int>>>, beforeImages {_IMAGE}, afterImages {_IMAGE}"
)
_MYSQL: Final = ("MySQL", "DRDS")
_UTF8: Final = ("utf8", "utf8mb3", "utf8mb4", "utf-8", "ascii", "us-ascii")
_DATE, _TIME, _YEAR = 10, 11, 13
"""MySQL's type numbers."""
_POINT: Final = r"\u002E"
"""The six characters that stand for a point within a name."""
_CHARACTER, _BYTES, _TEXT, _UNKNOWN = "Character", "BinaryObject", "text", "unknown"
_CHANGES: Final = ("INIT", "INSERT", "UPDATE", "DELETE")


@dataclass(frozen=True, slots=True, kw_only=True)
class DtsAvro:
    """The format `dts-avro`."""

    spec: FormatSpec

    def envelopes(self, records: DataFrame, options: FormatOptions) -> DataFrame:
        """See `Format`."""
        frame = parsed(records, _LAYOUT)
        record, kind = F.col("r"), F.col("r.operation")
        frame = frame.withColumns({name: _values(record, f"{name}Images") for name in ("before", "after")})
        frame = frame.withColumn("written", _written(F.col("before"), F.col("after")))
        frame = frame.withColumn("reason", _reason(record, F.col("before"), F.col("after"), F.col("written")))
        statement = F.when(kind == "DDL", F.coalesce(record["afterImages"]["member_string"], record["beforeImages"]["member_string"]))
        truncates = is_truncate(statement)
        op = F.when(truncates, EventOperation.TRUNCATE.value)
        for theirs, ours in json_records.OPERATIONS.items():
            op = op.when(kind == theirs, ours.value)
        fine = F.col("reason").isNull()  # a bad record may have a field twice, for which Spark raises an error instead of making a map
        before, after = (F.when(fine, _image(F.col(name))) for name in ("before", "after"))
        return envelopes(
            frame,
            self.spec,
            {
                "kind": F.when(F.col("reason").isNotNull(), RecordKind.BAD.value)
                .when(op.isNotNull(), RecordKind.CHANGE.value)
                .when(statement.isNotNull(), RecordKind.DDL.value)
                .when(kind.isin(*json_records.CONTROL), RecordKind.CONTROL.value)
                .otherwise(RecordKind.BAD.value),
                "reason": F.coalesce("reason", F.concat(F.lit("unknown operation "), F.coalesce(kind, F.lit("NULL")))),
                "op": op,
                "snapshot": kind == "INIT",
                "table": _name(record["objectName"]),
                "before": F.when(kind.isin("UPDATE", "DELETE"), before),
                "after": F.when(kind == "UPDATE", F.coalesce(completed(before, after), after)).when(kind.isin("INIT", "INSERT"), after),
                "types": F.when(fine, F.map_from_entries("written")),
                "transaction": F.nullif(record["sourceTxid"], F.lit("")),
                "source_time": moment_of(record["sourceTimestamp"], 1),
                "ddl": F.when(~truncates, statement),
                "position": F.struct((kind != "INIT").cast("tinyint").alias("streamed"), record["id"].alias("record_id")),
            },
        )

    def reading(self, column: Column, text: Expr, kind: Expr, options: FormatOptions) -> Reading:
        """See `Format`."""
        content = F.try_to_binary(text, F.lit("base64"))
        if logical_type_of(column) is LogicalType.BINARY:
            return Reading(value=F.when(kind["type"].isin(_CHARACTER, _BYTES), values.binary(column, content)))
        spelled = F.when(kind["name"].isin(*_UTF8) & F.is_valid_utf8(content.cast("string")), content.cast("string"))
        return values.from_text(column, F.when(kind["type"] == _CHARACTER, spelled).when(kind["type"] == _TEXT, text), "UTC")


def _values(record: Expr, name: str) -> Expr:
    """Returns the entries of an image: for each column its name, its text, and how the text is encoded."""

    def entry(field: Expr, value: Expr) -> Expr:
        character, content = value["member_Character"], value["member_BinaryObject"]
        plain = F.coalesce(
            *(value[f"member_{kind}"]["value"] for kind in ("Integer", "Decimal", "Float", "TextObject")),
            _instant(value["member_Timestamp"]),
            _date_time(value["member_DateTime"], field["dataTypeNumber"]),
        )
        empty = value.isNull() | value["member_EmptyObject"].isNotNull()
        kind = (
            F.when(character.isNotNull(), _CHARACTER)
            .when(content.isNotNull(), _BYTES)
            .when(plain.isNotNull(), _TEXT)
            .when(~empty, _UNKNOWN)
        )
        return F.struct(
            field["name"].alias("name"),
            F.coalesce(character["value"], content["value"], plain, F.when(~empty, "a value of an unknown type")).alias("text"),
            kind.alias("kind"),
            F.lower(character["charset"]).alias("charset"),
            F.coalesce(value["member_EmptyObject"] == "NONE", F.lit(False)).alias("is_missing"),
        )

    return F.zip_with(record["fields"]["member_array"], record[name]["member_array"], entry)


def _instant(value: Expr) -> Expr:
    """Prints a TIMESTAMP in UTC. MySQL does not store second 0: it stands for 0000-00-00 00:00:00."""
    micros = value["timestamp"] * 1_000_000 + F.coalesce(value["millis"], F.lit(0))
    printed = F.date_format(F.timestamp_micros(micros), "yyyy-MM-dd HH:mm:ss.SSSSSS")
    return F.when(micros == 0, "0000-00-00 00:00:00").otherwise(printed)


def _date_time(value: Expr, number: Expr) -> Expr:
    """Prints a date, a time or both as MySQL does, by the column's type number. A time with a negative part is negative."""
    year, month, day, hour, minute, second = (
        F.lpad(F.abs(value[part]).cast("string"), 4 if part == "year" else 2, "0") for part in _PARTS[:-1]
    )
    hours = F.when(F.abs(value["hour"]) > 99, F.abs(value["hour"]).cast("string")).otherwise(hour)
    micros = F.coalesce(value["millis"], F.lit(0))
    fraction = F.when(micros == 0, "").otherwise(F.concat(F.lit("."), F.lpad(F.abs(micros).cast("string"), 6, "0")))
    lowest = F.least(*(F.coalesce(value[part], F.lit(0)) for part in _PARTS[3:]))
    date = F.concat_ws("-", F.array(year, month, day))
    time = F.concat(F.when(lowest < 0, "-").otherwise(""), hours, F.lit(":"), minute, F.lit(":"), second, fraction)
    whole = F.concat(year, F.lit("-"), month, F.lit("-"), day)
    printed = F.when(number == _YEAR, year).when(number == _DATE, whole).when(number == _TIME, time)
    printed = printed.otherwise(F.when(lowest >= 0, F.concat(whole, F.lit(" "), time)))
    return F.when(value.isNotNull(), F.coalesce(printed, F.concat(F.lit("incomplete: "), date)))


def _image(entries: Expr) -> Expr:
    """Returns an image as a map from column to text, without the columns that are marked as missing."""
    said = F.filter(entries, lambda entry: ~entry["is_missing"])
    return F.map_from_arrays(F.transform(said, lambda entry: entry["name"]), F.transform(said, lambda entry: entry["text"]))


def _written(before: Expr, after: Expr) -> Expr:
    """Returns map entries from column to encoding, for the values of both images."""
    none = F.array().cast("array<struct<name: string, text: string, kind: string, charset: string, is_missing: boolean>>")
    both = F.filter(F.concat(F.coalesce(after, none), F.coalesce(before, none)), lambda entry: entry["kind"].isNotNull())

    def said(entry: Expr) -> Expr:
        kind = F.struct(entry["kind"].alias("type"), entry["charset"].alias("name"), F.lit(None).cast("int").alias("scale"))
        return F.struct(entry["name"].alias("key"), kind.alias("value"))

    return F.array_distinct(F.transform(both, said))


def _reason(record: Expr, before: Expr, after: Expr, written: Expr) -> Expr:
    """Returns why a change record is bad; NULL if it is not."""
    kind, names = record["operation"], record["fields"]["member_array"]["name"]
    is_change = kind.isin(*_CHANGES)

    def lacks(image: Expr, name: str) -> Expr:
        return F.coalesce(image.isNull() | (F.size(names) != F.size(record[name]["member_array"])), F.lit(True))

    uneven = (kind.isin("UPDATE", "DELETE") & lacks(before, "beforeImages")) | ((kind != "DELETE") & lacks(after, "afterImages"))
    doubled = F.size(F.array_distinct(names)) < F.size(names)
    of_two_kinds = F.size(F.array_distinct(written["key"])) < F.size(written)
    from_mysql = F.coalesce(record["source"]["sourceType"].isin(*_MYSQL), F.lit(False))
    return (
        F.when(~from_mysql, "the record is not from MySQL: other sources number types differently")
        .when(is_change & uneven, "the record does not have one value per field")
        .when(is_change & doubled, "the record has a field twice")
        .when(is_change & of_two_kinds, "the record has values of two types for a field")
    )


def _name(name: Expr) -> Expr:
    parts = F.transform(F.split(name, r"\."), lambda part: F.replace(part, F.lit(_POINT), F.lit(".")))
    whole = F.size(parts) == 2
    return name_of(F.when(whole, F.get(parts, F.lit(0))), F.when(whole, F.get(parts, F.lit(1))))


def dts_avro() -> Format:
    """The format `dts-avro`."""
    return DtsAvro(spec=format_spec("dts-avro"))
