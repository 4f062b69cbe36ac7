"""Errors about binlogs, each with file, position and what to do. Pure."""

from typing import Final

from cdc_ops.errors import (
    BinlogCutError,
    BinlogDamagedError,
    BinlogEncryptedError,
    BinlogEventError,
    BinlogKindError,
    BinlogMetadataError,
    BinlogStatementError,
)

_NOTHING: Final = "Nothing of the batch was read or applied; the watermark stays."
_COPY: Final = "Copy the file again from the server, and compare its size. If the server has purged it, take a new snapshot of the tables."


def damaged(file: str, offset: int, why: str) -> BinlogDamagedError:
    """Bytes do not fit the format, or not their checksum."""
    return BinlogDamagedError(f"{file} is damaged at byte {offset}: {why}.", why=_BYTES, data=_NOTHING, next=_COPY)


_BYTES: Final = "Bytes of the file changed or were lost on the way from the server to the archive."


def cut(file: str, offset: int, why: str) -> BinlogCutError:
    """A file ends too early."""
    return BinlogCutError(
        f"{file} ends too early, at byte {offset}: {why}.",
        why="The file was copied while the server wrote it, or the copy was not completed.",
        data=_NOTHING,
        next="Archive only files that the server has closed (`FLUSH BINARY LOGS` closes one), or copy the file again.",
    )


def encrypted(file: str, offset: int, how: str) -> BinlogEncryptedError:
    """A file is encrypted with a key of the server."""
    return BinlogEncryptedError(
        f"{file} is encrypted from byte {offset}: {how}.",
        why="Only the server has the key, so nobody else can read the file.",
        data=_NOTHING,
        next="Copy binlogs through the replication protocol, which sends them decrypted (`mysqlbinlog --read-from-remote-server --raw`),"
        " and encrypt the archive itself.",
    )


def unreadable_kind(file: str, begin: bytes, why: str) -> BinlogKindError:
    """A file is no binlog that can be read."""
    return BinlogKindError(
        f"{file} is no binlog: {why}.",
        why=f"It begins with the bytes {begin[:8].hex(' ') or 'of an empty file'}.",
        data=_NOTHING,
        next="Archive binlogs as the server wrote them, as they are or packed with gzip or zstd, and nothing else below their path.",
    )


def not_understood(file: str, offset: int, what: str, advice: str) -> BinlogEventError:
    """An event may change rows in a way that cannot be followed."""
    return BinlogEventError(
        f"{file} has, at byte {offset}, {what}.",
        why="The event may stand for changed rows, so it must not be skipped.",
        data=_NOTHING,
        next=advice,
    )


def statement(file: str, offset: int, text: str) -> BinlogStatementError:
    """Changed rows were logged as a statement."""
    return BinlogStatementError(
        f"{file} has, at byte {offset}, changes as a statement and not as rows: {shortened(text)}",
        why="The session or the server had binlog_format=STATEMENT or MIXED; which rows changed is not in the file.",
        data=_NOTHING,
        next="Set binlog_format=ROW on the server, and keep applications from changing it; then take a new snapshot of the tables, behind"
        " this file: 'cdc-ops resync --mode full'.",
    )


def no_metadata(file: str, offset: int, table: str, lacks: str) -> BinlogMetadataError:
    """Rows cannot be read without the names, signs or character sets of their columns."""
    return BinlogMetadataError(
        f"{file} has, at byte {offset}, rows of {table} without the {lacks} of its columns.",
        why="The server had binlog_row_metadata=MINIMAL (the default of MySQL) or NO_LOG (that of MariaDB).",
        data=_NOTHING,
        next="Set binlog_row_metadata=FULL on the server; it holds for later events. Then take a new snapshot of the tables.",
    )


def shortened(text: str, limit: int = 60) -> str:
    """Returns the begin of a statement; what follows may hold values of rows."""
    words = " ".join(text.split())
    return words if len(words) <= limit else f"{words[:limit]}…"
