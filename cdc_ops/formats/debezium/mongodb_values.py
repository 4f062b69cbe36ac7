"""Reads values of MongoDB's documents, in all spellings of extended JSON that Debezium's connector writes; Spark expressions only.

    v1 strict      {"$numberLong": "5"}   {"$date": 1709283600000}                     {"$binary": "AP8=", "$type": "00"}
    v2 relaxed     5                      {"$date": "2024-03-01T09:00:00Z"}            {"$binary": {"base64": "AP8=", "subType": "00"}}
    v2 canonical   {"$numberLong": "5"}   {"$date": {"$numberLong": "1709283600000"}}  {"$binary": {"base64": "AP8=", "subType": "00"}}

Each value is read by its declared type; a value of another type cannot be read: the text "5" is not a number, the number 0.5 not a decimal.
Layouts: MongoDB's documentation of extended JSON, and the settings with which the connector prints documents.
"""

from collections.abc import Callable
from typing import Final

from pyspark.sql import Column as Expr
from pyspark.sql import functions as F

from cdc_ops.core.schema.mysql_types import DeclaredType
from cdc_ops.core.schema.tables import Column
from cdc_ops.formats.feed import values
from cdc_ops.formats.feed.format import Reading

TEXT: Final = '"'
"""Prefix of a field's value that is a text; the text follows without quotes or escapes."""
IN_PART: Final = "changed in part: "
"""Replaces the value of a field of which the record has only a part."""

_NUMBERS: Final = ("int32", "int64")
_CONNECT: Final[dict[str, tuple[str, ...]]] = {
    **dict.fromkeys(("int", "long"), _NUMBERS),
    "double": ("double", "float64", *_NUMBERS),
    **dict.fromkeys(("decimal", "numeric"), ("string", *_NUMBERS)),
    "bool": ("boolean",),
    "date": ("int64",),
    "bindata": ("bytes",),
}
"""The Kafka Connect types of values of a declared type; values of all other types are text."""
_TIMESTAMP: Final = "org.apache.kafka.connect.data.Timestamp"
_EXACT_DIGITS: Final = 15
"""Whole numbers of up to so many digits are exact as doubles."""
_LAST_MILLI: Final = 9223372036854775
_SPECIAL: Final = ("NaN", "Infinity", "-Infinity")
_WHOLE: Final = r"^-?\d+$"
_DECIMAL: Final = r"^(-?\d+(\.\d+)?(E[+-]?\d+)?|NaN|-?Infinity)$"


def fields_of(document: Expr) -> Expr:
    """Returns the top-level fields of a document as a map of JSON text, with the prefix `TEXT` for texts; NULL if it is not a document."""
    spelled, kinds = F.from_json(document, "map<string, string>"), F.from_json(document, "map<string, variant>")

    def marked(_: Expr, text: Expr, kind: Expr) -> Expr:
        return F.when(F.schema_of_variant(kind) == "STRING", F.concat(F.lit(TEXT), text)).otherwise(text)

    return F.map_zip_with(spelled, kinds, marked)


def read(column: Column, text: Expr) -> Reading:
    """Reads one value of a document. The result is NULL if the value has another type than the column declares.

    Args:
        column: The value's column, declared in MongoDB's types.
        text: The value as `fields_of` returns it.
    """
    plain = F.when(~text.startswith(IN_PART), text)
    readers: dict[str, Callable[[], Reading]] = {
        **dict.fromkeys(("int", "long"), lambda: Reading(value=_whole(plain).try_cast(column.delta_type))),
        "double": lambda: Reading(value=_double(plain)),
        **dict.fromkeys(("decimal", "numeric"), lambda: _decimal(column, plain)),
        "bool": lambda: Reading(value=F.when(plain.isin("true", "false"), plain == "true")),
        "date": lambda: Reading(value=_instant(plain)),
        "objectid": lambda: Reading(value=_of(plain, "oid", r'"([0-9a-fA-F]{24})"')),
        "bindata": lambda: Reading(value=F.try_to_binary(_bytes(plain), F.lit("base64"))),
        "string": lambda: Reading(value=F.when(plain.startswith(TEXT), F.substring(plain, 2, 2**31 - 1))),
        "object": lambda: Reading(value=F.when(plain.startswith("{"), plain)),
        "array": lambda: Reading(value=F.when(plain.startswith("["), plain)),
    }
    return readers.get(DeclaredType.parse(column.source_type).base, lambda: Reading(value=_json(plain)))()


def read_flat(column: Column, text: Expr, kind: Expr) -> Reading:
    """Reads one value of a document that `ExtractNewDocumentState` converted to Kafka Connect's types.

    Args:
        column: The value's column, declared in MongoDB's types, except documents and arrays.
        text: The value as `fields_of` returns it.
        kind: The field's schema, NULL if the record has none.
    """
    base = DeclaredType.parse(column.source_type).base
    is_time = F.coalesce(kind["name"], F.lit("")) == _TIMESTAMP
    fits = kind.isNull() | (kind["type"].isin(*_CONNECT.get(base, ("string",))) & (is_time == F.lit(base == "date")))
    plain = F.when(fits & ~text.startswith(IN_PART), text)
    word = F.when(plain.startswith(TEXT), F.substring(plain, 2, 2**31 - 1))
    number = F.when(plain.rlike(_WHOLE), plain)
    readers: dict[str, Callable[[], Reading]] = {
        **dict.fromkeys(("int", "long"), lambda: Reading(value=number.try_cast(column.delta_type))),
        "double": lambda: Reading(value=F.coalesce(_double(plain), _double(F.when(word.isin(*_SPECIAL), word)))),
        **dict.fromkeys(("decimal", "numeric"), lambda: _digits(column, F.coalesce(F.when(word.rlike(_DECIMAL), word), number))),
        "bool": lambda: Reading(value=F.when(plain.isin("true", "false"), plain == "true")),
        "date": lambda: Reading(value=_since_1970(number.try_cast("bigint"))),
        "objectid": lambda: Reading(value=F.when(word.rlike("^[0-9a-fA-F]{24}$"), word)),
        "bindata": lambda: Reading(value=F.try_to_binary(word, F.lit("base64"))),
    }
    return readers.get(base, lambda: Reading(value=word))()


def _of(text: Expr, name: str, value: str) -> Expr:
    """Returns the value in {"$name": value}, NULL for any other text."""
    pattern = rf'^\{{\s*"\${name}"\s*:\s*{value}\s*\}}$'
    return F.when(text.rlike(pattern), F.regexp_extract(text, pattern, 1))


def _whole(text: Expr) -> Expr:
    number = r'"(-?\d+)"'
    return F.coalesce(F.when(text.rlike(_WHOLE), text), _of(text, "numberLong", number), _of(text, "numberInt", number))


def _double(text: Expr) -> Expr:
    """Reads doubles, and whole numbers that a double holds exactly."""
    whole = _whole(text)
    exact = F.when(F.length(F.translate(whole, "-", "")) <= _EXACT_DIGITS, whole)
    fraction = F.when(text.rlike(r"^-?\d+(\.\d+)?([eE][+-]?\d+)?$") & whole.isNull(), text)
    special = F.when(text.isin(*_SPECIAL), text)
    return F.coalesce(exact, fraction, special, _of(text, "numberDouble", r'"([^"]+)"')).try_cast("double")


def _decimal(column: Column, text: Expr) -> Reading:
    """Reads decimals and whole numbers; NaN and the infinities have only a text form."""
    return _digits(column, F.coalesce(_of(text, "numberDecimal", r'"([^"]+)"'), _whole(text)))


def _digits(column: Column, digits: Expr) -> Reading:
    if DeclaredType.parse(column.delta_type).base != "decimal":
        return Reading(value=digits)
    special = digits.isin(*_SPECIAL)
    return Reading(value=F.when(~special, values.decimal(column, digits).value), unstorable=special)


def _instant(text: Expr) -> Expr:
    millis = F.coalesce(_of(text, "date", r"(-?\d+)"), _of(text, "date", r'\{\s*"\$numberLong"\s*:\s*"(-?\d+)"\s*\}')).try_cast("bigint")
    return F.coalesce(_since_1970(millis), values.zoned_instant(_of(text, "date", r'"([^"]+)"')).value)


def _since_1970(millis: Expr) -> Expr:
    return F.when(millis.between(-_LAST_MILLI, _LAST_MILLI), F.timestamp_millis(millis))


def _bytes(text: Expr) -> Expr:
    """Reads bytes in base64; their kind (`subType`) is dropped."""
    second = r'\{\s*"base64"\s*:\s*"([^"]*)"\s*,\s*"subType"\s*:\s*"[0-9a-fA-F]{1,2}"\s*\}'
    first = r'^\{\s*"\$binary"\s*:\s*"([^"]*)"\s*,\s*"\$type"\s*:\s*"[0-9a-fA-F]{1,2}"\s*\}$'
    return F.coalesce(_of(text, "binary", second), F.when(text.rlike(first), F.regexp_extract(text, first, 1)))


def _json(text: Expr) -> Expr:
    """Returns any value as extended JSON, in the connector's spelling."""
    quoted = F.to_json(F.array(F.substring(text, 2, 2**31 - 1)))
    return F.when(text.startswith(TEXT), F.substring(quoted, F.lit(2), F.length(quoted) - 2)).otherwise(text)
