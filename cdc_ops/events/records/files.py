"""Opens a file of an archive by the container that a format declares."""

from cdc_ops.archives.base import Archive
from cdc_ops.core.events.format_spec import Container, FormatOptions, FormatSpec
from cdc_ops.events.records.avro import AvroRecords
from cdc_ops.events.records.csv import CsvRecords, dialect
from cdc_ops.events.records.json_lines import ByteRange, JsonLines, Lines
from cdc_ops.events.records.parquet import ParquetRecords
from cdc_ops.events.records.reader import RecordReader


def open_records(archive: Archive, path: str, size: int, spec: FormatSpec, options: FormatOptions, first_line: int = 0) -> RecordReader:
    """Opens a file; nothing is read yet but, for some containers, its header.

    Args:
        archive: The archive that has it.
        path: The file, relative to the archive's root.
        size: Its bytes, as listed. Of a file of 0 bytes nothing is read: it has no records.
        spec: The format's declaration.
        options: The format's options from the pipeline file.
        first_line: Records before this line are counted, and not returned.

    Raises:
        ArchiveFileError: the file is not of its container, or damaged, or a file of that name cannot be read.
        ValueError: it is a binlog, which other readers read.
    """
    match spec.files.container:
        case Container.LINES:
            return JsonLines(Lines(archive, path, ByteRange(0, size)), first_line)
        case Container.CSV:
            return CsvRecords(Lines(archive, path, ByteRange(0, size)), dialect(spec, options), first_line)
        case Container.PARQUET:
            return ParquetRecords(archive, path, size, first_line)
        case Container.AVRO:
            return AvroRecords(archive, path, size, first_line)
        case Container.BINLOG:
            raise ValueError(f"{path} is a binlog")
