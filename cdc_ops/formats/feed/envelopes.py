"""Parses the JSON text of records into columns, and builds the parts of envelopes that formats share; Spark expressions only."""

from collections.abc import Callable
from typing import Final

from pyspark.sql import Column as Expr
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from cdc_ops.core.events.change_feed import LANDED_NUMBER
from cdc_ops.core.events.format_spec import FormatSpec, RecordKind
from cdc_ops.formats.feed.format import ENVELOPE

_END: Final = "__cdc_ops_end"
_CORRUPT: Final = "_corrupt"
_FOUND: Final = "__found"
_TYPES: Final = dict(ENVELOPE)
_FIRST_SECOND, _LAST_SECOND = -62_135_596_800, 253_402_300_799

TOMBSTONE: Final = "tombstone"
_NOT_UTF8: Final = "the record is not valid UTF-8; 'raw' has its bytes as base64"


def parsed(records: DataFrame, layout: str, take: Callable[[Expr], Expr] = lambda document: document) -> DataFrame:
    """Parses `value` into a struct `r` of the given layout; `take` converts the parsed document once, where many columns use the result.

    Fields declared as string keep their JSON text, with all digits of numbers. `r` is NULL if the text is not JSON, does not fit the
    layout, or has more than blanks after the document.

    Each record is parsed once. Without care Spark would copy the parser into each filter and each condition that uses its result.
    Parsers also ignore text after a document. So the text is parsed as an array of the document and an end mark: any other text between
    them makes it invalid.
    """
    return _parsed_once(records, f"struct<{layout}, {_END} boolean>", "r", lambda first, last: first[_END].isNull() & last[_END], take)


def parsed_members(records: DataFrame, *, lower: bool = True) -> DataFrame:
    """Parses `value` into a map `m` of the texts of its members. Keys are the members' names, in lower case unless `lower` is False.

    `m` is NULL for text that `parsed` rejects, and for an object that has two members of one name.
    """
    frame = _parsed_once(records, "map<string, string>", "__m", lambda first, last: F.try_element_at(last, F.lit(_END)) == "true")
    names = F.transform(F.map_keys("__m"), F.lower) if lower else F.map_keys("__m")
    alone = F.size(F.array_distinct(names)) == F.size(names)
    return frame.withColumn("m", F.when(alone, F.map_from_arrays(names, F.map_values("__m")))).drop("__m")


def _parsed_once(
    records: DataFrame,
    kind: str,
    name: str,
    is_marked: Callable[[Expr, Expr], Expr],
    take: Callable[[Expr], Expr] = lambda document: document,
) -> DataFrame:
    """Returns records with their document as a column of the given name and type, NULL if a record is not exactly one document.

    Args:
        records: With their text in `value`.
        kind: Type of a document, and of the mark behind it.
        name: Of the new column.
        is_marked: Given two array elements: True if only the second is the end mark.
        take: Converts the parsed document into the column's value.
    """
    marked = F.concat(F.lit('{"d":['), F.col("value"), F.lit(f',{{"{_END}":true}}]}}'))
    options = {"columnNameOfCorruptRecord": _CORRUPT, "mode": "PERMISSIVE"}
    parsed_text = F.from_json(marked, f"d array<{kind}>, {_CORRUPT} string", options)

    def document(found: Expr) -> Expr:
        first, last = F.get(found["d"], F.lit(0)), F.get(found["d"], F.lit(1))
        return F.when(found[_CORRUPT].isNull() & (F.size(found["d"]) == 2) & is_marked(first, last), take(first))

    found = records.select("*", _kept(parsed_text).alias(_FOUND))
    return found.select(*records.columns, _kept(document(F.col(_FOUND))).alias(name))


def _kept(value: Expr) -> Expr:
    """Returns a value that Spark computes once, in this place: Spark neither moves nor repeats expressions with a running number."""
    return F.when(F.monotonically_increasing_id() >= 0, value)


def is_doubled(image: Expr) -> Expr:
    """True for an image that has a column twice: a JSON parser would take the last value, a map look-up the first."""
    return F.size(F.array_distinct(F.map_keys(image))) < F.size(image)


def is_tombstone() -> Expr:
    """True for records without a value (none, blanks, or `null`), which follow a delete so that Kafka's compaction forgets the key."""
    return F.col("value").isNull() | F.trim(F.col("value")).isin("", "null")


def is_corrupt() -> Expr:
    """True for records that are not JSON of the layout, or have text after it."""
    return F.col("r").isNull()


def is_garbled() -> Expr:
    """True for records whose bytes are not UTF-8: a parser would replace these bytes by U+FFFD in silence."""
    return ~F.coalesce(F.is_valid_utf8("value"), F.lit(True))


def kafka_offset() -> Expr:
    """Returns the record's offset in its Kafka partition, -1 without one: it orders deliveries of the same event."""
    return F.coalesce(F.col("offset"), F.lit(LANDED_NUMBER)).cast("bigint")


def envelopes(frame: DataFrame, spec: FormatSpec, columns: dict[str, Expr]) -> DataFrame:
    """Returns the envelopes of a parsed frame. Columns that the format does not give are NULL.

    Records that are not JSON of the layout, or not UTF-8, become `bad`, and tombstones `control`, whatever kind the format gives them.
    """
    frame, garbled = frame.withColumn("__garbled", is_garbled()), F.col("__garbled")
    raw = F.when(garbled, F.base64("value")).otherwise(F.col("value"))
    given = {"raw": raw, "file": F.col("file"), "line": F.col("line"), **columns}
    none, bad = is_tombstone(), garbled | is_corrupt()
    given["kind"] = F.when(none, RecordKind.CONTROL.value).when(bad, RecordKind.BAD.value).otherwise(columns["kind"])
    reason = F.when(none, None).when(garbled, _NOT_UTF8).when(bad, "the record is not JSON of this format")
    given["reason"] = reason.when(given["kind"] == RecordKind.BAD, columns.get("reason", F.lit("the record has an unknown kind")))
    change = given["kind"] == RecordKind.CHANGE
    for name in ("op", "before", "after", "types"):
        given[name] = F.when(change, columns[name]) if name in columns else F.lit(None)
    given["snapshot"] = F.coalesce(columns.get("snapshot", F.lit(False)), F.lit(False))
    shown = [given.get(name, F.lit(None)).cast(kind).alias(name) for name, kind in _TYPES.items()]
    return frame.select(*shown, columns["position"].cast(spec.position_type).alias("position"))


def name_of(schema: Expr, name: Expr) -> Expr:
    """Returns the `table` struct of an envelope."""
    return F.struct(schema.cast("string").alias("schema"), name.cast("string").alias("name"))


def completed(before: Expr, after: Expr) -> Expr:
    """Returns an image with its missing columns filled from the before image: an update keeps values that it does not name."""
    lacking = F.map_filter(before, lambda name, _: ~F.map_contains_key(after, name))
    return F.when((F.size(before) > F.size(after)) & ~is_doubled(after) & ~is_doubled(before), F.map_concat(lacking, after)).otherwise(
        after
    )


_COMMENTS: Final = r"(?is)^(?:\s|/\*.*?\*/|(?:--\s|#)[^\n]*\n)*"


def is_truncate(statement: Expr) -> Expr:
    """True for the text of a TRUNCATE statement, which some tools write as DDL."""
    return F.coalesce(statement.rlike(_COMMENTS + r"truncate\b"), F.lit(False))


def split_name(name: Expr) -> Expr:
    """Returns the `table` struct of an envelope from `schema.table`, split at the first dot."""
    return name_of(F.regexp_extract(name, r"^([^.]*)\.", 1), F.regexp_replace(name, r"^[^.]*\.", ""))


def moment_of(number: Expr, per_second: int = 1000) -> Expr:
    """Returns when the source says that something happened, from units since 1970; NULL beyond the years 1 to 9999.

    Spark fails the whole job at a number that is too large for a time, and one such record would stop the table.
    """
    known = number.between(_FIRST_SECOND * per_second, (_LAST_SECOND + 1) * per_second - 1)
    return F.when(known, F.timestamp_seconds(number) if per_second == 1 else F.timestamp_millis(number))


def texts(json: Expr) -> Expr:
    """Returns the members of a JSON object as a map of text."""
    return F.from_json(json, "map<string, string>")


def binlog_place(position: Expr) -> tuple[Expr, Expr]:
    """Returns file number and offset of a place such as `binlog.000123:4567`."""
    number, offset = (F.regexp_extract(position, r"(\d+):(\d+)$", group).try_cast("bigint") for group in (1, 2))
    return number, offset


def variant_texts(image: Expr) -> Expr:
    """Returns an image of variants as a map of text.

    As strings, Spark's parser would pass numbers with a fraction through 64-bit ones; as variants it keeps 38 digits.
    """
    return F.transform_values(image, lambda _, value: F.try_variant_get(value, "$", "string"))
