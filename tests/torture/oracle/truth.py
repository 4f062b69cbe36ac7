"""The rows of a source's table: the server's own text of each value, made into what is compared."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.torture.model import Canon, Column, Kind, Table
from tests.torture.oracle.lake import Row
from tests.torture.oracle.values import from_source


@dataclass
class Truth:
    """Rows of the source; `types` are the stored types that docs/types.md names for each column."""

    rows: list[Row] = field(default_factory=list)
    types: dict[str, tuple[str, ...]] = field(default_factory=dict)


def read_truth(ask: Callable[[str], list[tuple[Any, ...]]], table: Table, kinds: dict[str, Kind], *, server: str, only: str = "") -> Truth:
    """Asks the server for the text of each value of a table.

    Args:
        ask: Runs a query in a session of fixed settings.
        table: The table as it is now; columns that were dropped are not in it.
        kinds: The types of the server.
        server: postgres, mysql or mariadb.
        only: `ONLY ` for the rows of a table without those of its children.
    """
    mark = '"' if server == "postgres" else "`"
    quote = lambda name: mark + name.replace(mark, mark * 2) + mark  # noqa: E731
    columns = [one for one in table.columns if one.kind]
    shown = [shown_of(kinds[one.kind], one, table).replace("{0}", quote(one.name)).replace("{}", quote(one.name)) for one in columns]
    convert = [converter_of(kinds[one.kind], one, table) for one in columns]
    truth = Truth(types={one.name: ("string",) if _as_text(kinds[one.kind], one, table) else kinds[one.kind].stored for one in columns})
    for row in ask(f"SELECT {', '.join(shown)} FROM {only}{quote(table.name)}"):
        pairs = zip(columns, convert, row, strict=True)
        truth.rows.append({one.name: None if value is None else make(_text(value)) for one, make, value in pairs})
    return truth


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, (bytes, bytearray)) else str(value)


def _as_text(kind: Kind, column: Column, table: Table) -> bool:
    if not kind.raw or (column.name == "updated_at" and table.setting("method") != "log"):
        return False  # a cursor keeps its type
    policy = "nan_values" if kind.canon is Canon.DECIMAL else "zero_dates"
    return table.setting(policy) == "string"


def shown_of(kind: Kind, column: Column, table: Table) -> str:
    """Returns the expression, of `{}`, whose text is compared."""
    return kind.raw if _as_text(kind, column, table) else kind.shown


def converter_of(kind: Kind, column: Column, table: Table) -> Callable[[str], Any]:
    """Returns what makes of that text the value that is compared."""
    shown = shown_of(kind, column, table)
    canon = Canon.TEXT if _as_text(kind, column, table) else kind.canon
    return from_source(canon, hexed=shown.startswith(("HEX(", "encode(")))
