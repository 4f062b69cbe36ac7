"""Deletion vectors, read by the letter of Delta's protocol: which rows of a file are gone."""

import struct
import uuid
import zlib
from pathlib import Path
from typing import Any, Final

_DIGITS: Final = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_MAGIC: Final = 1681511377
_RUNS, _NO_RUNS = 12347, 12346


def deleted_rows(descriptor: dict[str, Any], root: Path) -> set[int]:
    """Returns the numbers of the rows that a descriptor says are gone.

    Raises:
        ValueError: bytes, length, checksum or cardinality are not what the protocol and the descriptor say.
    """
    rows = _bitmaps(_content(descriptor, root))
    if len(rows) != descriptor["cardinality"]:
        raise ValueError(f"a deletion vector of {len(rows)} rows says that it has {descriptor['cardinality']}")
    return rows


def _content(descriptor: dict[str, Any], root: Path) -> bytes:
    kind, place, size = descriptor["storageType"], descriptor["pathOrInlineDv"], descriptor["sizeInBytes"]
    if kind == "i":
        return decoded(place)[:size]
    if kind == "u":
        name = uuid.UUID(bytes=decoded(place[-20:])[:16])
        path = root / place[:-20] / f"deletion_vector_{name}.bin"
    else:
        path = Path(place.removeprefix("file://"))
    data, offset = path.read_bytes(), descriptor.get("offset") or 0
    (length,) = struct.unpack_from(">i", data, offset)
    content = data[offset + 4 : offset + 4 + length]
    (checksum,) = struct.unpack_from(">I", data, offset + 4 + length)
    if length != size or zlib.crc32(content) != checksum:
        raise ValueError(f"{path.name}: size or checksum of a deletion vector is wrong")
    return content


def decoded(text: str) -> bytes:
    """Returns the bytes of a text in Z85.

    >>> decoded("HelloWorld").hex()
    '864fd26fb559f75b'
    """
    found = bytearray()
    for start in range(0, len(text), 5):
        number = 0
        for one in text[start : start + 5]:
            number = number * 85 + _DIGITS.index(one)
        found += number.to_bytes(4, "big")
    return bytes(found)


def _bitmaps(data: bytes) -> set[int]:
    (magic,) = struct.unpack_from("<i", data, 0)
    if magic != _MAGIC:
        raise ValueError(f"a deletion vector begins with {magic}")
    (count,) = struct.unpack_from("<q", data, 4)
    at, rows = 12, set[int]()
    for _ in range(count):
        (high,) = struct.unpack_from("<I", data, at)
        at, low = _bitmap(data, at + 4)
        rows |= {(high << 32) + one for one in low}
    return rows


def _bitmap(data: bytes, at: int) -> tuple[int, set[int]]:
    """Reads one portable 32-bit roaring bitmap; returns where it ends and its numbers."""
    start = at
    (cookie,) = struct.unpack_from("<I", data, at)
    runs = b""
    if cookie & 0xFFFF == _RUNS:
        count, at = (cookie >> 16) + 1, at + 4
        runs, at = data[at : at + (count + 7) // 8], at + (count + 7) // 8
    elif cookie == _NO_RUNS:
        (count,) = struct.unpack_from("<I", data, at + 4)
        at += 8
    else:
        raise ValueError(f"a bitmap begins with {cookie}")
    heads = [struct.unpack_from("<HH", data, at + 4 * number) for number in range(count)]
    at += 4 * count
    if not runs or count >= 4:
        at += 4 * count  # offsets of the containers, which follow each other anyway
    found = set[int]()
    for number, (high, size) in enumerate(heads):
        at, low = _container(data, at, size + 1, is_run=bool(runs and runs[number // 8] >> (number % 8) & 1))
        found |= {(high << 16) + one for one in low}
    if at <= start:
        raise ValueError("an empty bitmap")
    return at, found


def _container(data: bytes, at: int, size: int, *, is_run: bool) -> tuple[int, set[int]]:
    if is_run:
        (count,) = struct.unpack_from("<H", data, at)
        pairs = [struct.unpack_from("<HH", data, at + 2 + 4 * number) for number in range(count)]
        return at + 2 + 4 * count, {begin + step for begin, length in pairs for step in range(length + 1)}
    if size <= 4096:
        return at + 2 * size, set(struct.unpack_from(f"<{size}H", data, at))
    bits = int.from_bytes(data[at : at + 8192], "little")
    return at + 8192, {one for one in range(65536) if bits >> one & 1}
