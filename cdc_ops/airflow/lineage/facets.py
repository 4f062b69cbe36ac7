"""Lineage in the classes of OpenLineage's client. It imports that client, so nothing but `lineage.events` loads it, and only to tell."""

from collections.abc import Iterable
from typing import Any, Final

import attr
from airflow.providers.openlineage.extractors import OperatorLineage
from openlineage.client.event_v2 import Dataset, InputDataset, OutputDataset
from openlineage.client.facet_v2 import (
    InputDatasetFacet,
    OutputDatasetFacet,
    column_lineage_dataset,
    dataset_version_dataset,
    input_statistics_input_dataset,
    output_statistics_output_dataset,
    schema_dataset,
    storage_dataset,
    symlinks_dataset,
)

from cdc_ops.core.lineage.datasets import DatasetName, Dependency, Field, ReadDataset, TableLineage, Write, WrittenDataset

COMMITS: Final = "cdcOps_commits"
"""Name of the facet with the windows, versions and counts of a table's operations."""


@attr.define
class CommitsOutputDatasetFacet(OutputDatasetFacet):
    """What each operation of the task read and did to the table, in their order; docs/lineage.md has its fields."""

    commits: list[dict[str, Any]] = attr.field(factory=list)


def operator_lineage(tables: Iterable[TableLineage]) -> OperatorLineage[Any, Any]:
    """Returns what a task tells of its tables. A dataset that several of them read is there once."""
    inputs: dict[DatasetName, ReadDataset] = {}
    outputs: list[Dataset] = []
    for table in tables:
        for read in table.read:
            inputs[read.name] = _joined(inputs.get(read.name), read)
        if table.written is not None:
            outputs.append(_output(table.written))
    return OperatorLineage(inputs=[_input(one) for one in inputs.values()], outputs=outputs)


def _joined(known: ReadDataset | None, more: ReadDataset) -> ReadDataset:
    if known is None:
        return more
    fields = {field.name: field for field in (*known.fields, *more.fields)}
    rows = None if known.rows is None and more.rows is None else (known.rows or 0) + (more.rows or 0)
    return ReadDataset(name=more.name, fields=tuple(fields.values()), rows=rows)


def _input(read: ReadDataset) -> InputDataset:
    counted: dict[str, InputDatasetFacet] = {}
    if read.rows is not None:
        counted["inputStatistics"] = input_statistics_input_dataset.InputStatisticsInputDatasetFacet(rowCount=read.rows)
    return InputDataset(namespace=read.name.namespace, name=read.name.name, facets=_schema(read.fields), inputFacets=counted)


def _output(written: WrittenDataset) -> OutputDataset:
    facets = {
        **_schema(written.fields),
        "columnLineage": column_lineage_dataset.ColumnLineageDatasetFacet(
            fields={name: column_lineage_dataset.Fields(inputFields=_input_fields(found)) for name, found in written.columns},
            dataset=_input_fields(written.whole),
        ),
        "storage": storage_dataset.StorageDatasetFacet(storageLayer="delta", fileFormat="parquet"),
    }
    if written.catalog_name is not None:
        name = written.catalog_name
        link = symlinks_dataset.Identifier(namespace=name.namespace, name=name.name, type="TABLE")
        facets["symlinks"] = symlinks_dataset.SymlinksDatasetFacet(identifiers=[link])
    counted: dict[str, OutputDatasetFacet] = {COMMITS: CommitsOutputDatasetFacet(commits=[_commit(one) for one in written.writes])}
    if written.version is not None:
        facets["version"] = dataset_version_dataset.DatasetVersionDatasetFacet(datasetVersion=str(written.version))
        counted["outputStatistics"] = output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet(rowCount=written.rows)
    return OutputDataset(namespace=written.name.namespace, name=written.name.name, facets=facets, outputFacets=counted)


def _schema(fields: Iterable[Field]) -> dict[str, Any]:
    columns = [
        schema_dataset.SchemaDatasetFacetFields(
            name=field.name, type=field.type or None, description=field.description or None, ordinal_position=place, fields=None
        )
        for place, field in enumerate(fields, 1)
    ]
    return {"schema": schema_dataset.SchemaDatasetFacet(fields=columns)} if columns else {}


def _input_fields(found: Iterable[Dependency]) -> list[column_lineage_dataset.InputField]:
    """Returns the columns, each once with all ways in which something depends on it."""
    ways: dict[tuple[str, str, str], list[column_lineage_dataset.Transformation]] = {}
    for one in found:
        dataset, flow = one.column.dataset, one.flow
        way = column_lineage_dataset.Transformation(
            type=flow.type, subtype=flow.subtype, description=flow.description or None, masking=False
        )
        ways.setdefault((dataset.namespace, dataset.name, one.column.column), []).append(way)
    return [
        column_lineage_dataset.InputField(namespace=namespace, name=name, field=column, transformations=known)
        for (namespace, name, column), known in ways.items()
    ]


def _commit(write: Write) -> dict[str, Any]:
    """Returns an operation for the facet; what is not known, or does not apply, is left out."""
    operation, result = write.operation, write.result
    window = operation.window
    facet: dict[str, Any] = {
        "operation": operation.op_seq,
        "operationId": operation.operation_id,
        "plannedBy": operation.plan.run_id,
        "kind": operation.kind.value,
        "mode": operation.apply.mode.value,
    }
    if window is not None:
        ends = {"low": window.low, "high": window.high}
        cursor = [column.name for column in operation.source.cursor.columns]
        facet["window"] = {"columns": cursor} | {end: str(value) for end, value in ends.items() if value is not None}
    if result is not None:
        counts = result.counts
        rows = {"read": counts.read, "inserted": counts.inserted, "updated": counts.updated, "deleted": counts.deleted}
        facet |= {"outcome": result.outcome.value, "rows": rows | {"quarantined": counts.quarantined, "late": result.late.rows}}
        facet |= {} if result.delta_version is None else {"deltaVersion": result.delta_version}
    return facet
