"""Tables in Spark's catalog, the half that needs no Spark: their names at the plan, and what the ledger remembers of them."""

from collections.abc import Mapping
from dataclasses import replace

from cdc_ops.core.maintenance import TableStats
from cdc_ops.core.operation.catalog_entry import CatalogEntry, CatalogResult, catalog_entry
from cdc_ops.core.pipeline.pipeline import Pipeline, TableConfig, current_settings, table_path
from cdc_ops.core.schema.tables import TableName
from cdc_ops.state.base import StateStore
from cdc_ops.state.lease import Lease


def catalog_entries(pipeline: Pipeline, known: Mapping[TableName, TableStats | None]) -> tuple[CatalogEntry, ...]:
    """Returns the names in Spark's catalog of a job's tables, by the current pipeline file, with what is registered of each.

    Args:
        pipeline: With the names.
        known: The tables, with their numbers in the ledger.
    """
    entries = []
    for table, stats in known.items():
        if settings := current_settings(pipeline, table):
            config = TableConfig(pipeline=pipeline.name, table=table, settings=settings, path=table_path(pipeline, table, settings))
            entries.append(catalog_entry(pipeline.target.catalog, config, stats.catalog if stats else ""))
    return tuple(entry for entry in entries if entry is not None)


def remember_registration(store: StateStore, lease: Lease, config: TableConfig, result: CatalogResult | None) -> None:
    """Keeps what the catalog was told of a table, so that the next job does not tell it again.

    A table without numbers in the ledger, because a job died after its commit, is told again.
    """
    stats = store.stats(config.pipeline, config.table)
    if result is not None and result.registered and stats is not None:
        store.put_stats(lease, config.pipeline, config.table, replace(stats, catalog=result.registered))
