"""Lines of CSV files -> records, each row as a JSON object by the names in its file's first record; inside Spark, expressions only.

    read_records (a row per line, numbered exactly) -> csv_records (a row per record, `line` is where it begins)

A value between quotes may hold ends of lines: a record goes on until its quotes are even. Whether one is, only what stands before it in its
file can tell, so the lines of a file are put together by one task, as a `.gz` file is read by one. Spark's own reader of CSV is not used:
it takes an empty text for NULL, and tells neither which line a record comes from nor whether a value stood between quotes.
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
    """How a tool writes CSV, otherwise as RFC 4180 says.

    Args:
        delimiter: One character.
        null: What stands for NULL, without quotes.
        missing: What stands for a value that the tool does not know, "" = nothing does.
        columns: Names that every file has among those of its columns. A file without them has no names in its first record.
    """

    delimiter: str = ","
    null: str = "NULL"
    missing: str = ""
    columns: tuple[str, ...] = ()


def csv_records(lines: DataFrame, dialect: CsvDialect) -> DataFrame:
    """Returns the rows of CSV files as JSON objects; the first record of each file has the names of its columns.

    What is no row of its file's columns (more or fewer values, quotes that do not end, bytes that are no UTF-8, no names) stays the text
    that it is, which no format takes for a record: it becomes bad, and is not left out.

    Args:
        lines: Columns as in `core.events.change_feed.RECORD_COLUMNS`; all lines of each file.
        dialect: How they are written.
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
    """Returns the values of a record, NULL for NULL; no array if its quotes are not where they have to be.

    Every second piece between quotes lies inside of them, and a quote that is written twice makes an empty piece outside. So delimiters
    outside are found without a regular expression, which would need a stack as deep as a value has quotes.
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
