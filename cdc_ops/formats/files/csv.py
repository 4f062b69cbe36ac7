"""Reads lines of CSV files as records, each row as a JSON object with the names in its file's first record; inside Spark, expressions only.

    read_records (a row per line, numbered exactly) -> csv_records (a row per record, `line` is where it begins)

A quoted value may contain line ends, so a record ends with the first line after which its quotes are balanced. That depends on all lines
before it, so one task joins the lines of a file. Spark's CSV reader is not used: it reads an empty text as NULL, and does not report the
line of a record nor whether a value had quotes.
"""

from dataclasses import dataclass
from typing import Final

from pyspark.sql import Column as Expr
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from cdc_ops.core.events.change_feed import RECORD_COLUMNS

_TYPES: Final = dict(RECORD_COLUMNS)
_CUT: Final = "\x01"
_MARK: Final = "\x02"


@dataclass(frozen=True, slots=True, kw_only=True)
class CsvDialect:
    """How a tool writes CSV, where that differs from RFC 4180.

    Args:
        delimiter: One character.
        null: The text for NULL, without quotes.
        missing: The text for a value that the tool does not have, "" = there is no such text.
        columns: Column names that every file has. If the first record of a file lacks them, the file has no line of column names.
    """

    delimiter: str = ","
    null: str = "NULL"
    missing: str = ""
    columns: tuple[str, ...] = ()


def csv_records(lines: DataFrame, dialect: CsvDialect) -> DataFrame:
    """Returns the rows of CSV files as JSON objects; the first record of each file has the column names.

    A record that does not fit its file's columns (more or fewer values, open quotes, bytes that are not UTF-8, no column names) stays text.
    Formats then make it a bad record.

    Args:
        lines: All lines of each file, with the columns of `core.events.change_feed.RECORD_COLUMNS`.
        dialect: How the tool writes CSV.
    """
    in_file = Window.partitionBy("file").orderBy("line")
    quotes = F.length("value") - F.length(F.replace("value", F.lit('"'), F.lit("")))
    before = F.coalesce(F.sum(quotes).over(in_file.rowsBetween(Window.unboundedPreceding, -1)), F.lit(0))
    numbered = lines.select("*", ((before % 2) == 0).cast("int").alias("__begins"))
    numbered = numbered.select("*", F.sum("__begins").over(in_file.rowsBetween(Window.unboundedPreceding, 0)).alias("__record"))
    together = F.array_join(F.transform(F.array_sort(F.collect_list(F.struct("line", "value"))), lambda item: item["value"]), "\n")
    records = numbered.groupBy("file", "__record").agg(
        together.alias("__text"), *(F.min(name).alias(name) for name in ("line", "partition", "offset"))
    )
    head = F.first_value("__text").over(in_file.rowsBetween(Window.unboundedPreceding, 0))
    split = records.select("*", _values(head, dialect).alias("__head"), _values(F.col("__text"), dialect).alias("__values"))
    named = F.size(F.array_except(F.array(*map(F.lit, dialect.columns)), F.col("__head"))) == 0 if dialect.columns else F.lit(True)
    split = split.select("*", F.when(named, F.col("__head")).alias("__names"))
    names, found = F.col("__names"), F.col("__values")
    rows = split.where((F.col("__record") > 1) | names.isNull())
    fits = names.isNotNull() & found.isNotNull() & (F.size(names) == F.size(found)) & (F.size(F.array_distinct(names)) == F.size(names))
    pairs = F.filter(F.arrays_zip(names.alias("name"), found.alias("value")), lambda pair: ~_is(pair["value"], dialect.missing))
    row = F.to_json(F.map_from_entries(F.when(fits & F.is_valid_utf8("__text"), pairs)))
    given = {"value": F.coalesce(row, F.col("__text"))}
    return rows.select(*(given.get(name, F.col(name)).cast(kind).alias(name) for name, kind in _TYPES.items()))


def _is(value: Expr, mark: str) -> Expr:
    return F.coalesce(value == mark, F.lit(False)) if mark else F.lit(False)


def _values(text: Expr, dialect: CsvDialect) -> Expr:
    """Returns the values of a record as an array, with NULL for NULL; the array is NULL if quotes are misplaced.

    Split at quotes, every second piece is inside quotes, and a doubled quote is an empty piece outside. So delimiters outside are found
    without a regular expression, whose stack would grow with the number of quotes in a value.
    """
    marked = F.replace(F.replace(text, F.lit(_MARK), F.lit(f"{_MARK}b")), F.lit(_CUT), F.lit(f"{_MARK}a"))
    pieces = F.split(marked, '"')
    outside = F.transform(
        pieces, lambda piece, at: F.when(at % 2 == 0, F.replace(piece, F.lit(dialect.delimiter), F.lit(_CUT))).otherwise(piece)
    )
    fields = F.split(F.array_join(outside, '"'), _CUT)
    bent = F.exists(fields, lambda field: field.contains('"') & ~((F.length(field) >= 2) & field.startswith('"') & field.endswith('"')))
    return F.when((F.size(pieces) % 2 == 1) & ~bent, F.transform(fields, lambda field: _value(field, dialect)))


def _value(field: Expr, dialect: CsvDialect) -> Expr:
    inner = F.replace(F.substring(field, F.lit(2), F.length(field) - 2), F.lit('""'), F.lit('"'))
    text = F.when(field.startswith('"'), inner).otherwise(field)
    plain = F.replace(F.replace(text, F.lit(f"{_MARK}a"), F.lit(_CUT)), F.lit(f"{_MARK}b"), F.lit(_MARK))
    return F.when(field != dialect.null, plain)
