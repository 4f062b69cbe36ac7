"""Reads Parquet files as records, each row as a JSON object; inside Spark.

    RecordFile ... -> open_parquet (footers only: columns and number of rows of each file) -> ParquetFiles -> records

Spark's reader numbers the rows of a file, however it splits the file. Files with the same columns are read together: with a merged schema,
a column that a file lacks would look like NULL.
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import reduce
from typing import Final
from urllib.parse import unquote

from pyspark.sql import Column as Expr
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from cdc_ops.core.events.change_feed import RECORD_COLUMNS
from cdc_ops.errors import ArchiveFileError
from cdc_ops.formats.feed.values import any_of
from cdc_ops.formats.files.json_lines import FileLines, RecordFile, by_place, escaped, file_lines, path_of
from cdc_ops.lake.spark.local_rows import local_rows

_TYPES: Final = dict(RECORD_COLUMNS)
_PLACES: Final = {"__uri": "string", "__known": "bigint", "file": "string", "partition": "int", "__start": "bigint"}
_AT_ONCE: Final = 8
_JSON: Final = {
    "ignoreNullFields": "false",
    "timeZone": "UTC",
    "timestampFormat": "yyyy-MM-dd HH:mm:ss.SSSSSS",
    "timestampNTZFormat": "yyyy-MM-dd HH:mm:ss.SSSSSS",
}
_REPLACED: Final = "The file was replaced after its rows were counted. Nothing was applied; the next try counts again: "


@dataclass(frozen=True, slots=True, kw_only=True)
class ParquetFiles:
    """Files whose footers have been read.

    Args:
        files: The counts of each file, in the order of the request.
        groups: Each schema, with the URIs of its files.
        places: One row per file that has rows: its URI, number of rows, path, partition and first offset.
    """

    files: tuple[FileLines, ...]
    groups: tuple[tuple[T.StructType, tuple[str, ...]], ...]
    places: tuple[tuple[object, ...], ...]


def open_parquet(spark: SparkSession, files: Sequence[RecordFile]) -> ParquetFiles:
    """Reads the footers of files: actions that read no rows.

    Raises:
        ArchiveFileError: a file's name does not end with `.parquet`.
        ValueError: a URI is not absolute, or two files have the same one.
    """
    at = by_place(files)
    for file in at.values():
        _check_name(file)
    uris = [file.uri for file in at.values()]
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        schemas = list(pool.map(lambda uri: spark.read.parquet(escaped(uri)).schema, uris))
    groups: dict[str, tuple[T.StructType, list[str]]] = {}
    for uri, schema in zip(uris, schemas, strict=True):
        groups.setdefault(schema.json(), (schema, []))[1].append(uri)
    lines, places = dict[str, int](), list[tuple[object, ...]]()
    for schema, members in groups.values():
        counted = _read(spark, schema, members).groupBy(F.col("_metadata.file_path").alias("uri")).count().collect()
        for uri, rows in ((row["uri"], int(row["count"])) for row in counted):
            file = at[unquote(path_of(uri))]
            lines[file.path] = rows
            places.append((uri, rows, file.path, file.partition, file.start_offset))
    return ParquetFiles(
        files=file_lines(files, lines),
        groups=tuple((schema, tuple(members)) for schema, members in groups.values()),
        places=tuple(places),
    )


def parquet_records(spark: SparkSession, opened: ParquetFiles) -> DataFrame:
    """Returns the rows of files as JSON objects, with the columns of `core.events.change_feed.RECORD_COLUMNS`.

    Instants are written in UTC without a zone, bytes as base64. A row with text that is not UTF-8 stays that text, and becomes bad.
    """
    if not opened.places:
        return local_rows(spark, (), dict(RECORD_COLUMNS))
    rows = reduce(DataFrame.unionAll, (_rows(_read(spark, schema, members), schema) for schema, members in opened.groups))
    places = F.broadcast(local_rows(spark, opened.places, _PLACES))
    moved = F.col("__known").isNull() | (F.col("line") >= F.col("__known"))
    checked = F.when(moved, F.raise_error(F.concat(F.lit(_REPLACED), F.col("__uri"))))
    rows = rows.join(places, "__uri", "left").withColumn("value", checked.otherwise(F.col("value")))
    given = {"offset": F.col("__start") + F.col("line")}
    return rows.select(*(given.get(name, F.col(name)).cast(kind).alias(name) for name, kind in _TYPES.items()))


def _read(spark: SparkSession, schema: T.StructType, uris: Sequence[str]) -> DataFrame:
    options = {"recursiveFileLookup": "true", "ignoreCorruptFiles": "false", "ignoreMissingFiles": "false"}
    return spark.read.schema(schema).options(**options).parquet(*(escaped(uri) for uri in uris))


def _rows(frame: DataFrame, schema: T.StructType) -> DataFrame:
    # Decimals as text: JSON readers read numbers with a fraction as 64-bit doubles.
    columns = [
        _named(field.name).cast("string").alias(field.name) if isinstance(field.dataType, T.DecimalType) else _named(field.name)
        for field in schema.fields
    ]
    row = F.to_json(F.struct(*columns), _JSON)
    texts = [_named(field.name) for field in schema.fields if isinstance(field.dataType, T.StringType)]
    if texts:
        garbled = any_of([~F.is_valid_utf8(text) for text in texts])
        row = F.when(garbled, F.concat_ws(",", *texts)).otherwise(row)
    place = (F.col("_metadata.file_path").alias("__uri"), F.col("_metadata.row_index").alias("line"))
    return frame.select(row.alias("value"), *place)


def _named(name: str) -> Expr:
    return F.col("`" + name.replace("`", "``") + "`")


def _check_name(file: RecordFile) -> None:
    if not file.path.endswith(".parquet"):
        raise ArchiveFileError(
            f"{file.path} cannot be read: its name does not end with '.parquet'.",
            why="The format of the archive needs Parquet files, and Parquet compresses inside the file, not around it.",
            data="Nothing of the batch was read.",
            next="Correct the format, or remove the file from the archive.",
        )
