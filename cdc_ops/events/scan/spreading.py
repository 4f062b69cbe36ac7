"""Hands records to the tables that they concern."""

from collections.abc import Iterable, Sequence

from cdc_ops.core.events.format_spec import RecordKind
from cdc_ops.events.format import Format
from cdc_ops.events.parse import envelopes_of
from cdc_ops.events.record import Envelope, Record
from cdc_ops.events.scan.request import TableTask
from cdc_ops.events.scan.tables import TableScan


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

    @property
    def watches(self) -> bool:
        """True if a table looks after records of unknown tables."""
        return bool(self._watching)

    def add(self, record: Record) -> None:
        """Takes a record."""
        for envelope in envelopes_of(self._form, record):
            self.add_envelope(record, envelope)

    def add_envelope(self, record: Record, envelope: Envelope) -> None:
        """Takes what a record says."""
        mine: Iterable[TableScan] = self._by_name.get((envelope.schema, envelope.table), ()) if envelope.table else self._tables
        line = record.line
        for table in mine:
            if line >= table.file.first_line:
                table.add(record, envelope)
        if envelope.table:
            for table in self._watching:
                if line >= table.file.first_line and table.name != (envelope.schema, envelope.table):
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
