"""The entries of a pipeline file against the tables of its source, one entry at a time: a wrong one hides no other. No Spark here."""

from collections.abc import Iterable
from dataclasses import replace

from cdc_ops.core.pipeline.pipeline import Pipeline, TableConfig
from cdc_ops.core.pipeline.tables.table_matching import resolve_tables
from cdc_ops.core.schema.tables import TableName
from cdc_ops.errors import CdcError


def matched_entries(pipeline: Pipeline, there: Iterable[TableName]) -> tuple[tuple[TableConfig, ...], tuple[tuple[str, CdcError], ...]]:
    """Returns the tables that entries match, sorted by name, and the entries that match none, each with its error.

    Args:
        pipeline: The entries; an exact name wins over patterns, an earlier pattern over a later one.
        there: The tables that the source has.
    """
    tables = tuple(there)
    configs: dict[str, TableConfig] = {}
    wrong: list[tuple[str, CdcError]] = []
    excluded = tuple(rule for rule in pipeline.tables if rule.exclude)
    for rule in sorted((one for one in pipeline.tables if not one.exclude), key=lambda one: one.is_pattern):
        try:
            for config in resolve_tables(replace(pipeline, tables=(rule, *excluded)), tables):
                configs.setdefault(str(config.table), config)
        except CdcError as error:
            wrong.append((rule.pattern, error))
    return tuple(config for _, config in sorted(configs.items())), tuple(wrong)
