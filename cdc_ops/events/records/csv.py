"""Reads lines of CSV files as records, each row as a JSON object with the names in its file's first record.

A quoted value may contain line ends, so a record ends with the first line after which its quotes are balanced, and its number is that of
the line where it begins. A record that does not fit its file's columns (more or fewer values, open or misplaced quotes, bytes that are not
UTF-8, no column names) stays text. Formats then make it a bad record.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count

import msgspec

from cdc_ops.core.events.format_spec import FormatOptions, FormatSpec, setting
from cdc_ops.events.records.json_lines import Lines
from cdc_ops.events.records.reader import FileCount, Numbered


@dataclass(frozen=True, slots=True, kw_only=True)
class CsvDialect:
    """How a tool writes CSV, where that differs from RFC 4180.

    Args:
        delimiter: One character.
        null: The text for NULL, without quotes.
        missing: The text for a value that the tool does not have, "" = there is no such text.
        columns: Column names that every file has. If the first record of a file lacks them, the file has no line of column names.
    """

    delimiter: str = ","
    null: str = "NULL"
    missing: str = ""
    columns: tuple[str, ...] = ()


def dialect(spec: FormatSpec, options: FormatOptions) -> CsvDialect:
    """Returns the CSV dialect of a format."""
    by = spec.files.csv
    named = {"delimiter": by.delimiter, "null": by.null, "missing": by.missing}
    said = {part: setting(spec, options, name) for part, name in named.items() if name}
    columns = (setting(spec, options, name) for name in by.columns)
    return CsvDialect(**said, columns=tuple(name for name in columns if name not in by.no_column))


class CsvRecords:
    """The rows of a file, see `RecordReader`; the count is that of its lines.

    Args:
        lines: All lines of the file.
        dialect: How the tool writes CSV.
        first_line: Rows that begin before this line are counted, and not returned.
    """

    def __init__(self, lines: Lines, dialect: CsvDialect, first_line: int = 0) -> None:
        self._lines, self._dialect, self._first_line = lines, dialect, first_line

    def batches(self) -> Iterator[list[Numbered]]:
        """See `RecordReader`."""
        names: list[str] | None = None
        is_first = True
        for texts in self._texts():
            rows = texts
            if is_first:
                is_first = False
                names = self._names(texts[0][0])
                rows = texts if names is None else texts[1:]
            found: list[Numbered] = [(self._row(text, names), line) for text, line in rows if line >= self._first_line]
            if found:
                yield found

    def count(self) -> FileCount:
        """See `RecordReader`."""
        return self._lines.count()

    def _texts(self) -> Iterator[list[tuple[bytes, int]]]:
        """Yields the records as they stand in the file, each with the number of its first line."""
        begun: list[bytes] = []
        start = 0
        for number, lines, _ in self._lines.batches():
            found = []
            for line, text in enumerate(lines, number):
                is_odd = b'"' in text and text.count(b'"') % 2
                if begun:
                    begun.append(text)
                    if is_odd:
                        found.append((b"\n".join(begun), start))
                        begun = []
                elif is_odd:
                    begun, start = [text], line
                else:
                    found.append((text, line))
            if found:
                yield found
        if begun:
            yield [(b"\n".join(begun), start)]

    def _names(self, text: bytes) -> list[str] | None:
        """Returns the names of the columns from the first record, None if it has none."""
        names = self._values(text)
        if names is None or None in names or not set(self._dialect.columns) <= set(names):
            return None
        return [name for name in names if name is not None]

    def _row(self, text: bytes, names: list[str] | None) -> bytes:
        """Returns a row as a JSON object, or its text if it does not fit the names."""
        if names is None:
            return text
        values = self._values(text)
        if values is None or len(values) != len(names):
            return text
        row = dict(zip(names, values, strict=True))
        if len(row) < len(names):
            return text
        if missing := self._dialect.missing:
            row = {name: value for name, value in row.items() if value != missing}
        return msgspec.json.encode(row)

    def _values(self, data: bytes) -> list[str | None] | None:
        """Returns the values of a record with None for NULL, or None if its quotes are misplaced or it is not UTF-8."""
        try:
            text = data.decode()
        except UnicodeDecodeError:
            return None
        null = self._dialect.null
        if '"' not in text:
            return [None if field == null else field for field in text.split(self._dialect.delimiter)]
        fields = _fields(text, self._dialect.delimiter)
        if fields is None:
            return None
        return [_unquoted(field) if field[:1] == '"' else None if field == null else field for field in fields]


def _fields(text: str, delimiter: str) -> list[str] | None:
    """Returns the values of a record with their quotes, None if quotes are misplaced.

    Split at quotes, every second piece is inside quotes, and a doubled quote is an empty piece outside. So delimiters outside are found
    without a regular expression, whose stack would grow with the number of quotes in a value.
    """
    pieces = text.split('"')
    if len(pieces) % 2 == 0:
        return None
    cut = next(one for one in map(chr, count(1)) if one not in text and one != delimiter)
    pieces[::2] = [piece.replace(delimiter, cut) for piece in pieces[::2]]
    fields = '"'.join(pieces).split(cut)
    if any('"' in field and not (len(field) > 1 and field[0] == field[-1] == '"') for field in fields):
        return None
    return fields


def _unquoted(field: str) -> str:
    return field[1:-1].replace('""', '"')
