"""register: the verb that tells Spark's catalog of tables that are in the lake; `cdc-ops register` calls it. In Spark."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from pyspark.sql import SparkSession

from cdc_ops.core.operation.catalog_entry import CatalogEntry, CatalogResult, catalog_entry
from cdc_ops.core.operation.run_request import RunRequest
from cdc_ops.core.pipeline.pipeline import TableConfig, current_settings, table_path
from cdc_ops.core.pipeline.tables.table_selection import select_tables
from cdc_ops.errors import CdcError, ConfigError
from cdc_ops.lake.table.catalog import register
from cdc_ops.steps.context import Context
from cdc_ops.steps.reporting.findings import note_catalog
from cdc_ops.steps.table.catalog import remember_registration


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """How the registration of a table ended: its name in the catalog, whether that was new, and why it failed if it did."""

    config: TableConfig
    name: str
    is_new: bool = False
    error: CdcError | None = None


def register_tables(context: Context, request: RunRequest, spark: Callable[[], SparkSession]) -> Iterator[Registration]:
    """Registers the tables of a pipeline that have been written and have a name in the catalog; asks no source.

    Args:
        context: Ledger and pipeline.
        request: Which tables, and who asks.
        spark: Opens the session; called only if there is a table.

    Raises:
        ConfigError: the pipeline file gives no table a name.
        RequestError: the request names a table that the ledger does not know.
    """
    configs = select_tables(_written_tables(context), request.tables)
    found = [(config, entry) for config in configs if (entry := _entry(context, config))]
    if not found:
        raise ConfigError(
            f"No table of pipeline {context.pipeline.name!r} that has been written has a name in Spark's catalog.",
            why="Neither 'catalog' in 'target' nor 'catalog_name' of a table names one, or no table has been loaded yet.",
            data="Nothing was changed.",
            next="Write 'catalog: \"{schema}.{table}\"' in 'target' of the pipeline file; 'cdc-ops status' shows the tables.",
        )
    for config, entry in found:
        try:
            result = _register(context, request, config, entry, spark())
        except CdcError as error:
            note_catalog(context.store, config.pipeline, config.table, CatalogResult(error=error.to_payload()))
            yield Registration(config=config, name=".".join(entry.name), error=error)
        else:
            yield Registration(config=config, name=".".join(entry.name), is_new=result.registered != entry.registered)


def _written_tables(context: Context) -> tuple[TableConfig, ...]:
    pipeline = context.pipeline
    states = (one.state for one in context.store.overview(pipeline.name) if one.state.committed_op_seq)
    named = ((state.table, current_settings(pipeline, state.table)) for state in states)
    return tuple(
        TableConfig(pipeline=pipeline.name, table=table, settings=settings, path=table_path(pipeline, table, settings))
        for table, settings in named
        if settings is not None
    )


def _entry(context: Context, config: TableConfig) -> CatalogEntry | None:
    stats = context.store.stats(config.pipeline, config.table)
    return catalog_entry(context.pipeline.target.catalog, config, stats.catalog if stats else "")


def _register(context: Context, request: RunRequest, config: TableConfig, entry: CatalogEntry, spark: SparkSession) -> CatalogResult:
    """Registers a table under its lease: new columns reach a metastore with a commit, and a table has one writer."""
    store = context.store
    lease = store.acquire(config.pipeline, config.table, request.holder, ttl=context.lease_ttl, live=False, purpose="register")
    try:
        result = register(spark, entry, always=True) or CatalogResult(registered=entry.registered)
        remember_registration(store, lease, config, result)
        note_catalog(store, config.pipeline, config.table, result)
        return result
    finally:
        store.release(lease)
