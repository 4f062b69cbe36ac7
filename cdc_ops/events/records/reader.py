"""What the readers of archived files promise, and the errors that they share."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO, Final, Protocol

from cdc_ops.errors import ArchiveFileError

Numbered = tuple[bytes | None, int]
"""The value of a record, None for a record without a value, and the number of its line or row in the file, from 0."""

MOST_RECORDS: Final = 4096
"""Records in a batch, at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileCount:
    """How many records a file has.

    Args:
        lines: Its records, without empty lines at its end; of CSV its lines, with that of the column names.
        blank: Empty lines among them.
    """

    lines: int
    blank: int = 0


class RecordReader(Protocol):
    """Reads the records of one file, or of a part of it, once."""

    def batches(self) -> Iterator[list[Numbered]]:
        """Yields the records in the order of the file, at most `MOST_RECORDS` at a time.

        Raises:
            ArchiveFileError: the file is damaged, incomplete or of another kind; or it was emptied or replaced meanwhile.
            OSError: the store does not answer.
        """
        ...

    def count(self) -> FileCount:
        """Returns how many records the file has; valid once `batches` is exhausted."""
        ...


class WatchedStream:
    """A stream for pyarrow: counts what is read of it, and notes whether it was the store that failed.

    Args:
        stream: The stream; who opened it closes it.
    """

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self.count = 0
        self.failed = self.closed = False

    def read(self, size: int = -1) -> bytes:
        """Reads on."""
        try:
            data = self._stream.read(size)
        except BaseException:
            self.failed = True
            raise
        self.count += len(data)
        return data

    def seek(self, offset: int, whence: int = 0) -> int:
        """Goes to a place; returns it."""
        return self._stream.seek(offset, whence)

    def tell(self) -> int:
        """Returns the place."""
        return self._stream.tell()

    def close(self) -> None:
        """Leaves the stream open."""
        self.closed = True


def garbled_texts(texts: Iterable[str], values: Any) -> bytes:
    """Returns the texts of a row, of which some are not UTF-8, as the bytes that they were: the record becomes bad.

    Args:
        texts: The texts of the row, decoded with `surrogateescape`.
        values: The whole row. If none of `texts` is garbled, all texts that are somewhere in it are returned.
    """
    try:
        found = ",".join(texts)
        found.encode()
    except UnicodeEncodeError:
        return found.encode("utf-8", "surrogateescape")
    return ",".join(_texts(values)).encode("utf-8", "surrogateescape")


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for name, inner in value.items():
            yield name
            yield from _texts(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _texts(inner)


def unreadable(path: str, why: str) -> ArchiveFileError:
    """Returns the error for a file that is damaged or of another kind."""
    return ArchiveFileError(
        f"{path} cannot be read: {why}.",
        why="The file is damaged or incomplete, or the 'format' of the archive is wrong.",
        data="Nothing of the batch was read or applied; the watermark stays.",
        next="Write the file again as the sink made it, or correct the format of the archive. If its records are lost, remove the file:"
        " its offsets are then a gap, which you can accept.",
    )


def emptied(path: str, size: int) -> ArchiveFileError:
    """Returns the error for a file that has fewer bytes than were listed."""
    return ArchiveFileError(
        f"Spark found no data in {path}; the listing showed {size} bytes.",
        why="The file was emptied or replaced during the read.",
        data="Nothing of the batch was applied.",
        next="Start the run again: it lists the archive again.",
    )
