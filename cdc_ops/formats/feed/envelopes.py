"""JSON text of records into columns, and the pieces of envelopes that formats share; Spark expressions only."""

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

TOMBSTONE: Final = "tombstone"
_NOT_UTF8: Final = "the record is not valid UTF-8; 'raw' has its bytes as base64"


def parsed(records: DataFrame, layout: str, take: Callable[[Expr], Expr] = lambda document: document) -> DataFrame:
    """Parses `value` into a struct `r` of the given layout, or into what `take` makes of that: of what is used in many places once.

    Fields declared as string keep their JSON text as it is, numbers digit by digit. What is no JSON, does not fit, or has anything but
    blanks behind its JSON, has no `r`.

    A record is parsed once. Spark moves expressions to where they are used: a filter would parse each record once, each column that has a
    condition once more. And parsers stop where a document ends, whatever follows: within brackets, with a mark behind it, it has to end
    there.
    """
    return _parsed_once(records, f"struct<{layout}, {_END} boolean>", "r", lambda first, last: first[_END].isNull() & last[_END], take)


def parsed_members(records: DataFrame, *, lower: bool = True) -> DataFrame:
    """Parses `value` into a map `m` of the texts of its members, by their names in lower case or as they are; otherwise as `parsed`.

    An object that has two members of one name has no `m`.
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
    """Returns records with their document as a column of that name and type, NULL if a record is not just one.

    Args:
        records: With their text in `value`.
        kind: Type of a document, and of the mark behind it.
        name: Of the new column.
        is_marked: True if of two documents, only the second one is the mark.
        take: What becomes of the document.
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
    """Returns a value that is computed where it stands, and once: Spark moves and repeats nothing that has a running number in it."""
    return F.when(F.monotonically_increasing_id() >= 0, value)


def is_doubled(image: Expr) -> Expr:
    """True for an image that names a column twice: a parser of JSON takes the last of both, a look into a map the first."""
    return F.size(F.array_distinct(F.map_keys(image))) < F.size(image)


def is_tombstone() -> Expr:
    """True for records without a value: after a delete, Kafka's way to forget a key."""
    return F.col("value").isNull() | F.trim(F.col("value")).isin("", "null")


def is_corrupt() -> Expr:
    """True for records that are no JSON of the layout, or more than that."""
    return F.col("r").isNull()


def is_garbled() -> Expr:
    """True for records whose bytes are no UTF-8: parsers put U+FFFD for such bytes, and nothing would show that they did."""
    return ~F.coalesce(F.is_valid_utf8("value"), F.lit(True))


def kafka_offset() -> Expr:
    """The record's offset in its Kafka partition, where the archive keeps it: the last tie-break of re-delivered events."""
    return F.coalesce(F.col("offset"), F.lit(LANDED_NUMBER)).cast("bigint")


def envelopes(frame: DataFrame, facts: FormatSpec, columns: dict[str, Expr]) -> DataFrame:
    """Returns the envelopes of a parsed frame; what a format does not say is NULL.

    Records that are no JSON of the layout, or no text, become `bad`, tombstones `control`, whatever the format says of them.
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
    return frame.select(*shown, columns["position"].cast(facts.position_type).alias("position"))


def name_of(schema: Expr, name: Expr) -> Expr:
    """Returns the `table` of an envelope."""
    return F.struct(schema.cast("string").alias("schema"), name.cast("string").alias("name"))


def completed(before: Expr, after: Expr) -> Expr:
    """Returns an image with what it leaves out taken from the row before: columns that an update does not name kept their values."""
    lacking = F.map_filter(before, lambda name, _: ~F.map_contains_key(after, name))
    return F.when((F.size(before) > F.size(after)) & ~is_doubled(after) & ~is_doubled(before), F.map_concat(lacking, after)).otherwise(
        after
    )


_COMMENTS: Final = r"(?is)^(?:\s|/\*.*?\*/|(?:--\s|#)[^\n]*\n)*"


def is_truncate(statement: Expr) -> Expr:
    """True for the text of a TRUNCATE, which some tools write as one statement among others."""
    return F.coalesce(statement.rlike(_COMMENTS + r"truncate\b"), F.lit(False))


def split_name(name: Expr) -> Expr:
    """Returns the `table` of an envelope from `schema.table`, cut at the first dot."""
    return name_of(F.regexp_extract(name, r"^([^.]*)\.", 1), F.regexp_replace(name, r"^[^.]*\.", ""))


def texts(json: Expr) -> Expr:
    """Returns the members of a JSON object as a map of text."""
    return F.from_json(json, "map<string, string>")


def binlog_place(position: Expr) -> tuple[Expr, Expr]:
    """Returns number and offset of `binlog.000123:4567`."""
    number, offset = (F.regexp_extract(position, r"(\d+):(\d+)$", group).try_cast("bigint") for group in (1, 2))
    return number, offset


def variant_texts(image: Expr) -> Expr:
    """Returns the members of an image that was parsed as variants as text.

    As strings, Spark's parser would pass numbers with a fraction through 64-bit ones; as variants it keeps 38 digits.
    """
    return F.transform_values(image, lambda _, value: F.try_variant_get(value, "$", "string"))
