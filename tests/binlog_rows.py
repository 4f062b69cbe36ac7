"""Rows of binlogs as the servers' own tools print them, and decoded values in the same form."""

import itertools
import re
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from cdc_ops.events.binlog.charsets import BINARY, charset_of
from cdc_ops.events.binlog.decoder import BinlogFile, RowChange
from cdc_ops.events.binlog.files import open_binlog
from cdc_ops.events.binlog.jsonb import JsonText
from cdc_ops.events.binlog.table_map import BinlogColumn, ColumnType
from cdc_ops.events.binlog.temporal import OddDate, fraction_text

Row = tuple[str, str, tuple[str, ...], tuple[str, ...]]
"""Operation, table, and the values before and after as the tool prints them."""

_OPERATIONS: Final = {b"INSERT INTO": "c", b"UPDATE": "u", b"DELETE FROM": "d"}
_HEAD: Final = re.compile(rb"### (INSERT INTO|UPDATE|DELETE FROM) `(.*)`\.`(.*)`\n?\Z")
_VALUE: Final = re.compile(rb"###   @\d+=(.*?)\s*\Z", re.DOTALL)
_BITS: Final = {ColumnType.TINY: 8, ColumnType.SHORT: 16, ColumnType.INT24: 24, ColumnType.LONG: 32, ColumnType.LONGLONG: 64}


@dataclass(frozen=True)
class Tool:
    """A tool that prints rows: its command, and the bytes of texts for which it prints something else."""

    command: Sequence[str]
    escapes: dict[int, str]

    def printed(self, file: Path, database: str) -> Iterator[Row]:
        """Yields the rows that the tool prints of a file."""
        options = ("-v", "--base64-output=DECODE-ROWS", f"--database={database}")
        shown = subprocess.run([*self.command, *options, str(file)], capture_output=True, check=True).stdout
        row: tuple[str, str, list[str], list[str]] | None = None
        side = 0
        for line in shown.split(b"\n"):
            if head := _HEAD.match(line):
                if row:
                    yield row[0], row[1], tuple(row[2]), tuple(row[3])
                row = _OPERATIONS[head[1]], head[3].decode(), [], []
            elif line in (b"### WHERE", b"### SET"):
                side = 2 if line == b"### WHERE" else 3
            elif row and (value := _VALUE.match(line)):
                row[side].append(value[1].decode("latin-1"))  # type: ignore[union-attr]
        if row:
            yield row[0], row[1], tuple(row[2]), tuple(row[3])

    def decoded(self, file: Path, database: str) -> Iterator[Row]:
        """Yields the rows that are decoded of a file, in the form of the tool."""
        decoded = BinlogFile.open(file.name, open_binlog(str(file)))
        for change in decoded.changes(lambda schema, _table: schema == database):
            if isinstance(change, RowChange):
                columns = {column.name: column for column in change.table.columns}
                sides = (side or {} for side in (change.before, change.after))
                before, after = (tuple(self.shown(columns[name], value) for name, value in side.items()) for side in sides)
                yield str(change.op), change.table.table, before, after

    def pairs(self, file: Path, database: str) -> Iterator[tuple[Row | None, Row | None]]:
        return itertools.zip_longest(self.printed(file, database), self.decoded(file, database))

    def shown(self, column: BinlogColumn, value: Any) -> str:  # noqa: PLR0911 - one case for each form
        """Returns a decoded value as the tool prints it."""
        if value is None:
            return "NULL"
        match column.type:
            case kind if kind in _BITS:
                signed = value - (1 << _BITS[kind]) if value >> (_BITS[kind] - 1) == 1 else value
                return f"{signed} ({signed % (1 << _BITS[kind])})" if signed < 0 else str(signed)
            case ColumnType.FLOAT | ColumnType.DOUBLE:
                return f"{value:g}" if column.type is ColumnType.FLOAT else f"{value:.20g}"
            case ColumnType.NEWDECIMAL:
                return f"{value:f}"
            case ColumnType.BIT:
                return f"b'{value:0{column.precision}b}'"
            case ColumnType.ENUM:
                return str(("", *column.labels).index(value))
            case ColumnType.SET:
                bits = sum(1 << column.labels.index(label) for label in value.split(",")) if value else 0
                return "b'" + "".join(f"{byte:08b}" for byte in bits.to_bytes(column.size, "little")) + "'"
            case ColumnType.YEAR:
                return str(value or 1900)  # the tools print the year 0 so
            case _ if isinstance(value, (date, datetime, timedelta, OddDate)):
                return _shown_time(column, value)
            case _:
                return "'" + "".join(self.escapes.get(byte, chr(byte)) for byte in _bytes_of(column, value)) + "'"


def _numbers(*bytes_of: int) -> dict[int, str]:
    return {byte: f"\\x{byte:02x}" for byte in bytes_of}


MARIADB_ESCAPES: Final = _numbers(*range(32))
MYSQL_ESCAPES: Final = _numbers(*range(32)) | {10: "\\n", 13: "\\r", 9: "\\t", 8: "\\b", 0x27: "\\'", 0x5C: "\\\\"}


def _shown_time(column: BinlogColumn, value: date | datetime | timedelta | OddDate) -> str:
    digits = column.scale
    match value:
        case OddDate() if column.type is ColumnType.TIMESTAMP2:
            return "0" + fraction_text(0, digits)
        case OddDate():
            return f"'{value.text.replace('-', ':') if column.type is ColumnType.DATE else value.text}'"
        case timedelta():
            seconds = abs(value) // timedelta(seconds=1)
            clock = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
            return f"'{'-' if value < timedelta(0) else ''}{clock}{fraction_text(abs(value).microseconds, digits)}'"
        case datetime() if value.tzinfo is not None:
            return f"{(value - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(seconds=1)}{fraction_text(value.microsecond, digits)}"
        case datetime():
            whole = value.replace(microsecond=0).isoformat(" ")
            return f"'{whole}{fraction_text(value.microsecond, digits)}'"
        case _:
            return f"'{value.isoformat().replace('-', ':')}'"


def _bytes_of(column: BinlogColumn, value: str | bytes) -> bytes:
    if isinstance(value, bytes):
        return value.rstrip(b"\0") if column.type is ColumnType.STRING and column.collation == BINARY else value
    if isinstance(value, JsonText):
        return value.encode("utf-8")
    charset = charset_of(column.collation)
    assert charset is not None
    return bytes(charset.table.index(character) for character in value) if charset.table else value.encode(charset.codec)
