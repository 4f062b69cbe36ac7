"""The lineage of one table in one task: what its operations read, what they write, and what became of it. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from cdc_ops.core.lineage.columns import Named, column_lineage, planned_fields, read_fields, row_lineage, stored_fields
from cdc_ops.core.lineage.datasets import (
    DatasetName,
    Dependency,
    Field,
    ReadDataset,
    TableLineage,
    Write,
    WrittenDataset,
    folder_dataset,
)
from cdc_ops.core.operation.operation import Operation
from cdc_ops.core.operation.reads import ArchiveRead, ReplayRead
from cdc_ops.core.operation.results import OperationResult, Outcome

_WRITTEN = (Outcome.APPLIED, Outcome.ALREADY_APPLIED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What operations do not say of their table.

    Args:
        origin: The table at the source, None where no source is known.
        catalog_name: The Delta table in Spark's catalog, None if it has no name there.
        previous_key: Columns that hold a row's key from before its last change.
        named: Finds the columns that a condition names.
        stored: Name and type of the Delta table's columns after the last commit; () while that is not known.
    """

    origin: DatasetName | None
    catalog_name: DatasetName | None
    previous_key: tuple[str, ...]
    named: Named
    stored: tuple[tuple[str, str], ...] = ()


def table_lineage(
    operations: tuple[Operation, ...], results: Mapping[str, OperationResult], around: Surroundings, *, writes: bool = True
) -> TableLineage:
    """Returns the lineage of one table.

    What was found to be equal, and what was given up, has been read and not written.

    Args:
        operations: Of the table, in their order; at least one.
        results: What is known of them, by their ids.
        around: What they do not say.
        writes: False for a task that only lands rows.
    """
    pairs = tuple(Write(operation=one, result=results.get(one.operation_id)) for one in operations)
    written = tuple(one for one in pairs if one.result is None or one.result.outcome in _WRITTEN) if writes else ()
    return TableLineage(table=operations[0].table, read=_read(pairs, around), written=_written(written, around) if written else None)


def last_version(results: Iterable[OperationResult]) -> int | None:
    """Returns the Delta version after the last of some commits, None if there is none."""
    return max((one.delta_version for one in results if one.delta_version is not None and one.outcome in _WRITTEN), default=None)


def column_origin(operation: Operation, around: Surroundings) -> DatasetName:
    """Returns the dataset that the columns of an operation come from: the source's table; without a source, what is read instead."""
    if isinstance(operation.read, ReplayRead):
        return folder_dataset(operation.read.replay.path)
    if around.origin is not None:
        return around.origin
    return _folder(operation) or folder_dataset(operation.target.path)


def _folder(operation: Operation) -> DatasetName | None:
    return folder_dataset(operation.read.batch.url) if isinstance(operation.read, ArchiveRead) else None


def _read(pairs: tuple[Write, ...], around: Surroundings) -> tuple[ReadDataset, ...]:
    """What was read: the source's table, or the events of it; these come with the table whose changes they are."""
    fields: dict[DatasetName, dict[str, Field]] = {}
    rows: dict[DatasetName, int] = {}
    for pair in pairs:
        origin, folder = column_origin(pair.operation, around), _folder(pair.operation)
        known = () if isinstance(pair.operation.read, ReplayRead) else read_fields(pair.operation)
        fields.setdefault(origin, {}).update({field.name: field for field in known})
        place = folder or origin
        fields.setdefault(place, {})
        if pair.result is not None:
            rows[place] = rows.get(place, 0) + pair.result.counts.read
    return tuple(ReadDataset(name=name, fields=tuple(known.values()), rows=rows.get(name)) for name, known in fields.items())


def _written(pairs: tuple[Write, ...], around: Surroundings) -> WrittenDataset:
    last = pairs[-1].operation
    planned = {field.name.lower(): field for pair in pairs for field in planned_fields(pair.operation)}
    fields = stored_fields(last, around.stored) if around.stored else tuple(planned.values())
    spelled = {field.name.lower(): field.name for field in fields}
    columns: dict[str, dict[Dependency, None]] = {}
    whole: dict[Dependency, None] = {}
    for pair in pairs:
        origin = column_origin(pair.operation, around)
        for name, found in column_lineage(pair.operation, origin, around.named).items():
            if found and (known := spelled.get(name.lower())):
                columns.setdefault(known, {}).update(dict.fromkeys(found))
        whole |= dict.fromkeys(row_lineage(pair.operation, origin, around.named, around.previous_key))
    return WrittenDataset(
        name=folder_dataset(last.target.path),
        catalog_name=around.catalog_name,
        fields=fields,
        columns=tuple((name, tuple(found)) for name, found in columns.items()),
        whole=tuple(whole),
        writes=pairs,
        version=last_version(pair.result for pair in pairs if pair.result is not None),
    )
