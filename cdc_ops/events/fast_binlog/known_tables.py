"""The descriptions of tables in a file, for the kernels: which bytes describe which table, and which of them are asked for."""

from dataclasses import dataclass, field

import numpy as np

from cdc_ops.core.binlog.events import FormatDescription
from cdc_ops.decode.binlog.events import KnownTables
from cdc_ops.events.binlog.rows import TableReader
from cdc_ops.events.binlog.table_map import read_table_map, read_table_name

_ID_SIZE = 6


@dataclass(slots=True)
class Descriptions:
    """All descriptions that a file has shown so far.

    Args:
        database: Of the table that is asked for.
        table: Its name.
        description: Of the file's format.
    """

    database: str
    table: str
    description: FormatDescription
    slots: dict[bytes, int] = field(default_factory=dict)
    readers: list[TableReader | None] = field(default_factory=list)
    numbers: dict[int, int] = field(default_factory=dict)

    def add(self, body: bytes) -> TableReader | None:
        """Adds the description in the body of an event; returns the reader of a table that is asked for, if it is new.

        Raises:
            MalformedBytesError: it is not whole.
        """
        number, database, table = read_table_name(body, self.description)
        key = body[_ID_SIZE:]
        new = None
        if key not in self.slots:
            if (database, table) == (self.database, self.table):
                new = TableReader(read_table_map(body, self.description))
            self.slots[key] = len(self.readers)
            self.readers.append(new)
        self.numbers[number] = self.slots[key]
        return new

    def for_kernels(self, before: KnownTables | None) -> KnownTables:
        """Returns them as arrays; which numbers were seen in which statement stays known."""
        size = 16
        while size < 4 * len(self.numbers):
            size *= 2
        ends = np.cumsum([len(key) for key in self.slots], dtype=np.int64)
        made = KnownTables(
            number=np.full(size, -1, np.int64),
            slot=np.zeros(size, np.int64),
            statement=np.full(size, -1, np.int64),
            first=ends - np.array([len(key) for key in self.slots], np.int64),
            last=ends,
            wanted=np.array([reader is not None for reader in self.readers], np.int64),
            text=np.frombuffer(b"".join(self.slots), np.uint8).copy(),
        )
        seen = {} if before is None else dict(zip(before.number.tolist(), before.statement.tolist(), strict=True))
        for number, slot in self.numbers.items():
            place = number & (size - 1)
            while made.number[place] >= 0:
                place = (place + 1) & (size - 1)
            made.number[place], made.slot[place], made.statement[place] = number, slot, seen.get(number, -1)
        return made
