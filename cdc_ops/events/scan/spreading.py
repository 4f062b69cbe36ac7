"""Hands records to the tables that they concern."""

from collections.abc import Iterator, Sequence
from typing import Final

from cdc_ops.core.events.format_spec import RecordKind
from cdc_ops.events.format import Format
from cdc_ops.events.parse import envelopes_of_each
from cdc_ops.events.record import Envelope, Record
from cdc_ops.events.scan.request import TableTask
from cdc_ops.events.scan.tables import TableScan

_AT_ONCE: Final = 4 * 2**20
_MOST_HELD: Final = 64 * 2**20
"""Bytes of records that are taken apart at once, and that tables hold together before they read what they have."""


class Spreader:
    """Hands each record to the tables that it concerns.

    Args:
        form: The format, opened.
        tables: The tables.
    """

    def __init__(self, form: Format, tables: Sequence[TableScan]) -> None:
        self._form, self._tables = form, tables
        self._by_name: dict[tuple[str, str], list[TableScan]] = {}
        for table in tables:
            self._by_name.setdefault(table.name, []).append(table)
        self._watching = [table for table in tables if table.task.watch is not None]
        self._unknown: dict[tuple[int, str, str], bool] = {}
        self._held = 0

    @property
    def watches(self) -> bool:
        """True if a table looks after records of unknown tables."""
        return bool(self._watching)

    def add(self, records: Sequence[Record]) -> None:
        """Takes records, in the order of the file."""
        for some, size in _parts(records):
            self._spread(some)
            # What a record says holds the bytes of all that were taken apart with it, of whatever table they are.
            self._held += size
            if self._held >= _MOST_HELD:
                self._held = 0
                for table in self._tables:
                    table.read()

    def _spread(self, records: Sequence[Record]) -> None:
        by_name, every, watches = self._by_name.get, self._tables, self.watches
        for record, envelopes in zip(records, envelopes_of_each(self._form, records), strict=True):
            for envelope in envelopes:
                for table in by_name((envelope.schema, envelope.table), ()) if envelope.table else every:
                    if record.line >= table.file.first_line:
                        table.add(record, envelope)
                if watches and envelope.table:
                    self._watch(record, envelope)
        for table in every:
            table.settle()

    def _watch(self, record: Record, envelope: Envelope) -> None:
        """Shows what a record says to the tables that look after unknown ones."""
        for table in self._watching:
            if record.line >= table.file.first_line and table.name != (envelope.schema, envelope.table):
                self._add_other(table, record, envelope)

    def _add_other(self, table: TableScan, record: Record, envelope: Envelope) -> None:
        """Takes a record of another table than one that looks after unknown ones."""
        key = (id(table), envelope.schema, envelope.table)
        unknown = self._unknown.get(key)
        if unknown is None:
            unknown = self._unknown[key] = is_unknown(table.task, envelope.schema, envelope.table)
        if unknown:
            table.add_unknown(record, envelope)
        elif table.task.again:
            table.add(record, Envelope(RecordKind.CONTROL, schema=envelope.schema, table=envelope.table))


def _parts(records: Sequence[Record]) -> Iterator[tuple[Sequence[Record], int]]:
    """Cuts records into those that are taken apart at once; yields their bytes beside them."""
    sizes = [len(record.value or b"") for record in records]
    total = sum(sizes)
    if total <= _AT_ONCE:
        yield records, total
        return
    begin = size = 0
    for index, one in enumerate(sizes):
        if size and size + one > _AT_ONCE:
            yield records[begin:index], size
            begin, size = index, 0
        size += one
    yield records[begin:], size


def is_unknown(task: TableTask, schema: str, table: str) -> bool:
    """True for a table that the pipeline file does not name, or whose records are not to be in this folder."""
    watch = task.watch
    if watch is None:
        return False
    if not watch.known.knows(f"{schema}.{table}" if schema else table):
        return True
    pattern = watch.url.rstrip("/")
    if "{schema}" in pattern or "{table}" in pattern:
        return pattern.replace("{schema}", schema).replace("{table}", table) != task.archive.url
    return False
