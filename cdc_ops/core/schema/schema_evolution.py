"""Schema changes at the source: the differences between a Delta table and its source, and how a table's policy handles them. Pure.

    compare_columns, compare_keys -> SchemaChange, ... -> decide (policy) -> Decision: the columns to read, what to alter first, what to say

A column is compared by its *stored* type: `varchar(10)` and `varchar(100)` are both `string`, and NOT NULL does not matter, because stored
columns are always nullable. What is stored already is never cast down, and a value is never cast to a type that does not hold it exactly.
"""

import enum
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from cdc_ops.core.schema.declared_tables import next_step
from cdc_ops.core.schema.tables import Column, TableName, TableSchema
from cdc_ops.core.schema.type_widening import canonical_type, common_type, holds
from cdc_ops.core.text import without_columns
from cdc_ops.errors import SchemaChangedError

COPY_ANEW: Final = "copy the table with a pipeline of another name to another path"
"""The remedy for a table that cannot continue. A new path alone is not enough: the ledger knows commits that are not at that path."""


class SchemaPolicy(enum.StrEnum):
    """How a table reacts when its columns change at the source."""

    EVOLVE = "evolve"
    """The lake follows: new columns are added, types are widened. A change that the lake cannot follow exactly stops the table."""
    FREEZE = "freeze"
    """The lake keeps its columns: new columns are not copied, and each run reports them. A type wider than the stored type stops it."""
    FAIL = "fail"
    """Any change stops the table until someone has reviewed it."""


class ChangeKind(enum.StrEnum):
    """How the source differs from the lake."""

    ADDED = "added"
    DROPPED = "dropped"
    RENAMED = "renamed"
    WIDENED = "widened"
    NARROWED = "narrowed"
    RETYPED = "retyped"
    KEYS = "keys"


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaChange:
    """One difference between the lake and the source.

    Args:
        kind: Which.
        column: The column at the source; for a dropped one its name in the lake; "" for changed keys.
        before: Stored type; for `renamed` the stored name; for `keys` the recorded ones.
        after: For `added` and `widened` the type to be stored, for `narrowed` and `retyped` the type that the source's values have, for
            `keys` the new ones.
        declared: The type as the source declares it now, "" where there is none; for a column of ours the setting that wants it.
        nulls: For a column of ours, which no backfill can fill: what is said of NULL in it. "" = the column is the source's.
    """

    kind: ChangeKind
    column: str
    before: str = ""
    after: str = ""
    declared: str = ""
    nulls: str = ""

    def __str__(self) -> str:
        match self.kind:
            case ChangeKind.ADDED:
                return f"{self.column} added ({self.declared})"
            case ChangeKind.DROPPED:
                return f"{self.column} dropped"
            case ChangeKind.RENAMED:
                return f"{self.before} renamed to {self.column}"
            case ChangeKind.KEYS:
                return f"keys changed from ({self.before}) to ({self.after})"
            case _:
                return f"{self.column} {self.kind} to {self.declared} (stored as {self.before})"

    @property
    def alters(self) -> bool:
        """True if the Delta table must be altered before rows with the new column can be written."""
        return self.kind in (ChangeKind.ADDED, ChangeKind.RENAMED, ChangeKind.WIDENED)

    def meaning(self, pipeline: str, table: TableName, *, declared: bool = False, fills: bool = True, filled: bool = False) -> str:
        """Returns one sentence: how the change is applied, and what it means for existing rows.

        Args:
            pipeline, table: For the command that fills a new column.
            declared: There is no source to read anything from.
            fills: Single columns of the table can be read again.
            filled: The run that finds the change reads a new column for all rows.
        """
        match self.kind:
            case ChangeKind.ADDED:
                added = f"column {self.column} ({self.declared}) is new: it is added as {self.after}"
                command = f"; to fill them: cdc-ops backfill --pipeline {pipeline} --table {table} --columns {self.column}"
                until = self.nulls if self.nulls or declared else f" until they change{command if fills else ''}"
                done = filled and not self.nulls and not declared
                return f"{added}, and this run fills it" if done else f"{added}; existing rows have NULL in it{until}"
            case ChangeKind.DROPPED:
                return f"column {self.column} was dropped at the source: the lake keeps it with its values, new rows have NULL in it"
            case ChangeKind.RENAMED:
                return f"column {self.before} was renamed to {self.column}: it is renamed in the lake and keeps its values"
            case ChangeKind.WIDENED:
                return f"column {self.column} changed to {self.declared}: its stored type is widened from {self.before} to {self.after}"
            case ChangeKind.NARROWED:
                return f"column {self.column} changed to {self.declared}: its stored type stays {self.before}, which holds all its values"
            case ChangeKind.RETYPED:
                return f"column {self.column} changed to {self.declared}, which is stored as {self.after}; the lake has {self.before}"
            case ChangeKind.KEYS:
                return f"the keys changed to ({self.after}); the lake identifies its rows by ({self.before})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """The schema facts in the newest commit record; empty if the record has none.

    Args:
        keys: Key columns.
        fingerprint: `TableSchema.fingerprint` of the source.
    """

    keys: tuple[str, ...] = ()
    fingerprint: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaSettings:
    """The settings of a pipeline for the schema of a table.

    Args:
        pipeline: Its name, for messages.
        policy: What to do.
        renamed: Old and new names of columns that were renamed at the source.
        declared: The columns are those of the pipeline file, and there is no source to read anything from again.
        fills: Single columns of the table can be read again for all rows.
        filled: The columns that this run reads again for all rows.
    """

    pipeline: str
    policy: SchemaPolicy = SchemaPolicy.EVOLVE
    renamed: tuple[tuple[str, str], ...] = ()
    declared: bool = False
    fills: bool = True
    filled: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """The result of a policy for some changes.

    Args:
        schema: The columns to read, each with the type in which it is stored once `alter` is done.
        source: The source's columns, with the source's own types.
        alter: Changes to be made to the Delta table before the statement, in order.
        notes: One sentence per change that the run has to report.
    """

    schema: TableSchema
    source: TableSchema
    alter: tuple[SchemaChange, ...] = ()
    notes: tuple[str, ...] = ()


def compare_columns(
    stored: Iterable[tuple[str, str]], now: TableSchema, renamed: Iterable[tuple[str, str]] = ()
) -> tuple[SchemaChange, ...]:
    """Compares the columns of a Delta table with the current columns of its source.

    Args:
        stored: Name and type of the table's columns.
        now: The source's columns, as selected by the pipeline's settings.
        renamed: Old and new names. A pair counts while the lake has the old name alone and the source the new one alone.
    """
    lake = {name.lower(): (name, canonical_type(kind)) for name, kind in stored}
    changes: list[SchemaChange] = []
    for old, new in renamed:
        column = now.column(new)
        if column is not None and old.lower() in lake and new.lower() not in lake and now.column(old) is None:
            name, kind = lake.pop(old.lower())
            lake[new.lower()] = (column.name, kind)
            changes.append(SchemaChange(kind=ChangeKind.RENAMED, column=column.name, before=name, declared=column.source_type))
    for column in now.columns:
        change = _compared(column, lake.get(column.name.lower()))
        if change is not None:
            changes.append(change)
    gone = (item for lower, item in lake.items() if now.column(lower) is None)
    return (*changes, *(SchemaChange(kind=ChangeKind.DROPPED, column=name, before=kind) for name, kind in gone))


def compare_keys(recorded: tuple[str, ...], keys: tuple[str, ...], changes: Iterable[SchemaChange] = ()) -> tuple[SchemaChange, ...]:
    """Compares the keys of the lake's rows with the current keys of the source.

    Args:
        recorded: Keys of the newest commit, empty if it names none; then nothing is known, and nothing reported.
        keys: Keys now; empty if the table has none.
        changes: Of the columns; a renamed key column is the same key.
    """
    names = {change.before.lower(): change.column.lower() for change in changes if change.kind is ChangeKind.RENAMED}
    before = {names.get(key.lower(), key.lower()) for key in recorded}
    if not recorded or not keys or before == {key.lower() for key in keys}:
        return ()
    return (SchemaChange(kind=ChangeKind.KEYS, column="", before=", ".join(recorded), after=", ".join(keys)),)


def decide(
    settings: SchemaSettings, now: TableSchema, changes: tuple[SchemaChange, ...], recorded: Recorded, needed: Iterable[str] = ()
) -> Decision:
    """Applies a table's policy to the changes that were found.

    Args:
        settings: Pipeline and policy.
        now: The source's columns.
        changes: Of columns and keys.
        recorded: What the newest commit was written with: changes that it knew are not reported again, and do not stop `fail`.
        needed: Key and cursor columns, and those that other settings name, which cannot be left out.

    Raises:
        SchemaChangedError: the policy does not follow one of the changes.
    """
    news = recorded.fingerprint != now.fingerprint
    refused = _refused(settings.policy, changes, news, {name.lower() for name in needed})
    if refused:
        raise _stopped(settings, now.table, refused)
    if settings.policy is SchemaPolicy.EVOLVE:
        alter = tuple(change for change in changes if change.alters)
        told = changes if news else alter
    else:
        alter = ()
        told = tuple(c for c in changes if c.kind is not ChangeKind.NARROWED) if settings.policy is SchemaPolicy.FREEZE else ()
    left_out = {c.column for c in changes if c.kind is ChangeKind.ADDED} if settings.policy is not SchemaPolicy.EVOLVE else set()
    types = {c.column: c.after if c.kind is ChangeKind.WIDENED else c.before for c in changes if c.kind in _STORED_OTHERWISE}
    columns = (replace(c, delta_type=types.get(c.name, c.delta_type)) for c in now.columns if c.name not in left_out)
    return Decision(schema=replace(now, columns=tuple(columns)), source=now, alter=alter, notes=_notes(settings, now.table, told, left_out))


def keeps_position(before: str, now: str) -> bool:
    """True if a watermark keeps its position when the stored type of its cursor column changes.

    Whole numbers do, and days that become moments. Moments that become days do not: the rest of the watermark's day would be skipped.
    """
    first, second = canonical_type(before), canonical_type(now)
    whole = ("tinyint", "smallint", "int", "bigint", "decimal")
    return first == second or (first.startswith(whole) and second.startswith(whole)) or (first, second) == ("date", "timestamp_ntz")


def drift(frozen: TableSchema, now: TableSchema) -> tuple[str, ...]:
    """Returns the columns of a frozen operation that can no longer be read as planned, each with the reason.

    Args:
        frozen: The operation's columns.
        now: The source's.
    """
    found = []
    for column in frozen.columns:
        present = now.column(column.name)
        if present is None:
            found.append(f"{column.normalises or column.name} is {'compared by another collation' if column.normalises else 'gone'}")
        elif not reads_alike(column, present):
            changed = f"{column.name} changed from {column.source_type} to {present.source_type}"
            found.append(f"{column.normalises} is compared by another collation" if column.normalises else changed)
    return tuple(found)


def reads_alike(frozen: Column, now: Column) -> bool:
    """True if a column can still be read as it was frozen; a changed length of a text does not matter."""
    if frozen.source_type == now.source_type:
        return frozen.expression == now.expression
    unlimited = canonical_type(frozen.delta_type) in ("string", "binary")
    return unlimited and (frozen.delta_type, frozen.expression) == (now.delta_type, now.expression)


def only_columns(schema: TableSchema, names: Iterable[str]) -> TableSchema:
    """Returns a schema with only the named columns, in its own order; names are compared without regard to case."""
    wanted = {name.lower() for name in names}
    return replace(schema, columns=tuple(column for column in schema.columns if column.name.lower() in wanted))


_STORED_OTHERWISE = (ChangeKind.WIDENED, ChangeKind.NARROWED)


def _compared(column: Column, stored: tuple[str, str] | None) -> SchemaChange | None:
    now = canonical_type(column.delta_type)
    if stored is None:
        return SchemaChange(kind=ChangeKind.ADDED, column=column.name, after=now, declared=column.source_type)
    before = stored[1]
    if before == now:
        return None
    kind, after = ChangeKind.RETYPED, now
    if holds(before, now):
        kind = ChangeKind.NARROWED
    elif (common := common_type(before, now)) is not None:
        kind, after = ChangeKind.WIDENED, common
    return SchemaChange(kind=kind, column=column.name, before=before, after=after, declared=column.source_type)


def _refused(policy: SchemaPolicy, changes: tuple[SchemaChange, ...], news: bool, needed: set[str]) -> tuple[SchemaChange, ...]:
    always = {ChangeKind.RETYPED, ChangeKind.KEYS}
    if policy is SchemaPolicy.EVOLVE:
        return tuple(change for change in changes if change.kind in always)
    if policy is SchemaPolicy.FAIL and news:
        return changes
    # A type that outgrew the stored one, and a column that the run itself needs, cannot be left out.
    stops = always | {ChangeKind.WIDENED}
    return tuple(c for c in changes if c.kind in stops or (c.kind is ChangeKind.ADDED and c.column.lower() in needed))


def _notes(settings: SchemaSettings, table: TableName, changes: tuple[SchemaChange, ...], left_out: set[str]) -> tuple[str, ...]:
    frozen = f"is new at the source and is not copied: schema_changes is '{settings.policy}'"
    filled_here = {name.lower() for name in settings.filled}

    def meaning(change: SchemaChange) -> str:
        if change.column in left_out:
            return f"column {change.column} ({change.declared}) {frozen}"
        filled = change.column.lower() in filled_here
        return change.meaning(settings.pipeline, table, declared=settings.declared, fills=settings.fills, filled=filled)

    return tuple(map(meaning, changes))


def _stopped(settings: SchemaSettings, table: TableName, refused: tuple[SchemaChange, ...]) -> SchemaChangedError:
    remedies = [
        next_step(
            f"resync --pipeline {settings.pipeline} --table {table} --mode full",
            "reads all rows again into a new generation with the source's columns and keys",
            declared=settings.declared,
            first="Declare the columns and keys as they were.",
        )
    ]
    hard = tuple(change for change in refused if change.kind in (ChangeKind.RETYPED, ChangeKind.KEYS))
    if retyped := [change.column for change in hard if change.kind is ChangeKind.RETYPED]:
        remedies.append(f"or exclude it: '{without_columns(retyped)}' in the pipeline file; the lake keeps its values")
    if not hard:
        remedies.append("or let the lake follow: 'schema_changes: evolve' in the pipeline file")
    undecided = "This policy adds, drops and casts no column of the lake without a decision by an operator."
    return SchemaChangedError(
        f"Table {table} changed at the source, and its policy '{settings.policy}' does not follow: {'; '.join(map(str, refused))}.",
        why="; ".join(change.meaning(settings.pipeline, table) for change in hard) or undecided,
        data="Nothing was read or written; the watermark stays.",
        next="\n        ".join(remedies),
    )
