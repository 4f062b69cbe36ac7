"""The source's schema against the lake's, at the plan and around each read. No Spark here.

What a policy lets through goes into a plan's facts; a frozen operation that is not landed is brought to the columns that the source has
now; a read whose columns are no longer those that were planned is refused.
"""

from dataclasses import replace

from cdc_ops.config.expressions.sequence_by import order_names
from cdc_ops.config.expressions.spark_conditions import named_columns
from cdc_ops.core.apply.deletes import source_columns
from cdc_ops.core.operation.commit_record import LakeHead
from cdc_ops.core.operation.operation import Operation
from cdc_ops.core.operation.reads import ArchiveRead
from cdc_ops.core.operation.run_request import ResyncMode, RunRequest
from cdc_ops.core.schema.collated_keys import alike, compare_rules
from cdc_ops.core.schema.schema_evolution import (
    COPY_ANEW,
    Decision,
    Recorded,
    SchemaSettings,
    compare_columns,
    compare_keys,
    decide,
    drift,
    keeps_position,
    only_columns,
    reads_alike,
)
from cdc_ops.core.schema.schema_evolution import SchemaPolicy as Policy
from cdc_ops.core.schema.tables import TableSchema
from cdc_ops.core.text import did_you_mean
from cdc_ops.errors import RequestError, SchemaChangedError, SourceTableError
from cdc_ops.sources.base import Source
from cdc_ops.steps.table.collated_keys import with_collated_keys
from cdc_ops.steps.table.soft_deletes import check_deletes, deleted_column_changes, replacing_schema
from cdc_ops.steps.table.source_table import SourceTable
from cdc_ops.steps.table.storage import can_fill_columns, check_request, metadata_column_changes


def apply_schema_policy(facts: SourceTable, head: LakeHead | None, request: RunRequest) -> SourceTable:
    """Compares the source's columns with the lake's and applies the table's policy.

    A full resync takes the source's columns as they are: it makes a new generation, whatever the policy says of following.

    Args:
        facts: What the source says.
        head: What the lake says; None if there is no table yet.
        request: The run.

    Raises:
        SchemaChangedError: the policy does not follow.
        RequestError: the run names columns that the table does not have.
    """
    facts = with_collated_keys(facts, head, request)
    _check_cursor(facts, head)
    check_deletes(facts, head, request)
    check_request(facts.stored_as, facts.config, head, request)
    if request.mode is ResyncMode.FULL:
        return replace(facts, fingerprint=facts.schema.fingerprint, schema=replacing_schema(facts, head))
    decision = _decision(facts, head)
    _check_columns(facts, decision.schema, request.columns)
    marker = facts.config.settings.deleted_column
    declared = facts.pipeline.source.is_declared
    marks = (*deleted_column_changes(marker, head), *metadata_column_changes(facts.stored_as, marker, head, declared=declared))
    notes = (*decision.notes, *(change.meaning(facts.config.pipeline, facts.config.table, declared=declared) for change in marks))
    return replace(
        facts,
        schema=decision.schema,
        changes=(*decision.alter, *marks),
        fingerprint=facts.schema.fingerprint,
        warnings=facts.warnings + notes,
        notes=notes,
        stored=tuple(name for name, _ in head.columns if facts.schema.column(name) is None) if head else (),
    )


def rebase_on_current_columns(spec: Operation, facts: SourceTable, head: LakeHead | None, request: RunRequest) -> Operation:
    """Brings a frozen operation to the columns that the source has now, if it could not be read any more as it was frozen.

    So is one that reads an archive and lacks columns that were added: files that have changed meanwhile are frozen again, and their events
    may speak of these.

    Number, identity, window and slices stay: it is the same operation, whose rows are read with other columns.

    Args:
        spec: The frozen operation, not landed.
        facts: What the source says now, before any policy.
        head: What the lake says.
        request: The run; before a full resync an operation goes without the columns that the policy does not follow.

    Returns:
        The operation itself, if it can be read as it is.

    Raises:
        SchemaChangedError: the policy does not follow, or the operation's window is on columns that are gone.
    """
    facts = replace(facts, schema=alike(facts.schema, spec.source.schema), keys=spec.apply.keys)
    readable = not drift(spec.source.schema, facts.schema)
    if readable and (
        not isinstance(spec.read, ArchiveRead) or all(spec.source.schema.column(column.name) for column in facts.schema.columns)
    ):
        return spec
    needed = (*spec.apply.keys, *spec.source_keys, *spec.source.cursor.column_names)
    if missing := [name for name in needed if facts.schema.column(name) is None]:
        raise _unreadable(spec, missing)
    if spec.apply.replaces_schema:
        return replace(spec, source=replace(spec.source, schema=replacing_schema(facts, head), fingerprint=facts.schema.fingerprint))
    try:
        decision = _decision(facts, head)
    except SchemaChangedError:
        if readable:
            return spec
        if request.mode is not ResyncMode.FULL:
            raise
        return _without_changed(spec, facts.schema, needed)
    own = metadata_column_changes(spec.apply.stored_as, spec.apply.deleted_column, head, declared=facts.pipeline.source.is_declared)
    marks = (*deleted_column_changes(spec.apply.deleted_column, head), *own)
    decision = replace(decision, alter=(*decision.alter, *marks))
    return _with_columns(spec, decision, needed, facts.config.settings.order.previous_key)


def _with_columns(spec: Operation, decision: Decision, needed: tuple[str, ...], previous_key: tuple[str, ...]) -> Operation:
    fingerprint = decision.source.fingerprint
    if not spec.apply.update_only:
        before = spec.apply.previous_keys if all(decision.schema.column(name) for name in previous_key) else ()
        return replace(
            spec,
            source=replace(spec.source, schema=decision.schema, fingerprint=fingerprint),
            apply=replace(spec.apply, schema_changes=decision.alter, previous_keys=before),
        )
    left = tuple(name for name in spec.apply.update_only if decision.schema.column(name) is not None or name == spec.apply.deleted_column)
    if not left:
        raise _unreadable(spec, spec.apply.update_only)
    return replace(
        spec,
        source=replace(spec.source, schema=only_columns(decision.schema, (*needed, *left)), fingerprint=fingerprint),
        apply=replace(spec.apply, schema_changes=decision.alter, update_only=left),
    )


def _without_changed(spec: Operation, now: TableSchema, needed: tuple[str, ...]) -> Operation:
    kept = [column.name for column in spec.source.schema.columns if (found := now.column(column.name)) and reads_alike(column, found)]
    if lost := [name for name in needed if name.lower() not in {column.lower() for column in kept}]:
        raise _unreadable(spec, lost)
    return replace(spec, source=replace(spec.source, schema=only_columns(spec.source.schema, kept)))


def check_columns_unchanged(source: Source, spec: Operation) -> None:
    """Refuses to read an operation whose columns have changed at the source since they were frozen.

    Called right before the rows are read, and again before they are declared landed: values that were read by a stale plan would be cast to
    types that they do not fit.

    Raises:
        SchemaChangedError: a column is gone, or is declared or read differently.
    """
    try:
        read = spec.full_schema
        names = [column.name for column in read.columns if not column.normalises]
        now = alike(source.schema(spec.table, columns=names, types=spec.source.schema.types), read)
    except SourceTableError as error:
        raise _changed(spec, error.what) from error
    if found := drift(read, now):
        raise _changed(spec, "; ".join(found) + ".")


def _decision(facts: SourceTable, head: LakeHead | None) -> Decision:
    settings = facts.config.settings
    if head is None:
        return Decision(schema=facts.schema, source=facts.schema)
    asked = SchemaSettings(
        pipeline=facts.config.pipeline,
        policy=settings.values.schema_changes,
        renamed=settings.values.renamed,
        declared=facts.pipeline.source.is_declared,
        fills=can_fill_columns(facts.stored_as, facts.keys) and not facts.reads_changes,
    )
    renamed = asked.renamed if asked.policy is not Policy.FREEZE else ()  # to rename a column is not to go on with the old ones
    changes = compare_columns(
        source_columns(head.columns, settings.deleted_column, (settings.upkeep.metadata_columns, head.own)), facts.schema, renamed
    )
    record = head.record
    recorded = Recorded(keys=record.columns.keys, fingerprint=record.columns.schema_fingerprint) if record else Recorded()
    changes += compare_keys(recorded.keys, facts.keys, changes)
    changes += compare_rules(record.columns.key_rules if record else (), facts.schema)
    conditions = named_columns((settings.apply.apply_as_deletes, settings.apply.apply_as_truncates), facts.schema.names)
    needed = (
        *facts.keys,
        *facts.cursor.column_names,
        *settings.order.previous_key,
        *order_names(settings.order.sequence_by, facts.schema.names),
        *conditions,
    )
    return decide(asked, facts.schema, changes, recorded, needed)


def _check_columns(facts: SourceTable, schema: TableSchema, columns: tuple[str, ...]) -> None:
    keys = {key.lower() for key in facts.keys}
    for name in columns:
        if name and name == facts.config.settings.deleted_column:
            continue
        if schema.column(name) is None or name.lower() in keys:
            others = [column.name for column in schema.columns if column.name.lower() not in keys]
            raise RequestError(
                f"Table {facts.config.table} has no column {name!r} that a backfill can fill.",
                why="It is a key column." if name.lower() in keys else did_you_mean(name, others),
                data="Nothing was read or written; the watermark stays.",
                next="Name columns that the pipeline copies and that are not keys.",
            )


def _check_cursor(facts: SourceTable, head: LakeHead | None) -> None:
    """A watermark is a value of the cursor's column and type: of another one it would be another position, and rows could be lost."""
    _check_lead(facts, head)
    stored = {name.lower(): kind for name, kind in head.columns} if head else {}
    for name in facts.cursor.column_names:
        column = facts.schema.column(name)
        before = stored.get(name.lower())
        if column is None or before is None:
            continue
        if not keeps_position(before, column.delta_type):
            raise SchemaChangedError(
                f"The cursor column {name} of {facts.config.table} is now {column.source_type}, and is stored as {before}.",
                why="The watermark is a value of the old type. As a value of the new type it could skip rows.",
                data="Nothing was read or written; the watermark stays.",
                next=f"Change the type back, or {COPY_ANEW}: it starts with a snapshot.",
            )


def _check_lead(facts: SourceTable, head: LakeHead | None) -> None:
    before = head.record.columns.cursor if head and head.record else None
    if before is None or not facts.cursor.columns:
        return
    lead, renamed = facts.cursor.lead.name.lower(), {old.lower(): new.lower() for old, new in facts.config.settings.values.renamed}
    if before and lead in (before[0].lower(), renamed.get(before[0].lower())):
        return
    was = f"it was {before[0]}" if before else "there was none: every run compared the whole table"
    raise SchemaChangedError(
        f"The cursor of {facts.config.table} is now {facts.cursor.lead.name}; at the last commit {was}.",
        why="The watermark is a value of the old cursor; rows below it in the order of the new cursor would never be read.",
        data="Nothing was read or written; the watermark stays.",
        next=f"Restore the old 'cursor', or {COPY_ANEW}: it starts with a snapshot.",
    )


def _changed(spec: Operation, why: str) -> SchemaChangedError:
    return SchemaChangedError(
        f"Table {spec.table} was altered at the source after operation {spec.op_seq} ({spec.kind}) was planned.",
        why=why,
        data="Nothing was landed or written; the operation stays frozen with its window, and the watermark stays.",
        next=f"cdc-ops run --pipeline {spec.pipeline} --table {spec.table}   (reads the same window with the current columns; so does the"
        " next scheduled run)",
    )


def _unreadable(spec: Operation, missing: list[str] | tuple[str, ...]) -> SchemaChangedError:
    return SchemaChangedError(
        f"Operation {spec.op_seq} ({spec.kind}) of {spec.table} is frozen and can no longer be read: {', '.join(missing)} is gone,"
        " or is another column at the source.",
        why="Its window and its slices are conditions on the columns that the table had at the plan.",
        data="Nothing was read or written; the watermark stays.",
        next="Restore the old column names until the operation is committed, and then change them again.",
    )
