"""Tables that the lake has and the source no longer shows: dropped, renamed, or hidden from the user. Nothing of them is deleted."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from cdc_ops.core.operation.protocol.table_state import TableState
from cdc_ops.core.operation.run_request import RunRequest
from cdc_ops.core.pipeline.pipeline import Pipeline, TableConfig
from cdc_ops.core.pipeline.table_settings import Method
from cdc_ops.core.pipeline.tables.dropped_tables import DroppedTables
from cdc_ops.core.pipeline.tables.table_matching import MatchedTables, match_tables
from cdc_ops.core.schema.tables import TableName
from cdc_ops.core.text import did_you_mean, minute_text
from cdc_ops.errors import CdcError, SourceTableError
from cdc_ops.sources.base import Source
from cdc_ops.state.base import StateReader
from cdc_ops.steps.context import Context

IF_ON_PURPOSE: Final = "If the table is gone on purpose, remove or exclude it in the pipeline file, or set 'dropped_tables: ignore'."
"""What to do about a missing table; the end of `Absence.idle`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Absence:
    """What a run says of a table that its source does not show.

    Args:
        since: When a run first found it so.
        idle: Why nothing is planned for it; whoever shows it names the table.
        alert: What somebody has to look at now, "" if it was told before.
        error: Why the table fails, None if it does not.
    """

    since: datetime
    idle: str
    alert: str = ""
    error: CdcError | None = None


def copied_tables(context: Context) -> tuple[TableName, ...]:
    """Returns the tables of which the lake has rows by this pipeline, as far as the ledger knows."""
    return tuple(_copied(context.store, context.pipeline))


def missing_tables(pipeline: Pipeline, ledger: StateReader, there: Iterable[TableName]) -> tuple[tuple[TableConfig, Absence], ...]:
    """Returns the pipeline's tables that were copied and that the source does not show, with what a run of all tables says of each.

    Args:
        pipeline: Whose tables.
        ledger: What was copied.
        there: What the source shows.

    Raises:
        ConfigError: no entry means any table.
        SourceTableError: none of several tables is visible, and their policy is not to ignore that.
    """
    states = _copied(ledger, pipeline)
    found = match_tables(pipeline, there, states)
    check_some_are_visible(pipeline, found)
    absent = tuple(config for config in found.absent if config.table in states)
    return tuple((config, _absence(pipeline, config, states[config.table], ledger, named=False)) for config in absent)


def _copied(ledger: StateReader, pipeline: Pipeline) -> dict[TableName, TableState]:
    return {row.state.table: row.state for row in ledger.overview(pipeline.name) if row.state.committed_op_seq}


def check_some_are_visible(pipeline: Pipeline, matched: MatchedTables) -> None:
    """Stops a run that would take a source that shows nothing for one whose tables were all dropped.

    Raises:
        SourceTableError: none of several tables is visible, and their policy is not to ignore that.
    """
    if (
        matched.present
        or len(matched.absent) < 2
        or all(config.settings.apply.dropped_tables is DroppedTables.IGNORE for config in matched.absent)
    ):
        return
    raise SourceTableError(
        f"Pipeline {pipeline.name!r}: the source shows none of its {len(matched.absent)} tables, {matched.absent[0].table} among them.",
        why="The user lost the privileges on them, the connection points to another server or database, or all of them were dropped.",
        data="Nothing was read or written; the lake keeps its rows.",
        next="Check the connection and the user's grants. If the tables were dropped on purpose, set 'dropped_tables: ignore', or remove"
        " their entries.",
    )


def find_absence(context: Context, source: Source, request: RunRequest, config: TableConfig, state: TableState) -> Absence | None:
    """Returns what is to be said of a table that the source does not show, None if it shows it.

    Raises:
        SourceTableError: the table was never copied: its name is wrong, or the user may not read it.
    """
    if context.shows(source, config.table) or config.table in (listed := source.tables()):
        return None
    if not state.committed_op_seq:
        raise _never_seen(context, source, config, listed)
    return _absence(context.pipeline, config, state, context.store, named=str(config.table) in request.tables)


def _absence(pipeline: Pipeline, config: TableConfig, state: TableState, ledger: StateReader, *, named: bool) -> Absence:
    told = state.missing_since is not None
    since = state.missing_since or ledger.now()
    text = _text_of_missing(pipeline, config, state, since)
    policy = config.settings.apply.dropped_tables
    error = _failure(config, text) if policy is DroppedTables.FAIL or named else None
    alert = text if policy is DroppedTables.ALERT and not told and error is None else ""
    return Absence(since=since, idle=text, alert=alert, error=error)


def returned_warnings(state: TableState) -> tuple[str, ...]:
    """Says, once, that a table is back which was missing."""
    if state.missing_since is None:
        return ()
    return (
        f"at the source again; it was missing since {minute_text(state.missing_since)}. Its increments continue from its watermark. If it"
        " was created again with other rows, rows below the watermark are not read: 'cdc-ops reconcile --rows' or a resync with --mode full"
        " reads them.",
    )


def _text_of_missing(pipeline: Pipeline, config: TableConfig, state: TableState, since: datetime) -> str:
    if pipeline.source.is_declared:
        gone = "no longer declared in 'tables' of the source"
    else:
        gone = "no longer at the source: it was dropped or renamed, or the user lost the SELECT privilege"
    archive = (
        " Its remaining events in the archive are not read, because its columns are unknown."
        if config.settings.method is Method.LOG
        else ""
    )
    fresh = f" as of {minute_text(state.progress.fresh_at)}" if state.progress.fresh_at else ""
    return f"{gone}; first noticed {minute_text(since)}. The lake keeps its rows{fresh}; nothing is deleted.{archive} {IF_ON_PURPOSE}"


def _failure(config: TableConfig, text: str) -> SourceTableError:
    what, _, rest = text.partition("; ")
    return SourceTableError(
        f"{config.table} is {what}.",
        why="The run names the table, or the table has 'dropped_tables: fail'.",
        data=f"Nothing was read; the watermark stays. It was {rest.removesuffix(f' {IF_ON_PURPOSE}')}",
        next="Restore the table, or grant the user SELECT on it; or remove or exclude it in the pipeline file.",
    )


def _never_seen(context: Context, source: Source, config: TableConfig, listed: Iterable[TableName]) -> CdcError:
    try:
        source.schema(config.table)
    except SourceTableError as error:
        return error
    return SourceTableError(
        f"Table {config.table} is not at source connection {context.pipeline.source.connection!r} under this name.",
        why=did_you_mean(str(config.table), map(str, listed)),
        data="Nothing was read; the watermark stays. Other tables of the pipeline continue.",
        next="Write the name as the source writes it, in the same case.",
    )
