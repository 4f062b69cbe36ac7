"""What landed events tell of a table's columns: aggregates of the feed, and what they come to; Spark expressions only."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F

from cdc_ops.core.events.column_drift import STATEMENT_LENGTH, ColumnDrift
from cdc_ops.core.events.ddl_changes import ONLY_TAKES_AWAY, DdlChange, Renaming, Statement, TableChangeKind, renamings, reportable_changes
from cdc_ops.core.events.format_spec import MYSQL, WHOLE_ROW, FormatSpec, RecordKind
from cdc_ops.core.operation.log_batch import LogBatch
from cdc_ops.core.schema.declared_tables import DOCUMENT_COLUMN
from cdc_ops.core.schema.tables import TableName, TableSchema
from cdc_ops.formats.feed.canonical import all_names
from cdc_ops.formats.feed.fold import place_of
from cdc_ops.steps.log.event_order import instant, moment

STATEMENT: Final = "statement"
"""Column of a landed feed: a statement that may have changed this table, and the database that its record names."""
_UNIT: Final = timedelta(seconds=1)
_READ_LENGTH: Final = 20_000
"""Characters of a statement that are read; one that has as many may be cut, and is not understood."""


def statement_of(table: TableName) -> Column:
    """Returns the statement of a feed's row that may have changed the table; what a snapshot writes of a table changed nothing.

    Of a statement whose record names no table, e.g. one that renames several, it is enough that it has the table's name in it, or drops a
    database.
    """
    name = F.col("table")
    known = F.coalesce(name["name"], F.lit("")) != ""
    of_it = F.when(known, (name["schema"] == table.schema) & (name["name"] == table.name))
    of_it = of_it.otherwise(F.col("ddl").rlike(rf"(?is)(^|\W)\Q{table.name}\E(\W|$)|\bdrop\s+(database|schema)\b"))
    mine = of_it & ~F.coalesce(F.col("snapshot"), F.lit(False))
    text = F.substring(F.trim("ddl"), 1, _READ_LENGTH).alias("text")
    found = F.struct(text, F.coalesce(name["schema"], F.lit("")).alias("schema"))
    return F.when((F.col("kind") == RecordKind.DDL) & F.coalesce(mine, F.lit(False)), found).alias(STATEMENT)


def news_columns(feed: DataFrame, schema: TableSchema, spec: FormatSpec, log: LogBatch) -> tuple[Column, ...]:
    """Returns what `news_of` and `statements_of` need of each file: nearly always there is nothing to collect.

    Args:
        feed: The landed feed.
        schema: The table.
        spec: The format's declaration.
        log: Names all columns that the pipeline file declares; and maybe one that has all of a document, also what is not declared.
    """
    declared = () if dict(log.archive.events.settings).get(DOCUMENT_COLUMN) else log.declared
    strange = F.array_except("unmapped", F.array(*(F.lit(name) for name in declared))) if declared else F.lit(None).cast("array<string>")
    every = all_names(schema.columns)
    lacks = (F.col("kind") == RecordKind.CHANGE) & F.col("op").isin(*WHOLE_ROW) & (F.col("present") != every)
    said = F.col(STATEMENT)
    place, at = place_of(feed, _of_delivery(spec)).alias("place"), F.coalesce(moment(F.col("source_time")), F.lit("")).alias("at")
    return (
        F.flatten(F.collect_set(F.when(F.size(strange) > 0, strange))).alias("undeclared"),
        F.count_if(lacks).alias("lacking"),
        F.collect_set(F.when(lacks, F.col("present"))).alias("told"),
        F.flatten(F.collect_set(F.when(lacks, F.col("unmapped")))).alias("unmapped"),
        F.collect_set(F.when(said.isNotNull(), F.struct(said["text"].alias("text"), said["schema"].alias("schema"), place, at))).alias(
            "statements"
        ),
    )


def statements_of(rows: Iterable[Row], table: TableName, spec: FormatSpec) -> tuple[Statement, ...]:
    """Returns the statements that were found in the files and are of the table, or not understood; of the same place each text once."""
    found = {(one["text"], one["schema"], tuple(one["place"])): one["at"] for row in rows for one in row["statements"]}
    read = [replace(_statement(*key, table, spec), at=instant(at)) for key, at in sorted(found.items(), key=str)]
    return tuple(one for one in read if one.changes != ())


def _statement(text: str, schema: str, place: tuple[int | None, ...], table: TableName, spec: FormatSpec) -> Statement:
    from cdc_ops.formats.feed.ddl import table_changes  # brings a parser of SQL, which few batches need

    readable = spec.statements == MYSQL and len(text) < _READ_LENGTH
    known = tuple(number for number in place if number is not None)
    return Statement(
        text=text, place=known if len(known) == len(place) else (), changes=table_changes(text, table, schema) if readable else None
    )


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

    def news(self, rows: Sequence[Row], truncates: Iterable[tuple[int, ...]], lowest: tuple[int, ...] = ()) -> ColumnDrift:
        """Adds up what was found in each file, once old names were read as `renamings` says.

        Args:
            rows: One per file, with the `news_columns`.
            truncates: Positions of the TRUNCATEs among the events.
            lowest: The smallest position among them; () if there is none.
        """
        lacking = [set(names) for row in rows for names in row["told"]]
        return ColumnDrift(
            lacking=tuple(column.name for column in self.schema.columns if any(column.name not in names for names in lacking)),
            rows=sum(row["lacking"] for row in rows),
            unmapped=tuple(sorted({name for row in rows for name in row["unmapped"] if name.lower() not in self._known})),
            statements=tuple(sorted({one.text[:STATEMENT_LENGTH] for one in self.statements if one.changes is None})),
            changes=self._changes(truncates, lowest) if self.statements else (),
            undeclared=tuple(sorted({name for row in rows for name in row["undeclared"] if name.lower() not in self._known})),
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


def _of_delivery(spec: FormatSpec) -> tuple[str, ...]:
    return tuple(field.name for field in spec.order if field.of_delivery)
