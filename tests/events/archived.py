"""Files of an archive for tests of the readers."""

from pathlib import Path
from typing import Any

from cdc_ops.archives.local import LocalArchive
from cdc_ops.core.events.format_spec import Container, FormatOptions
from cdc_ops.events.records.files import open_records
from cdc_ops.events.records.reader import FileCount, Numbered, RecordReader
from cdc_ops.events.registry import format_spec

FORMATS = {
    Container.LINES: "maxwell",
    Container.CSV: "aws-dms-csv",
    Container.PARQUET: "aws-dms-parquet",
    Container.AVRO: "debezium-mysql-avro",
}


def put(folder: Path, name: str, data: bytes) -> str:
    """Writes a file; returns its name."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return name


def opened(folder: Path, name: str, container: Container, first_line: int = 0, size: int = -1, **settings: Any) -> RecordReader:
    """Opens a file as its container is opened."""
    options = FormatOptions(name=FORMATS[container], settings=settings)
    listed = size if size >= 0 else (folder / name).stat().st_size
    return open_records(LocalArchive(str(folder)), name, listed, format_spec(options.name), options, first_line)


def read(reader: RecordReader) -> tuple[list[Numbered], FileCount]:
    """Reads a file to its end."""
    records = [record for batch in reader.batches() for record in batch]
    return records, reader.count()


def records_of(folder: Path, name: str, container: Container, first_line: int = 0, **settings: Any) -> list[Any]:
    """The records of a file."""
    return read(opened(folder, name, container, first_line, **settings))[0]
