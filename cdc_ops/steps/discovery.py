"""discover: which tables a run is about, those included that the source does not show. No Spark here."""

from dataclasses import dataclass

from cdc_ops.core.operation.run_request import RunRequest
from cdc_ops.core.pipeline.pipeline import Pipeline, TableConfig
from cdc_ops.core.pipeline.tables.table_matching import match_tables, unmatched_warning
from cdc_ops.core.pipeline.tables.table_selection import select_tables
from cdc_ops.sources.base import Source
from cdc_ops.steps.context import Context
from cdc_ops.steps.table.missing_tables import check_some_are_visible, copied_tables


@dataclass(frozen=True, slots=True, kw_only=True)
class Discovered:
    """The tables of a run, those included that the source does not show, and what is to be said of the pipeline's entries."""

    tables: tuple[TableConfig, ...]
    warnings: tuple[str, ...] = ()


def discover_all(context: Context, source: Source, request: RunRequest) -> Discovered:
    """Matches the pipeline's entries with the source's tables and those in the lake, and picks those that the run names.

    Raises:
        ConfigError: no entry means any table.
        RequestError: the run names a table that is not the pipeline's.
        SourceError: the source cannot be asked, or shows none of the tables that were copied.
    """
    found = match_tables(context.pipeline, context.tables(source), copied_tables(context))
    check_some_are_visible(context.pipeline, found)
    configs = tuple(sorted(found.present + found.absent, key=lambda config: str(config.table)))
    warnings = () if request.tables else tuple(unmatched_warning(context.pipeline, rule) for rule in found.unmatched)
    return Discovered(tables=select_tables(configs, request.checked().tables), warnings=warnings)


def discover(pipeline: Pipeline, source: Source, request: RunRequest) -> tuple[TableConfig, ...]:
    """Matches the pipeline's entries with the source's tables and picks those that the run names.

    Raises:
        ConfigError: no entry means any table at the source.
        RequestError: the run names a table that is not the pipeline's.
        SourceError: the source cannot be asked.
    """
    found = match_tables(pipeline, source.tables())
    configs = sorted(found.present + found.absent, key=lambda config: str(config.table))
    return select_tables(tuple(configs), request.checked().tables)
