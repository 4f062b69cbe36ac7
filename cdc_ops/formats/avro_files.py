"""Avro files -> records, each as the JSON document that Kafka Connect's JsonConverter makes of it; inside Spark.

    RecordFile ... -> open_avro (headers; one scan that counts) -> AvroFiles -> avro_records

Files are read in groups of the same schema, each by that schema: a common one would make a column that a file does not have one that is
NULL there. Logical types are left out of it, so that Spark bends no value: numbers stay numbers, decimals stay the bytes that they are.

Spark cuts files at their blocks and numbers nothing, so rows are numbered, and their numbers checked, as lines are: see `formats.files`.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import reduce
from typing import Any, Final, NamedTuple
from urllib.parse import unquote

from pyspark.sql import Column as Expr
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from cdc_ops.core.avro_headers import AvroHeader, FileEnds, header_of
from cdc_ops.core.feeds import RECORD_COLUMNS
from cdc_ops.core.text import quoted
from cdc_ops.errors import ArchiveFileError
from cdc_ops.formats.avro_schemas import connect_schema, for_counting, has_choices, without_logical_types
from cdc_ops.formats.files import FileLines, RecordFile, by_place, escaped, path_of

_TYPES: Final = dict(RECORD_COLUMNS)
_SCAN_KEY: Final = ("__uri", "__start", "__length")
_PLACES: Final = ", ".join(
    (
        *("__uri string", "__start bigint", "__length bigint", "__first bigint", "__rows bigint", "__base bigint"),
        *("file string", "partition int", "__offset bigint"),
    )
)
_AT_ONCE: Final = 8
_MOVED: Final = (
    "The file is not cut as it was when its records were counted, because it was replaced or the number of executors changed meanwhile."
    " Nothing was applied; the next try counts again: "
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Group:
    """Files of one schema."""

    schema: Mapping[str, Any]
    uris: tuple[str, ...]


class _Place(NamedTuple):
    """A part of a file that one task reads; its records have running numbers from `first` on, and `base` are before them in the file."""

    uri: str
    start: int
    length: int
    first: int
    rows: int
    base: int
    file: str
    partition: int | None
    offset: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AvroFiles:
    """Files whose records have been counted.

    Args:
        files: One each, in the order in which they were given.
        groups: The files that have records, by their schemas.
        places: What makes numbers of records of running numbers.
    """

    files: tuple[FileLines, ...]
    groups: tuple[_Group, ...]
    places: tuple[_Place, ...]


def open_avro(spark: SparkSession, files: Sequence[RecordFile], ends: FileEnds) -> AvroFiles:
    """Counts the records of files: an action, one scan that takes no record apart.

    Args:
        spark: The session, in which the records are read too.
        files: Which.
        ends: Shows their first and last bytes.

    Raises:
        ArchiveFileError: a file is not Avro's, ends in the middle, or cannot be read.
        ValueError: a URI is not absolute, or two files have the same one.
    """
    at = by_place(files)
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        headers = dict(zip(at, pool.map(lambda file: _header(file, ends), at.values()), strict=True))
    members: dict[str, list[RecordFile]] = {}
    for place, header in headers.items():
        if at[place].size > header.size:
            members.setdefault(header.schema, []).append(at[place])
    groups = tuple(_group(text, found) for text, found in members.items())
    places = tuple(_places(spark, groups, [file for found in members.values() for file in found])) if groups else ()
    records: dict[object, int] = {}
    for part in places:
        records[part.file] = records.get(part.file, 0) + part.rows
    return AvroFiles(files=tuple(_found(file, records.get(file.path, 0)) for file in files), groups=groups, places=places)


def avro_records(spark: SparkSession, opened: AvroFiles) -> DataFrame:
    """Returns the records of files as JSON documents, with the columns of `core.feeds.RECORD_COLUMNS`.

    A document is `{"schema": …, "payload": …}` as JsonConverter writes it; only the payload, where the file does not say Kafka Connect's
    types. Bytes are base64. `line` counts records from 0 in their file; `offset` is the file's first one plus that.

    A value of a union of several types is an object with one member, `member_<name of the type>`; in records with such values
    what is NULL is left out.
    """
    if not opened.groups:
        return spark.createDataFrame([], ", ".join(f"{name} {kind}" for name, kind in RECORD_COLUMNS))
    rows = reduce(DataFrame.unionAll, (_documents(_scan(spark, group.schema, group.uris), group.schema) for group in opened.groups))
    places = F.broadcast(spark.createDataFrame([*opened.places], _PLACES))
    rows = rows.join(places, [*_SCAN_KEY], "left")
    number = F.col("__id") - F.col("__first")
    moved = F.col("__first").isNull() | (number < 0) | (number >= F.col("__rows"))
    checked = F.when(moved, F.raise_error(F.concat(F.lit(_MOVED), F.col("__uri"))))
    rows = rows.withColumns({"value": checked.otherwise(F.col("value")), "line": checked.otherwise(F.col("__base") + number)})
    given = {"offset": F.col("__offset") + F.col("line")}
    return rows.select(*(given.get(name, F.col(name)).cast(kind).alias(name) for name, kind in _TYPES.items()))


def _header(file: RecordFile, ends: FileEnds) -> AvroHeader:
    """Returns the header of a file that is whole, as far as its two ends show."""
    try:
        return header_of(ends, file.path, file.size)
    except (EOFError, ValueError) as error:
        raise _unreadable(file, str(error)) from None


def _group(text: str, files: Sequence[RecordFile]) -> _Group:
    schema = json.loads(text)
    if not isinstance(schema, dict) or schema.get("type") != "record":
        raise _unreadable(files[0], "its schema is none of records with fields")
    return _Group(schema=schema, uris=tuple(file.uri for file in files))


def _places(spark: SparkSession, groups: Sequence[_Group], files: Sequence[RecordFile]) -> Iterator[_Place]:
    """Yields the parts of all files, in their order in each."""
    scans = (_scan(spark, for_counting(group.schema), group.uris).select(*_SCAN_KEY, "__id") for group in groups)
    counted = reduce(DataFrame.unionAll, scans).groupBy(*_SCAN_KEY).agg(F.min("__id").alias("first"), F.count("*").alias("rows"))
    try:
        blocks = counted.collect()
    except Exception as error:  # what a failed task becomes has another class in each kind of session
        if "FAILED_READ_FILE" in str(error):
            raise _damaged(files, str(error)) from error
        raise
    of_file: dict[str, list[T.Row]] = {}
    for block in sorted(blocks, key=lambda block: int(block["__start"])):
        of_file.setdefault(unquote(path_of(block["__uri"])), []).append(block)
    for place, file in by_place(files).items():
        base = 0
        for uri, start, length, first, rows in of_file.pop(place, ()):
            yield _Place(uri, start, length, first, rows, base, file.path, file.partition, file.start_offset)
            base += rows
        if not base:
            raise _unreadable(file, "Spark saw no record in it, although it is longer than its header")
    if of_file:
        raise AssertionError(f"Spark read files that nobody asked for: {sorted(of_file)}")


def _scan(spark: SparkSession, schema: Mapping[str, Any], uris: Sequence[str]) -> DataFrame:
    """Returns the records of files, with the block that each lies in and a running number."""
    options = {
        "avroSchema": json.dumps(without_logical_types(schema)),
        "enableStableIdentifiersForUnionType": "true",
        **{"recursiveFileLookup": "true", "ignoreCorruptFiles": "false", "ignoreMissingFiles": "false"},
    }
    rows = spark.read.format("avro").options(**options).load([escaped(uri) for uri in uris])
    return rows.select(
        F.struct(*(F.col(quoted(name)) for name in rows.columns)).alias("__row"),
        F.col("_metadata.file_path").alias("__uri"),
        F.col("_metadata.file_block_start").alias("__start"),
        F.col("_metadata.file_block_length").alias("__length"),
        F.monotonically_increasing_id().alias("__id"),
    )


def _documents(scan: DataFrame, schema: Mapping[str, Any]) -> DataFrame:
    described = connect_schema(schema)
    # Of a value of one of several types, Spark makes a struct with a member for each; only the one that it is of is of interest.
    payload = F.to_json(F.col("__row"), {"ignoreNullFields": str(has_choices(schema)).lower()})
    document = payload if described is None else F.concat(F.lit(f'{{"schema":{described},"payload":'), payload, F.lit("}"))
    texts = list(_texts(scan.schema["__row"].dataType, F.col("__row")))
    if texts:  # to_json writes U+FFFD for what is no UTF-8, and nothing would show that it did
        joined = F.concat_ws(",", *texts)
        document = F.when(~F.is_valid_utf8(joined), joined).otherwise(document)
    return scan.select(document.alias("value"), *_SCAN_KEY, "__id")


def _texts(kind: T.DataType, value: Expr) -> Iterator[Expr]:
    """Yields the texts of a record, those of records in it too."""
    match kind:
        case T.StringType():
            yield value
        case T.StructType():
            for field in kind.fields:
                yield from _texts(field.dataType, value[field.name])
        case _:
            return


def _found(file: RecordFile, records: int) -> FileLines:
    return FileLines(path=file.path, partition=file.partition, start_offset=file.start_offset, lines=records)


def _damaged(files: Sequence[RecordFile], said: str) -> ArchiveFileError:
    named = [file for file in files if path_of(file.uri) in unquote(said)]
    reasons = re.findall(r"Caused by: (?:[\w.$]+: )*(.*)", said)
    return _unreadable((named or files)[0], reasons[-1] if reasons else said.splitlines()[0])


def _unreadable(file: RecordFile, why: str) -> ArchiveFileError:
    return ArchiveFileError(
        f"{file.path} cannot be read: {why}.",
        why="It is damaged, was not written to its end, or is of another format than the archive is said to have.",
        data="Nothing of the batch was read or applied; the watermark stays.",
        next="Write the file again as the sink made it, or correct the format of the archive. If its records are lost, take it out of the"
        " archive: what it held is a gap then, which can be accepted.",
    )
