"""The tables of a source for a new pipeline file: their keys, the column that may tell what has changed, and their size."""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from cdc_ops.core.text import size_text
from cdc_ops.errors import SourceTableError

if TYPE_CHECKING:
    from cdc_ops.core.schema.tables import TableName, TableSchema
    from cdc_ops.sources.base import Source

_CHANGED: Final = re.compile(r"updat|modif|chang|mtime|last_?mod", re.IGNORECASE)
"""Names of columns that say when a row was changed; `created_at` does not."""
_PLAIN: Final = re.compile(r"[A-Za-z_][\w.]*", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundTable:
    """A table of the source, and what its entry in a pipeline file would be.

    Args:
        table: The table.
        rows: As the source's statistics estimate.
        bytes: Of its rows, 0 where the source does not say.
        keys: Its primary key.
        cursor: The column that may tell what has changed, "" if none looks like that.
        remark: What somebody has to know or decide, "" if nothing.
        refused: Whether the table cannot be copied.
    """

    table: "TableName"
    rows: int = 0
    bytes: int = 0
    keys: tuple[str, ...] = ()
    cursor: str = ""
    remark: str = ""
    refused: bool = False

    @property
    def size(self) -> str:
        """Rows and bytes in words."""
        return f"about {self.rows:,} rows" + (f", {size_text(self.bytes)}" if self.bytes else "")

    def data(self) -> dict[str, Any]:
        """Returns it as JSON data."""
        sizes = {"table": str(self.table), "rows": self.rows, "bytes": self.bytes}
        return {**sizes, "keys": list(self.keys), "cursor": self.cursor, "remark": self.remark, "entry": self.is_entry}

    @property
    def is_entry(self) -> bool:
        """False if somebody has to decide something before the table can be an entry."""
        return not self.refused and bool(self.keys)

    @property
    def line(self) -> str:
        """The entry of the table, as a line of the pipeline file; a comment if the table needs a decision first."""
        name = _quoted(str(self.table))
        if self.refused:
            return f"  # {name}: {{exclude: true}}   # {self.remark}"
        if not self.keys:
            return f"  # {name}: {{keys: [...]}}   # {self.size}; {self.remark}"
        remark = self.remark.partition(". ")[0].rstrip(".")  # the remedy is said at the terminal
        settings = "{}" if self.cursor == "updated_at" else f"{{cursor: {_quoted(self.cursor) if self.cursor else '[]'}}}"
        return f"  {name}: {settings}   # {'; '.join(filter(None, (self.size, remark)))}"


def find_tables(source: "Source", schema: str = "") -> Iterator[FoundTable]:
    """Yields the tables that the user may read.

    Args:
        source: The source.
        schema: Only tables of this schema; "" = of all.

    Raises:
        SourceError: the source cannot be asked.
    """
    for table in source.tables():
        if schema and table.schema != schema:
            continue
        try:
            yield _found(source, source.schema(table))
        except SourceTableError as error:
            yield FoundTable(table=table, remark=" ".join(error.what.split()), refused=True)


def _found(source: "Source", schema: "TableSchema") -> FoundTable:
    cursor, warnings = _cursor(source, schema)
    remarks = (
        *(() if schema.primary_key else ("no primary key: name the columns that identify a row",)),
        *((" ".join(warnings[0].split()),) if warnings else ()),
        *(() if cursor else ("no column says when a row was changed: each run compares the whole table",)),
    )
    return FoundTable(
        table=schema.table,
        rows=schema.approximate_rows,
        bytes=schema.approximate_rows * schema.row_bytes,
        keys=schema.primary_key,
        cursor=cursor,
        remark=remarks[0] if remarks else "",
    )


def _cursor(source: "Source", schema: "TableSchema") -> tuple[str, Sequence[str]]:
    """Returns the column that says when a row was changed, the one with the fewest warnings, and these; "" if there is none."""
    candidates = []
    for column in schema.columns:
        if column.delta_type.startswith("timestamp") and _CHANGED.search(column.name):
            try:
                candidates.append((column.name, source.cursor(schema, (column.name,))[1]))
            except SourceTableError:
                continue
    return min(candidates, key=lambda item: len(item[1]), default=("", ()))


def _quoted(name: str) -> str:
    return name if _PLAIN.fullmatch(name) else json.dumps(name, ensure_ascii=False)
