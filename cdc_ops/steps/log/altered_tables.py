"""What events tell of a table's columns, and what that comes to."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from cdc_ops.core.events.column_drift import STATEMENT_LENGTH, ColumnDrift
from cdc_ops.core.events.ddl_changes import ONLY_TAKES_AWAY, DdlChange, Renaming, Statement, TableChangeKind, renamings, reportable_changes
from cdc_ops.core.events.format_spec import MYSQL, FormatSpec
from cdc_ops.core.schema.tables import TableName, TableSchema
from cdc_ops.events.scan.facts import Drift, FoundStatement
from cdc_ops.events.scan.statements import READ_LENGTH
from cdc_ops.steps.log.event_order import instant

_UNIT: Final = timedelta(seconds=1)


def statements_of(drifts: Iterable[Drift], table: TableName, spec: FormatSpec) -> tuple[Statement, ...]:
    """Returns the statements that were found in the files and are of the table, or not understood; of the same place each text once."""
    found = {(one.text, one.schema, one.place): one for drift in drifts for one in drift.statements}
    read = [_statement(one, table, spec) for _, one in sorted(found.items(), key=str)]
    return tuple(one for one in read if one.changes != ())


def _statement(found: FoundStatement, table: TableName, spec: FormatSpec) -> Statement:
    from cdc_ops.events.ddl import table_changes  # brings a parser of SQL, which few batches need

    readable = spec.marks.statements == MYSQL and len(found.text) < READ_LENGTH
    known = tuple(number for number in found.place if number is not None)
    statement = Statement(
        text=found.text,
        place=known if len(known) == len(found.place) else (),
        changes=table_changes(found.text, table, found.schema) if readable else None,
    )
    return replace(statement, at=instant(found.at))


@dataclass(frozen=True, slots=True, kw_only=True)
class AlteredTable:
    """How a table was altered while the events of a batch were written.

    Args:
        schema: The table, as the source has it.
        spec: The format's declaration.
        statements: Of the batch and the table, see `statements_of`.
        renamed: Old and new names in the pipeline file, by which events were read before.
        declared: The columns are those of the pipeline file, and there is no source.
        stored: Columns that the lake has and the table has not.
        begins: The batch is the table's first: it has no row from before.
        read_at: When its rows were read at the source, which the events follow (UTC, by the source's clock); None if they were not.
        keeps_versions: The table keeps versions (SCD type 2).
    """

    schema: TableSchema
    spec: FormatSpec
    statements: tuple[Statement, ...]
    renamed: tuple[tuple[str, str], ...]
    declared: bool = False
    stored: tuple[str, ...] = ()
    begins: bool = False
    read_at: datetime | None = None
    keeps_versions: bool = False

    @property
    def renamings(self) -> tuple[Renaming, ...]:
        """Which events have columns under other names, beyond what the pipeline file says; () where events have no one order."""
        if not self.statements or not self.spec.one_order:
            return ()
        return tuple(one for one in renamings(self.statements, self.schema.names) if (one.old, one.new.lower()) not in self._by_setting)

    def drift(self, drifts: Sequence[Drift], truncates: Iterable[tuple[int, ...]], lowest: tuple[int, ...] = ()) -> ColumnDrift:
        """Adds up what was found in each file, once old names were read as `renamings` says.

        Args:
            drifts: Of each file.
            truncates: Positions of the TRUNCATEs among the events.
            lowest: The smallest position among them; () if there is none.
        """
        lacking = [set(names) for one in drifts for names in one.named]
        return ColumnDrift(
            lacking=tuple(column.name for column in self.schema.columns if any(column.name not in names for names in lacking)),
            rows=sum(one.lacking for one in drifts),
            unmapped=tuple(sorted({name for one in drifts for name in one.unmapped if name.lower() not in self._known})),
            statements=tuple(sorted({one.text[:STATEMENT_LENGTH] for one in self.statements if one.changes is None})),
            changes=self._changes(truncates, lowest) if self.statements else (),
            undeclared=tuple(sorted({name for one in drifts for name in one.undeclared if name.lower() not in self._known})),
            declared=self.declared,
            keeps_versions=self.keeps_versions,
        )

    @property
    def _by_setting(self) -> set[tuple[str, str]]:
        """The pairs of the pipeline file that count, in lower case."""
        has = self.schema.column
        return {(old.lower(), new.lower()) for old, new in self.renamed if has(new) is not None and has(old) is None}

    @property
    def _known(self) -> set[str]:
        """Names in events that nobody has to be asked for: the table had such a column, or the lake has it."""
        changes = (change for one in self.statements for change in one.changes or ())
        dropped = {change.column.lower() for change in changes if change.kind is TableChangeKind.DROPPED}
        return dropped | {name.lower() for name in self.stored}

    def _changes(self, truncates: Iterable[tuple[int, ...]], lowest: tuple[int, ...]) -> tuple[DdlChange, ...]:
        by_setting = {(old, one.place) for old, _ in self._by_setting for one in self.statements}
        by_statement = {(one.old, one.until) for one in self.renamings}
        kept = [index for index, field in enumerate(self.spec.order) if not field.of_delivery]
        emptied = max((tuple(place[index] for index in kept) for place in truncates), default=())
        found = reportable_changes(self.statements, self.schema.names, by_setting | by_statement, emptied)
        first = tuple(lowest[index] for index in kept) if lowest else ()
        return tuple(
            replace(change, place=self._said(one.place))
            for one, change in found
            if not (change.kind in ONLY_TAKES_AWAY and (self._is_before_all_rows(one.place, first) or self._is_before_the_read(one)))
        )

    def _is_before_all_rows(self, place: tuple[int, ...], first: tuple[int, ...]) -> bool:
        """True for a place at which the table had no row, so that no statement there took one away."""
        return self.begins and (not first or (bool(place) and place <= first))

    def _is_before_the_read(self, statement: Statement) -> bool:
        """True for a statement that was over when the rows were read; logs round its time down to a second."""
        return self.read_at is not None and statement.at is not None and statement.at + _UNIT <= self.read_at

    def _said(self, place: tuple[int, ...]) -> str:
        """Returns a place for people: the numbers that tell anything."""
        names = [field.name for field in self.spec.order if not field.of_delivery]
        return ", ".join(f"{name} {number}" for name, number in zip(names, place, strict=False) if name != "streamed" and number > 0)
