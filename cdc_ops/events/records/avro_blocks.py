"""The blocks of an Avro file without their compression, as a stream that an Avro reader takes for a file.

    Obj 1 | schema, codec | mark | records, bytes, data, mark | ...   ->   the same with another schema, and codec null

So the schema can be one with which values are read as they are stored, leading blocks can be left out, and no library but those that are
there anyway is needed for a codec.
Source: Avro's specification, object container files and required codecs.
"""

import bz2
import lzma
import zlib
from collections.abc import Callable, Iterator
from typing import Final

import pyarrow as pa

from cdc_ops.core.archive.avro_header import MAGIC, MARK, AvroHeader
from cdc_ops.events.records.reader import WatchedStream

_CHECKSUM: Final = 4
_DAMAGED: Final = (zlib.error, lzma.LZMAError, pa.ArrowException, OSError, EOFError, ValueError)


class AvroDamagedError(Exception):
    """A file is damaged; the text says how."""


class AvroCutError(Exception):
    """A file ends before its listed size."""


class AvroBlocks:
    """A file of Avro for a reader: only `read` and `tell`.

    Args:
        stream: The file.
        header: Its header.
        size: Its bytes, as listed.
        schema: The schema for the reader, as JSON; it has to fit the same bytes.
        first: Blocks that have only records before this one are left out.

    Raises:
        AvroDamagedError: the codec is unknown.
    """

    def __init__(self, stream: WatchedStream, header: AvroHeader, size: int, schema: bytes, first: int = 0) -> None:
        self._stream, self._header, self._size, self._first = stream, header, size, first
        codec = _CODECS.get(header.codec)
        if codec is None:
            raise AvroDamagedError(f"it is compressed with {header.codec!r}; known are {', '.join(_CODECS)}")
        self._decompressed = codec
        self.records = self.left_out = 0
        """Records of the blocks so far, and those of the blocks that were left out."""
        self._parts = self._all_parts(schema)
        self._data, self._at, self._told = b"", 0, 0

    def read(self, size: int) -> bytes:
        """Returns the next bytes, fewer at the end.

        Raises:
            AvroDamagedError: the block is damaged.
            AvroCutError: the file ends before its listed size.
        """
        found = self._next(size)
        while len(found) < size and self._at >= len(self._data):
            if (part := next(self._parts, None)) is None:
                break
            self._data, self._at = part, 0
            more = self._next(size - len(found))
            found = found + more if found else more
        self._told += len(found)
        return found

    def tell(self) -> int:
        """Returns how many bytes were read."""
        return self._told

    def _next(self, size: int) -> bytes:
        start, self._at = self._at, min(self._at + size, len(self._data))
        return self._data if self._at - start == len(self._data) else self._data[start : self._at]

    def _all_parts(self, schema: bytes) -> Iterator[bytes]:
        mark = self._header.mark
        yield b"".join((MAGIC, _long(2), *map(_bytes, (b"avro.schema", schema, b"avro.codec", b"null")), b"\x00", mark))
        for count, data in self._blocks():
            yield _long(count) + _long(len(data))
            yield data
            yield mark

    def _blocks(self) -> Iterator[tuple[int, bytes]]:
        at = self._stream.seek(self._header.size)
        while at < self._size:
            count, length = self._number(), self._number()
            if count < 0 or not 0 <= length <= self._size - at:
                raise AvroDamagedError(f"the block at byte {at} has an impossible length")
            data, mark = self._taken(length), self._taken(MARK)
            if mark != self._header.mark:
                raise AvroDamagedError(f"the block at byte {at} does not end with the sync marker")
            self.records += count
            if self.records <= self._first:
                self.left_out = self.records
            elif count:
                yield count, self._plain(data, at)
            at = self._stream.tell()

    def _plain(self, data: bytes, at: int) -> bytes:
        try:
            return self._decompressed(data)
        except _DAMAGED as error:
            raise AvroDamagedError(f"the block at byte {at} cannot be decompressed: {str(error).rstrip('.')}") from error

    def _taken(self, length: int) -> bytes:
        data = self._stream.read(length)
        while len(data) < length:
            if not (more := self._stream.read(length - len(data))):
                raise AvroCutError
            data += more
        return data

    def _number(self) -> int:
        number = shift = 0
        while True:
            byte = self._taken(1)[0]
            number |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return (number >> 1) ^ -(number & 1)
            if shift > 63:
                raise AvroDamagedError("a block has a number of more than 64 bits")


def _long(number: int) -> bytes:
    left, out = number << 1, bytearray()
    while left > 0x7F:
        out.append(left & 0x7F | 0x80)
        left >>= 7
    return bytes([*out, left])


def _bytes(value: bytes) -> bytes:
    return _long(len(value)) + value


def _inflated(data: bytes) -> bytes:
    return zlib.decompress(data, wbits=-15)


def _snappy(data: bytes) -> bytes:
    """Snappy's own block, and four bytes of a checksum of what is in it."""
    size = shift = 0
    for byte in data[:5]:
        size |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    plain: bytes = pa.Codec("snappy").decompress(data[:-_CHECKSUM], size, asbytes=True)
    if zlib.crc32(plain) != int.from_bytes(data[-_CHECKSUM:]):
        raise ValueError("its checksum differs")
    return plain


def _zstandard(data: bytes) -> bytes:
    found: bytes = pa.CompressedInputStream(pa.BufferReader(data), "zstd").read()
    return found


_CODECS: Final[dict[str, Callable[[bytes], bytes]]] = {
    "null": lambda data: data,
    "deflate": _inflated,
    "snappy": _snappy,
    "zstandard": _zstandard,
    "bzip2": bz2.decompress,
    "xz": lzma.decompress,
}
