"""Reads numbers and texts from the bytes of a binlog event, and never beyond their end. Pure.

All integers of a binlog are little-endian unless their reader says otherwise.
"""

import struct
from typing import Final

_U16: Final = struct.Struct("<H")
_U32: Final = struct.Struct("<I")
_U64: Final = struct.Struct("<Q")
_LENGTHS: Final = {0xFC: 2, 0xFD: 3, 0xFE: 8}


class MalformedBytesError(ValueError):
    """The bytes of an event do not fit its layout; the reader of the file says in which event."""


class ByteReader:
    """A position in some bytes.

    Args:
        data: The bytes.
        at: Where to begin.
    """

    __slots__ = ("at", "data", "end")

    def __init__(self, data: bytes | memoryview, at: int = 0) -> None:
        self.data = bytes(data)
        self.at = at
        self.end = len(self.data)

    @property
    def left(self) -> int:
        """How many bytes are left."""
        return self.end - self.at

    def take(self, size: int) -> bytes:
        """Returns the next bytes."""
        at = self._step(size)
        return self.data[at : at + size]

    def skip(self, size: int) -> None:
        """Passes over bytes."""
        self._step(size)

    def rest(self) -> bytes:
        """Returns all bytes that are left."""
        return self.take(self.left)

    def u8(self) -> int:
        """Returns an unsigned integer of 1 byte."""
        return self.data[self._step(1)]

    def u16(self) -> int:
        """Returns an unsigned integer of 2 bytes."""
        return int(_U16.unpack_from(self.data, self._step(2))[0])

    def u32(self) -> int:
        """Returns an unsigned integer of 4 bytes."""
        return int(_U32.unpack_from(self.data, self._step(4))[0])

    def u64(self) -> int:
        """Returns an unsigned integer of 8 bytes."""
        return int(_U64.unpack_from(self.data, self._step(8))[0])

    def unsigned(self, size: int) -> int:
        """Returns an unsigned integer of any size."""
        return int.from_bytes(self.take(size), "little")

    def length(self) -> int:
        """Returns a length-encoded integer: 1, 3, 4 or 9 bytes."""
        first = self.u8()
        if first < 0xFB:
            return first
        if first not in _LENGTHS:
            raise MalformedBytesError(f"no length begins with the byte {first:#04x}")
        return self.unsigned(_LENGTHS[first])

    def counted(self) -> bytes:
        """Returns bytes that stand behind their length-encoded number."""
        return self.take(self.length())

    def _step(self, size: int) -> int:
        at = self.at
        if size < 0 or at + size > self.end:
            raise MalformedBytesError(f"{size} bytes are expected at byte {at}, and {self.end - at} are there")
        self.at = at + size
        return at
