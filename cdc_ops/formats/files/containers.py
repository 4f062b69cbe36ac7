"""Opens the files of an archive by the container that a format declares: JSON lines, CSV, Parquet, Avro or binlogs; inside Spark.

RecordFile ... -> open_files -> OpenFiles: the number of records of each file, and the records
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from cdc_ops.core.archive.avro_header import FileEnds
from cdc_ops.core.events.format_spec import Container, FormatOptions, FormatSpec, setting
from cdc_ops.core.formats.dms import CSV_DELIMITER, CSV_MISSING, CSV_NULL
from cdc_ops.formats.files.avro import avro_records, open_avro
from cdc_ops.formats.files.binlogs import binlog_records, open_binlogs
from cdc_ops.formats.files.csv import CsvDialect, csv_records
from cdc_ops.formats.files.json_lines import FileLines, RecordFile, count_lines, read_records
from cdc_ops.formats.files.parquet import open_parquet, parquet_records

COLUMN_SETTINGS = ("AR_H_CHANGE_SEQ", "TimestampColumnName")
"""Settings of DMS whose value is the name of a column that every file has."""
NO_COLUMN = ("none", "")


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenFiles:
    """Files whose records have been counted.

    Args:
        files: The counts of each file, in the order of the request; for CSV these are lines, including the line of column names.
        records: Returns the records, with the columns of `core.events.change_feed.RECORD_COLUMNS`.
    """

    files: tuple[FileLines, ...]
    records: Callable[[], DataFrame]


def open_files(
    spark: SparkSession,
    files: Sequence[RecordFile],
    spec: FormatSpec,
    options: FormatOptions,
    ends: FileEnds,
    store: Mapping[str, Any] | None = None,
) -> OpenFiles:
    """Counts the records of files: an action.

    Args:
        spark: The session, in which the records are read too.
        files: The files to open.
        spec: The format's declaration.
        options: The format's options from the pipeline file.
        ends: Reads the first and last bytes of a file.
        store: Options of the store, for files that Spark cannot open by itself: binlogs.

    Raises:
        ArchiveOrderError: a binlog does not follow the one before it.
        ArchiveFileError: a file is not of its container, or Spark cannot read a file of that name, or found no data in it.
    """
    match spec.files.container:
        case Container.LINES:
            counts = count_lines(spark, files)
            return OpenFiles(files=counts.files, records=lambda: read_records(spark, files, counts))
        case Container.CSV:
            counts = count_lines(spark, files)
            return OpenFiles(files=counts.files, records=lambda: csv_records(read_records(spark, files, counts), dialect(spec, options)))
        case Container.PARQUET:
            opened = open_parquet(spark, files)
            return OpenFiles(files=opened.files, records=lambda: parquet_records(spark, opened))
        case Container.AVRO:
            avro = open_avro(spark, files, ends)
            return OpenFiles(files=avro.files, records=lambda: avro_records(spark, avro))
        case Container.BINLOG:
            binlogs = open_binlogs(spark, files, store or {})
            return OpenFiles(files=binlogs.files, records=lambda: binlog_records(spark, binlogs))


def dialect(spec: FormatSpec, options: FormatOptions) -> CsvDialect:
    """Returns the CSV dialect of a format."""
    delimiter, null, missing = (setting(spec, options, name) for name in (CSV_DELIMITER, CSV_NULL, CSV_MISSING))
    columns = (setting(spec, options, name) for name in COLUMN_SETTINGS)
    return CsvDialect(delimiter=delimiter, null=null, missing=missing, columns=tuple(name for name in columns if name not in NO_COLUMN))
