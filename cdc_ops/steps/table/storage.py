"""How a table is to be stored, decided at the plan: SCD type, the order of changes, what is altered for them. No Spark here."""

from dataclasses import replace
from typing import Final

from cdc_ops.config.expressions.sequence_by import read_parts
from cdc_ops.core.apply.deletes import Deletes
from cdc_ops.core.apply.metadata_columns import START
from cdc_ops.core.apply.scd import LATEST, POSITION_TYPE, Sequence, SequenceKind, TableStorage
from cdc_ops.core.operation.protocol.commit_record import LakeHead
from cdc_ops.core.operation.run_request import ResyncMode, RunKind, RunRequest
from cdc_ops.core.pipeline.contradictions import contradictions
from cdc_ops.core.pipeline.pipeline import Pipeline, TableConfig
from cdc_ops.core.pipeline.table_settings import CHANGE_FEED, Method
from cdc_ops.core.pipeline.tables.paths import tombstones_path
from cdc_ops.core.schema.reserved_names import reserved_name
from cdc_ops.core.schema.schema_evolution import COPY_ANEW, ChangeKind, SchemaChange
from cdc_ops.core.schema.tables import Column, TableSchema
from cdc_ops.core.schema.type_widening import canonical_type
from cdc_ops.core.text import did_you_mean, without_columns
from cdc_ops.errors import ConfigError, RequestError, SourceTableError
from cdc_ops.steps.table.columns.metadata_columns import check_names, stored_otherwise
from cdc_ops.steps.table.columns.null_updates import nulls_ignored
from cdc_ops.steps.table.columns.unstored_columns import check_hidden_order
from cdc_ops.steps.table.truncates import check_truncates

_NOTHING: Final = "Nothing was read or written; the watermark stays."
_OTHERWISE: Final = "and the pipeline file says otherwise"
_UNORDERED: Final = ", which counts as older than any change: nothing has to be filled"
_SETTINGS: Final = "'stored_as_scd_type', 'sequence_by', 'method'"


def stored_as(
    pipeline: Pipeline, config: TableConfig, schema: TableSchema, keys: tuple[str, ...], hidden: tuple[Column, ...] = ()
) -> TableStorage:
    """Returns how a table is stored.

    Args:
        pipeline, config: The table and its settings.
        schema: The columns that are stored.
        keys: Its keys.
        hidden: Columns that are read besides, and not stored.

    Raises:
        ConfigError: its settings do not go together.
        SourceTableError: the table lacks what they need.
    """
    settings = config.settings
    _check_settings(config)
    if taken := [column.name for column in schema.columns if settings.storage.metadata_columns.is_own(column.name)]:
        raise SourceTableError(
            f"Table {config.table} has a column {taken[0]!r} of its own.",
            why="cdc-ops adds a column of this name to the Delta table.",
            data=_NOTHING,
            next=f"Exclude the column: '{without_columns(taken[:1])}' in the pipeline file; or choose another name in 'metadata_columns'.",
        )
    check_reserved_names(config, schema, None)
    check_hidden_order(config, schema, keys, hidden)
    check_truncates(config, schema, keys)
    sequence, ignores = _sequence(config, schema.extended(hidden)), settings.apply.deletes is Deletes.IGNORE
    if sequence is None:
        return replace(LATEST, ignores_deletes=ignores, own=settings.storage.metadata_columns)
    if settings.history.stored_as_scd_type == 2 and not keys:
        raise SourceTableError(
            f"Table {config.table} has no keys, so the lake cannot keep the versions of its rows.",
            why="Without a key, a version does not belong to a row.",
            data=_NOTHING,
            next="Name the columns that identify a row: 'keys: [id]' in the pipeline file; or set 'stored_as_scd_type: 1'.",
        )
    deletes = settings.apply.apply_as_deletes or settings.apply.apply_as_truncates
    told = sequence.kind is SequenceKind.POSITION or (sequence.kind is SequenceKind.COLUMNS and deletes)
    return TableStorage(
        scd_type=settings.history.stored_as_scd_type,
        sequence=sequence,
        tracked=_tracked(config, schema),
        tombstones=tombstones_path(pipeline, config.table) if told else "",
        tombstone_retention=settings.order.tombstone_retention,
        ignores_deletes=ignores,
        nulls_ignored=nulls_ignored(config, schema, keys, sequence.read_columns),
        own=settings.storage.metadata_columns,
    )


def check_reserved_names(config: TableConfig, schema: TableSchema, head: LakeHead | None) -> None:
    """Refuses columns that a Delta table cannot have; what the table is decides, whatever the pipeline file says of its change feed.

    Raises:
        SourceTableError: there is one.
    """
    stored, chosen = head is not None and head.records_changes, config.settings.records_changes
    reserved = reserved_name(schema.names, change_feed=stored or chosen)
    if reserved is None:
        return
    off = f"ALTER TABLE delta.`{config.path}` SET TBLPROPERTIES ('{CHANGE_FEED}' = 'false')"
    remedies = (
        *(("leave 'change_feed' and 'event_history' out",) if chosen else ()),
        *((f"{'then ' if chosen else ''}switch the feed off: {off}",) if stored else ()),
    )
    raise SourceTableError(
        f"Table {config.table} has a column {reserved.column!r}, which its Delta table cannot have.",
        why=reserved.why,
        data=_NOTHING,
        next=f"Exclude the column: '{without_columns([reserved.column])}' in the pipeline file; or rename it at the source"
        + (f", or {', '.join(remedies)}." if remedies else "."),
    )


def check_request(stored: TableStorage, config: TableConfig, head: LakeHead | None, request: RunRequest) -> None:
    """Checks that a run can do what it is asked for with a table that is stored in this way.

    Raises:
        RequestError: history would be lost, or what is read has no place in the order of changes.
        SchemaChangedError: the table is stored in another way.
    """
    if stored.keeps_versions and stored.sequence is not None:
        _check_versions(stored.sequence, config, request)
    have = {name.lower(): canonical_type(kind) for name, kind in head.columns} if head else {}
    if START.lower() in have and not stored.keeps_versions and not request.replaces_table:
        how = f"keeps the versions of its rows (SCD type 2), {_OTHERWISE}"
        raise stored_otherwise(config, how, "Old versions would count as separate rows.", _SETTINGS)
    check_names(stored, config, head, request)
    for name, kind in stored.order_columns:
        found = have.get(name.lower(), "")
        if found and found != canonical_type(kind) and not request.replaces_table:
            why = f"Column {name} is {found} in the lake and must be {kind}; otherwise changes cannot be compared."
            raise stored_otherwise(config, f"orders changes by something else, {_OTHERWISE}", why, _SETTINGS)


def metadata_column_changes(
    stored: TableStorage, deleted_column: str, head: LakeHead | None, *, declared: bool = False
) -> tuple[SchemaChange, ...]:
    """Returns what is altered in a table that lacks columns of ours, but for `deleted_column` itself; `declared`: there is no source."""
    have = {name.lower() for name, _ in head.columns} if head else set()
    missing = [(name, kind) for name, kind in stored.columns(deleted_column) if head is not None and name.lower() not in have]
    ordering = {name for name, _ in stored.order_columns}

    rewrites = "" if stored.keeps_versions or declared else "; 'cdc-ops resync --mode full' writes all of them"
    again = f" until they are written again{rewrites}"

    def change(name: str, kind: str) -> SchemaChange:
        said, nulls = (f"stored_as_scd_type: {stored.scd_type}", _UNORDERED) if name in ordering else ("metadata_columns", again)
        return SchemaChange(kind=ChangeKind.ADDED, column=name, after=kind, declared=said, nulls=nulls)

    return tuple(change(name, kind) for name, kind in missing)


def can_fill_columns(stored: TableStorage, keys: tuple[str, ...]) -> bool:
    """True if single columns of a table can be read again: its rows are found by their keys, and there is one of each."""
    return bool(keys) and not stored.keeps_versions


def _sequence(config: TableConfig, schema: TableSchema) -> Sequence | None:
    settings = config.settings
    if settings.method is Method.LOG:
        return Sequence(kind=SequenceKind.POSITION, type=POSITION_TYPE)
    if not settings.order.sequence_by:
        return Sequence(kind=SequenceKind.OBSERVED, type="timestamp") if settings.history.stored_as_scd_type == 2 else None
    return Sequence.of(read_parts(settings.order.sequence_by, schema))


def _tracked(config: TableConfig, schema: TableSchema) -> tuple[str, ...]:
    settings = config.settings
    for name in (*settings.history.track_history_column_list, *settings.history.track_history_except_column_list):
        if schema.column(name) is None:
            raise SourceTableError(
                f"'track_history_column_list' or 'track_history_except_column_list' of {config.table} names column {name!r}, which"
                " cdc-ops does not copy.",
                why=did_you_mean(name, schema.names),
                data=_NOTHING,
                next="Correct 'track_history_column_list' or 'track_history_except_column_list' in the pipeline file.",
            )
    left_out = {name.lower() for name in settings.history.track_history_except_column_list}
    if left_out:
        return tuple(name for name in schema.names if name.lower() not in left_out)
    return settings.history.track_history_column_list


def _check_settings(config: TableConfig) -> None:
    """Refuses settings that contradict each other, of a pipeline that was not made from a file: `config.checks.tables` checks files."""
    found = tuple(contradictions(config.settings))
    if found:
        raise ConfigError(
            f"The settings of {config.table} contradict each other.",
            why=" ".join(item.text for item in found),
            data=_NOTHING,
            next=f"Change the pipeline file: {' '.join(dict.fromkeys(item.remedy for item in found))}",
        )


def _check_versions(sequence: Sequence, config: TableConfig, request: RunRequest) -> None:
    remedy = f"To begin a new history, {COPY_ANEW}"
    if request.mode in (ResyncMode.REPLAY, ResyncMode.QUARANTINE):
        return
    if request.mode is ResyncMode.FULL:
        why = "A full resync replaces the table, and the versions of its rows with it."
        remedy = "cdc-ops reconcile adds the rows that differ as new versions. " + remedy + "."
    elif request.columns:
        why = "Old versions have other values in these columns, which the source no longer has."
    elif sequence.kind is SequenceKind.POSITION and request.kind is not RunKind.INCREMENT:
        why = "Rows that are read at the source have no position among the events of the archive."
    elif sequence.kind is SequenceKind.COLUMNS and (request.kind is RunKind.RECONCILE or request.mode is ResyncMode.KEYS):
        why = "A deleted row has no value of 'sequence_by', so its delete has no place in the order."
    else:
        return
    raise RequestError(
        f"Table {config.table} keeps the versions of its rows, so cdc-ops refuses this run.",
        why=why,
        data=_NOTHING,
        next=f"{remedy.rstrip('.')}.",
    )
