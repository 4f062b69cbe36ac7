"""The header of an Avro file: its schema and its sync marker. Pure.

    first and last bytes of a file -> header_of -> AvroHeader

Avro's own readers may take a file that ends within a block for one that ends before it: Spark's does so where the cut is in the first bytes
of the block. A block ends with the mark, and so does a whole file.
Source: Avro's specification, object container files.
"""

from dataclasses import dataclass
from typing import Final, Protocol

MAGIC: Final = b"Obj\x01"
MARK: Final = 16
"""Length of the mark."""
USUAL_HEAD: Final = 64 * 1024
"""How many bytes are asked for at first: the schemas of nearly all tables fit."""


class FileEnds(Protocol):
    """Shows where files begin and end, without reading what is between."""

    def head(self, path: str, size: int) -> bytes:
        """Returns the first bytes of a file, fewer if it is shorter."""
        ...

    def tail(self, path: str, size: int) -> bytes:
        """Returns the last bytes of a file, fewer if it is shorter."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class AvroHeader:
    """The header of a file.

    Args:
        schema: With which it was written, as JSON.
        codec: How blocks are compressed.
        mark: What each block ends with, and the header.
        size: Length of the header; a file without records is as long.
    """

    schema: str
    codec: str
    mark: bytes
    size: int


def read_header(head: bytes) -> AvroHeader | None:
    """Returns the header of the file that begins so; None if it goes on behind these bytes.

    Raises:
        ValueError: no Avro file begins so; says what is wrong.
    """
    if not head.startswith(MAGIC[: len(head)]):
        raise ValueError("it does not start with the Avro magic bytes 'Obj' and 1")
    try:
        at, entries = _entries(head, len(MAGIC))
        mark = _bytes(head, at, MARK)
    except EOFError:
        return None
    if "avro.schema" not in entries:
        raise ValueError("its header names no schema")
    schema, codec = (entries.get(f"avro.{name}", b"null").decode("utf-8") for name in ("schema", "codec"))
    return AvroHeader(schema=schema, codec=codec, mark=mark, size=at + MARK)


def header_of(ends: FileEnds, path: str, size: int) -> AvroHeader:
    """Returns the header of a file that is whole, as far as its two ends show.

    Args:
        ends: Shows them.
        path: The file.
        size: Its length.

    Raises:
        EOFError: it ends in the middle; says where.
        ValueError: it is no Avro file; says why.
    """
    asked = min(USUAL_HEAD, size)
    try:
        while (header := read_header(ends.head(path, asked))) is None and asked < size:
            asked = min(8 * asked, size)
    except ValueError as error:
        raise ValueError(f"it is not an Avro file: {error}") from None
    if header is None:
        raise EOFError("it ends within its header")
    if ends.tail(path, MARK) != header.mark:
        raise EOFError("it is truncated: the sync marker at the end of its last block is missing")
    return header


def is_whole(ends: FileEnds, path: str, size: int) -> bool | None:
    """Returns whether a file is finished, None if it is no Avro file."""
    try:
        header_of(ends, path, size)
    except EOFError:
        return False
    except ValueError:
        return None
    return True


def _entries(head: bytes, at: int) -> tuple[int, dict[str, bytes]]:
    """Returns the map of a header, and where it ends: blocks of entries, the last one empty."""
    entries: dict[str, bytes] = {}
    while True:
        count, at = _long(head, at)
        if count < 0:  # then the length of the block follows, for those who skip it
            count, (_, at) = -count, _long(head, at)
        if not count:
            return at, entries
        for _ in range(count):
            name, at = _text(head, at)
            entries[name.decode("utf-8")], at = _text(head, at)


def _text(head: bytes, at: int) -> tuple[bytes, int]:
    length, at = _long(head, at)
    if length < 0:
        raise ValueError("its header has a text of negative length")
    return _bytes(head, at, length), at + length


def _bytes(head: bytes, at: int, length: int) -> bytes:
    if at + length > len(head):
        raise EOFError
    return head[at : at + length]


def _long(head: bytes, at: int) -> tuple[int, int]:
    """Returns a number of seven bits a byte, the sign in its lowest bit, and where it ends."""
    number = shift = 0
    while True:
        byte = _bytes(head, at, 1)[0]
        number |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return (number >> 1) ^ -(number & 1), at
        if shift > 63:
            raise ValueError("its header has a number of more than 64 bits")
