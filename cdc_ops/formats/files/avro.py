"""Reads Avro files as records, each as the JSON document that Kafka Connect's JsonConverter writes for it; inside Spark.

    RecordFile ... -> open_avro (headers; one scan that counts) -> AvroFiles -> avro_records

Files with the same schema are read together, with that schema: with a merged schema, a column that a file lacks would look like NULL.
Logical types are removed from the schema, so that Spark converts no value: numbers stay numbers, decimals stay bytes.

Spark splits files at their blocks and has no row numbers, so rows get checked numbers in the same way as lines: see
`formats.files.json_lines`.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import reduce
from typing import Any, Final
from urllib.parse import unquote

from pyspark.sql import Column as Expr
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from cdc_ops.core.archive.avro_header import AvroHeader, FileEnds, header_of
from cdc_ops.core.events.change_feed import RECORD_COLUMNS
from cdc_ops.core.text import quoted
from cdc_ops.errors import ArchiveFileError
from cdc_ops.events.records.avro_schemas import connect_schema, for_counting, has_choices, without_logical_types
from cdc_ops.formats.files.json_lines import (
    SCAN_KEY,
    FileLines,
    Place,
    RecordFile,
    blocks_of,
    by_place,
    escaped,
    file_lines,
    numbered,
    path_of,
    places_of,
    scan_place,
)
from cdc_ops.lake.spark.local_rows import local_rows

_AT_ONCE: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class _Group:
    """Files with the same schema."""

    schema: Mapping[str, Any]
    uris: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AvroFiles:
    """Files whose records have been counted.

    Args:
        files: The counts of each file, in the order of the request.
        groups: The files that have records, by schema.
        places: The blocks of all files, from which a record's number follows.
    """

    files: tuple[FileLines, ...]
    groups: tuple[_Group, ...]
    places: tuple[Place, ...]


def open_avro(spark: SparkSession, files: Sequence[RecordFile], ends: FileEnds) -> AvroFiles:
    """Counts the records of files: an action, one scan that decodes as little of each record as it can.

    Args:
        spark: The session, in which the records are read too.
        files: The files to open.
        ends: Reads the first and last bytes of a file.

    Raises:
        ArchiveFileError: a file is not an Avro file, is incomplete, or cannot be read.
        ValueError: a URI is not absolute, or two files have the same one.
    """
    at = by_place(files)
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        headers = dict(zip(at, pool.map(lambda file: _header(file, ends), at.values()), strict=True))
    members: dict[str, list[RecordFile]] = {}
    for place, header in headers.items():
        if at[place].size > header.size:
            members.setdefault(header.schema, []).append(at[place])
    groups = tuple(_group(text, of_schema) for text, of_schema in members.items())
    records, places = _counted(spark, groups, [file for of_schema in members.values() for file in of_schema]) if groups else ({}, ())
    return AvroFiles(files=file_lines(files, records), groups=groups, places=places)


def avro_records(spark: SparkSession, opened: AvroFiles) -> DataFrame:
    """Returns the records of files as JSON documents, with the columns of `core.events.change_feed.RECORD_COLUMNS`.

    A document is `{"schema": …, "payload": …}` as JsonConverter writes it, or only the payload if the file lacks Kafka Connect's types.
    Bytes are base64. `line` counts records from 0 in their file; `offset` is the file's first offset plus `line`.

    A value of a union of several types is an object with one member, `member_<name of the type>`; records with such values have no NULL
    members.
    """
    if not opened.groups:
        return local_rows(spark, (), dict(RECORD_COLUMNS))
    rows = reduce(DataFrame.unionAll, (_documents(_scan(spark, group.schema, group.uris), group.schema) for group in opened.groups))
    return numbered(spark, rows, opened.places, "records")


def _header(file: RecordFile, ends: FileEnds) -> AvroHeader:
    """Returns the header of a file, after a check of both ends of the file that it is complete."""
    try:
        return header_of(ends, file.path, file.size)
    except (EOFError, ValueError) as error:
        raise _unreadable(file, str(error)) from None


def _group(text: str, files: Sequence[RecordFile]) -> _Group:
    schema = json.loads(text)
    if not isinstance(schema, dict) or schema.get("type") != "record":
        raise _unreadable(files[0], "its schema is not a record schema")
    return _Group(schema=schema, uris=tuple(file.uri for file in files))


def _counted(spark: SparkSession, groups: Sequence[_Group], files: Sequence[RecordFile]) -> tuple[dict[str, int], tuple[Place, ...]]:
    """Returns the number of records of each file, and the blocks of all files."""
    scans = (_scan(spark, for_counting(group.schema), group.uris).select(*SCAN_KEY, "__id") for group in groups)
    counted = reduce(DataFrame.unionAll, scans).groupBy(*SCAN_KEY).agg(F.min("__id"), F.count("*"), F.max("__id"))
    try:
        blocks = counted.collect()
    except Exception as error:  # each kind of session raises another class for a failed task
        if "FAILED_READ_FILE" in str(error):
            raise _damaged(files, str(error)) from error
        raise
    records = {}
    places: list[Place] = []
    for file, parts in blocks_of(by_place(files), blocks):
        records[file.path] = sum(part.rows for part in parts)
        if not parts:
            raise _unreadable(file, "Spark found no record in it, although it is longer than its header")
        places += places_of(file, parts, records[file.path])
    return records, tuple(places)


def _scan(spark: SparkSession, schema: Mapping[str, Any], uris: Sequence[str]) -> DataFrame:
    """Returns the records of files, each with its block and a running number."""
    options = {
        "avroSchema": json.dumps(without_logical_types(schema)),
        "enableStableIdentifiersForUnionType": "true",
        **{"recursiveFileLookup": "true", "ignoreCorruptFiles": "false", "ignoreMissingFiles": "false"},
    }
    rows = spark.read.format("avro").options(**options).load([escaped(uri) for uri in uris])
    return rows.select(F.struct(*(F.col(quoted(name)) for name in rows.columns)).alias("__row"), *scan_place())


def _documents(scan: DataFrame, schema: Mapping[str, Any]) -> DataFrame:
    described = connect_schema(schema)
    # Spark reads a value of one of several types as a struct with a member per type; only the member that is not NULL matters.
    payload = F.to_json(F.col("__row"), {"ignoreNullFields": str(has_choices(schema)).lower()})
    document = payload if described is None else F.concat(F.lit(f'{{"schema":{described},"payload":'), payload, F.lit("}"))
    texts = list(_texts(scan.schema["__row"].dataType, F.col("__row")))
    if texts:  # to_json would replace bytes that are not UTF-8 by U+FFFD in silence
        joined = F.concat_ws(",", *texts)
        document = F.when(~F.is_valid_utf8(joined), joined).otherwise(document)
    return scan.select(document.alias("value"), *SCAN_KEY, "__id")


def _texts(kind: T.DataType, value: Expr) -> Iterator[Expr]:
    """Yields the text columns of a record, also those in nested records."""
    match kind:
        case T.StringType():
            yield value
        case T.StructType():
            for field in kind.fields:
                yield from _texts(field.dataType, value[field.name])
        case _:
            return


def _damaged(files: Sequence[RecordFile], said: str) -> ArchiveFileError:
    named = [file for file in files if path_of(file.uri) in unquote(said)]
    reasons = re.findall(r"Caused by: (?:[\w.$]+: )*(.*)", said)
    return _unreadable((named or files)[0], reasons[-1] if reasons else said.splitlines()[0])


def _unreadable(file: RecordFile, why: str) -> ArchiveFileError:
    return ArchiveFileError(
        f"{file.path} cannot be read: {why}.",
        why="The file is damaged or incomplete, or the 'format' of the archive is wrong.",
        data="Nothing of the batch was read or applied; the watermark stays.",
        next="Write the file again as the sink made it, or correct the format of the archive. If its records are lost, remove the file:"
        " its offsets are then a gap, which you can accept.",
    )
