"""Files of binlogs: plain, or packed with gzip or zstd, told apart by their first bytes; read from begin to end in bounded memory."""

import gzip
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO, Final

import zstandard

from cdc_ops.core.binlog import refusals
from cdc_ops.core.binlog.event_stream import Read

_GZIP: Final = b"\x1f\x8b"
_ZSTD: Final = b"\x28\xb5\x2f\xfd"
_XZ: Final = b"\xfd7zXZ"
_PACKED_ELSEWISE: Final = {_XZ: "xz", b"BZh": "bzip2", b"PK\x03\x04": "zip", b"\x04\x22\x4d\x18": "lz4"}
LARGEST_WINDOW: Final = 1 << 27
"""zstd's own limit for files that are unpacked without asking; more would be memory of somebody else's choice."""

Open = Callable[[], IO[bytes]]
"""Opens a file at its begin, in binary."""


@contextmanager
def unpacked(file: str, open_file: Open) -> Iterator[Read]:
    """Yields the function that reads a file's content.

    Args:
        file: Its name, for messages.
        open_file: Opens it.

    Raises:
        BinlogKindError: it is packed in a way that is not known.
        BinlogCutError: when bytes are read: it ends before its packed content does.
        BinlogDamagedError: when bytes are read: its packed content is damaged.
    """
    with open_file() as raw:
        begin = raw.read(6)
        for magic, name in _PACKED_ELSEWISE.items():
            if begin.startswith(magic):
                raise refusals.unreadable_kind(file, begin, f"it is packed with {name}, and only gzip and zstd are understood")
    with open_file() as raw:
        if begin.startswith(_GZIP):
            yield _guarded(file, gzip.GzipFile(fileobj=raw, mode="rb").read)
        elif begin.startswith(_ZSTD):
            unpacker = zstandard.ZstdDecompressor(max_window_size=LARGEST_WINDOW)
            yield _guarded(file, _WholeFrames(raw, unpacker).read)
        else:
            yield raw.read


def open_binlog(path: str) -> Open:
    """Returns what opens a file on disk."""
    return lambda: open(path, "rb")


class _WholeFrames:
    """The content of a file of zstd; its reader takes a file that is cut for one that ends."""

    def __init__(self, raw: IO[bytes], unpacker: zstandard.ZstdDecompressor) -> None:
        self._raw = raw
        self._unpacker = unpacker
        self._frame: zstandard.ZstdDecompressionObj | None = None
        self._ready = b""
        self._waiting = b""

    def read(self, size: int) -> bytes:
        """Returns at most so many bytes; none at the end.

        Raises:
            EOFError: the file ends within a frame.
        """
        while not self._ready:
            packed = self._waiting or self._raw.read(1 << 16)
            self._waiting = b""
            if not packed:
                if self._frame is not None:
                    raise EOFError("its packed content ends within a frame")
                return b""
            if self._frame is None:
                self._frame = self._unpacker.decompressobj()
            self._ready = self._frame.decompress(packed)
            if self._frame.eof:
                self._waiting, self._frame = self._frame.unused_data, None
        part, self._ready = self._ready[:size], self._ready[size:]
        return part


def _guarded(file: str, read: Read) -> Read:
    """Names the file in errors of unpacking; positions are those of the content."""
    done = 0

    def read_named(size: int) -> bytes:
        nonlocal done
        try:
            part = read(size)
        except EOFError as error:
            raise refusals.cut(file, done, str(error)) from None
        except (zlib.error, gzip.BadGzipFile, zstandard.ZstdError) as error:
            raise refusals.damaged(file, done, f"its packed content cannot be unpacked: {error}") from None
        done += len(part)
        return part

    return read_named
