"""Drafts of comparisons: for `reconcile` of any table, and for each increment of a table without a cursor. Writes nothing.

    cursor  keys  live run                                     reconcile
    yes     yes   increments by the cursor                     keys by checksums: finds deletes, changed keys, lost rows
    no      yes   rows by checksums, what differs is merged    the same
    no      no    the same; if anything differs, the whole     the same
                  table is replaced in one commit

A column without a text form that source and lake share (FLOAT, DOUBLE, GEOMETRY) makes checksums impossible: then all rows are read and
compared in the lake.
"""

from dataclasses import dataclass, replace

from cdc_ops.core.apply.apply_spec import ApplyMode
from cdc_ops.core.cursor.cursors import CursorValue, format_datetime
from cdc_ops.core.cursor.windows import SafeBound
from cdc_ops.core.operation.operation import OperationKind
from cdc_ops.core.operation.protocol.table_state import Phase
from cdc_ops.core.operation.reads import CompareRead
from cdc_ops.core.pipeline.table_settings import Method
from cdc_ops.core.reconcile.diff import AbandonedOperation, CompareLevel, CompareSpec, DeleteGuard
from cdc_ops.core.reconcile.key_buckets import Buckets, cut
from cdc_ops.core.schema.server_types.unsigned_bigints import widened_schema
from cdc_ops.core.schema.table_identity import has_moved
from cdc_ops.core.schema.tables import Column, TableSchema
from cdc_ops.errors import RequestError, SourceTableError
from cdc_ops.sources.base import Source
from cdc_ops.steps.planning.request import Draft, TableRequest, new_operation
from cdc_ops.steps.table.source_table import SourceTable


def draft_comparison(request: TableRequest, *, heals: bool = False) -> Draft:
    """Drafts the operation that compares a whole table with its source and copies the rows that differ.

    Args:
        request: The table.
        heals: The comparison replaces events that an archive lacks.

    Raises:
        RequestError: the table has no snapshot yet.
        SourceTableError: a table with a cursor has no keys.
    """
    source_table, settings = request.source_table, request.source_table.config.settings
    check_comparable(source_table)
    if request.state.phase is not Phase.READY:
        raise RequestError(
            f"Table {request.table} cannot be compared: its first snapshot is not complete.",
            why=f"It is in phase '{request.state.phase}'.",
            data="Nothing was read or written.",
            next=f"cdc-ops run --pipeline {request.source_table.config.pipeline} --table {request.table}   # completes the snapshot, which"
            " reads all rows anyway",
        )
    # Keys that are the same say nothing of commits that another server has lost.
    needed = CompareLevel.ROWS if has_moved(request.state.identity, source_table.identity) else None
    strength, why = compare_level(request.source, source_table, request.run.compare.strength or needed)
    now = request.source.now()
    slices = request.slices("")
    guard = DeleteGuard(
        max_ratio=settings.apply.max_delete_ratio,
        max_rows=settings.apply.max_delete_rows,
        accepted=request.run.accepts.deletes,
        accepted_ratio=request.run.accepts.delete_ratio,
        approved=request.run.accepts.approved_deletes,
        approved_of=request.run.accepts.approved_rows,
    )
    buckets = None if strength is CompareLevel.WHOLE else _cut(request.source, source_table)
    compare = CompareSpec(
        strength=strength,
        buckets=buckets,
        readers=request.readers,
        guard=guard,
        why=why,
        heals=heals,
        scope=request.run.compare.scope,
        seals=abandoned_before(request),
    )
    read = CompareRead(compare=compare, slices=slices, expected_rows=source_table.schema.approximate_rows)
    operation = new_operation(request, OperationKind.RECONCILE, now, read)
    # Everything that was committed before now is in what the comparison reads, unless it reads a part only.
    everything = not source_table.cursor.columns and settings.method is Method.QUERY and request.run.compare.scope is None
    operation = replace(
        operation,
        apply=replace(operation.apply, mode=ApplyMode.MERGE if source_table.keys else ApplyMode.OVERWRITE),
        after=replace(operation.after, fresh_at=now if everything else None),
    )
    return Draft(operations=(operation,))


def abandoned_before(request: TableRequest) -> AbandonedOperation | None:
    """Returns the last abandoned operation of a table, None if there is none: a comparison makes sure that it can never commit."""
    return request.ledger.last_abandoned(request.source_table.config.pipeline, request.source_table.config.table)


def compare_level(source: Source, source_table: SourceTable, wanted: CompareLevel | None = None) -> tuple[CompareLevel, str]:
    """Returns how strongly a table is compared, and the reason as text.

    Args:
        source: Says which columns have no checksum.
        source_table: The table.
        wanted: The level that the request names; None for the level that the table needs.

    Raises:
        SourceTableError: the table has a cursor but no keys.
    """
    has_cursor = bool(source_table.cursor.columns)
    if has_cursor and not source_table.keys:
        raise SourceTableError(
            f"Table {source_table.config.table} cannot be compared: it has a cursor but no keys.",
            data="Nothing was read; the watermark stays.",
            next="Set 'keys', or remove 'cursor': every run then compares the whole table.",
        )
    strength = wanted or (CompareLevel.KEYS if has_cursor else CompareLevel.ROWS)
    if strength is CompareLevel.KEYS and not has_cursor:
        strength = CompareLevel.ROWS
    columns = (*source_table.keys, *source_table.source_keys) if strength is CompareLevel.KEYS else source_table.schema.names
    missing = source.undigestible(source_table.schema, columns)
    marked = (
        "the source's checksums would count rows that 'apply_as_deletes' leaves out"
        if source_table.config.settings.apply.apply_as_deletes
        else ""
    )
    if strength is CompareLevel.WHOLE or missing or marked:
        reason = f"no checksum covers {', '.join(missing)}" if missing else marked or "asked for"
        return CompareLevel.WHOLE, f"everything is read and compared in the lake ({reason})"
    if strength is CompareLevel.KEYS:
        return strength, "checksums of keys, by buckets: finds deletes, changed keys and lost rows"
    whole = "" if source_table.keys else "; no keys: the whole table is replaced if anything differs"
    return strength, f"checksums of rows, by buckets{whole}"


def method_summary(source: Source, source_table: SourceTable) -> str:
    """Returns how a table is kept equal, and why in this way: the column 'method' of `cdc-ops plan`."""
    if source_table.pipeline.source.is_declared:
        return "change events of the archive, by their positions; columns as the pipeline file declares them"
    if source_table.config.settings.method is Method.LOG:
        return "change events of the archive, by their positions; reconcile compares it with the source"
    if source_table.cursor.columns:
        names = ", ".join(column.name for column in source_table.cursor.columns)
        found = "lost rows" if source_table.stored_as.ignores_deletes else "deletes and changed keys"
        return f"increments by {names}; {found} by reconcile: {compare_level(source, source_table)[1].partition(':')[0]}"
    return f"no cursor, so every run compares: {compare_level(source, source_table)[1]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyPlan:
    """What `cdc-ops verify` compares for one table.

    Args:
        schema, keys, path: The table, and where it is in the lake.
        slices: SQL conditions that split its rows, one per connection.
        buckets: Ranges of keys for checksums, None if checksums are impossible.
        readers: Connections that read what differs.
        delete_where: The table's `apply_as_deletes`: the source is compared without such rows.
        deleted_column: Column that marks deleted rows in the lake, which is compared without them; "" if it has none.
        keeps_versions: The lake has older versions of rows too, and is compared without them.
        ignores_deletes: Rows that only the lake has do not count as a difference.
        hidden: Columns that `delete_where` needs and the lake does not store.
    """

    schema: TableSchema
    keys: tuple[str, ...]
    path: str
    slices: tuple[str, ...]
    buckets: Buckets | None
    readers: int
    delete_where: str = ""
    deleted_column: str = ""
    keeps_versions: bool = False
    ignores_deletes: bool = False
    hidden: tuple[Column, ...] = ()


def check_comparable(source_table: SourceTable) -> None:
    """Checks that the rows of a table at the source can be compared with the rows of the lake.

    Raises:
        RequestError: the rows at the source are changes, of which several may have one key.
    """
    if source_table.reads_changes:
        raise RequestError(
            f"Table {source_table.config.table} cannot be compared with its source: the rows there are changes, and several may"
            " have one key.",
            why="Its 'keys' are not its primary key, and 'sequence_by' orders its changes.",
            data="Nothing was read or written; the watermark stays.",
            next="Nothing to do: cdc-ops reads every change by its cursor, and applies deletes by 'apply_as_deletes'.",
        )


def plan_verification(source: Source, source_table: SourceTable, readers: int) -> VerifyPlan:
    """Plans the verification of a table.

    Raises:
        RequestError: its rows at the source are changes.
    """
    check_comparable(source_table)
    schema = widened_schema(source_table.schema)  # nothing is stored: it holds whatever either side has
    delete_where = source_table.config.settings.apply.apply_as_deletes
    exact = not delete_where and not source.undigestible(schema, tuple(column.name for column in schema.columns))
    return VerifyPlan(
        schema=schema,
        keys=source_table.keys,
        path=source_table.config.path,
        slices=source.slices(schema, source_table.keys, "", readers),
        buckets=_cut(source, source_table) if exact else None,
        readers=readers,
        delete_where=delete_where,
        deleted_column=source_table.config.settings.deleted_column,
        keeps_versions=source_table.stored_as.keeps_versions,
        ignores_deletes=source_table.stored_as.ignores_deletes,
        hidden=source_table.hidden,
    )


def observed_bound(source: Source) -> SafeBound:
    """Returns the watermark of a table without a cursor: the instant (UTC) at which its snapshot began.

    It never moves, because nothing is read by it. Each comparison records itself how fresh such a table is.
    """
    now = source.now()
    value = CursorValue(parts=(format_datetime(now.replace(tzinfo=None)),))
    return SafeBound(value=value, clock=value, method="observed", observed_at=now)


def _cut(source: Source, source_table: SourceTable) -> Buckets:
    schema, keys = source_table.schema, source_table.keys
    if not keys:
        return cut(tuple(column.name for column in schema.columns), schema.approximate_rows, None)
    lead = schema.column(keys[0])
    extent = source.extent(schema, keys[0]) if lead is not None and not lead.nullable else None
    return cut(keys, schema.approximate_rows, extent)
