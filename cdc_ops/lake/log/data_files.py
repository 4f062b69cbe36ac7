"""The data files of a Delta table, read from its log without Spark: by the checksum of small tables, else by checkpoint and commits."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from cdc_ops.core.layout.compaction import Partitioning
from cdc_ops.core.layout.data_files import Bound, DataFile, SizeClass, size_classes
from cdc_ops.lake.log.delta_log import DeltaLog, LogState

_CUBE: Final = "ZCUBE_ID"
_CLUSTERING: Final = "delta.clustering"


def read_files(log: DeltaLog, version: int, columns: Sequence[str] = ()) -> tuple[DataFile, ...]:
    """Returns all data files of a table at a version.

    Args:
        log: The table's log.
        version: A version that the log still has.
        columns: Columns of which the files' smallest and largest values are wanted.

    Raises:
        StateError: the log has holes.
    """
    metadata = log.state(version).metadata or {}
    names = physical_names(metadata)
    wanted = [names.get(name, name) for name in columns]
    divided = [names.get(name, name) for name in metadata.get("partitionColumns") or ()]
    return tuple(_data_file(add, wanted, divided) for add in log.adds(version))


def read_sizes(log: DeltaLog, version: int) -> tuple[tuple[SizeClass, ...], int]:
    """Returns the files by size, and how many rows deletion vectors leave out: by the version's checksum, else by the files themselves."""
    checksum = log.checksum(version)
    histogram, deleted = checksum.get("fileSizeHistogram"), checksum.get("numDeletedRecordsOpt")
    if histogram is None:
        files = read_files(log, version)
        return size_classes(files), sum(file.deleted for file in files)
    pairs = zip(histogram["fileCounts"], histogram["totalBytes"], strict=True)
    return tuple(SizeClass(files=count, bytes=size) for count, size in pairs if count), int(deleted or 0)


def read_rows(log: DeltaLog, version: int) -> int | None:
    """Returns how many rows the files hold, deleted ones included, if the version's checksum lists them; of large tables it does not."""
    adds = log.checksum(version).get("allFiles")
    rows = [_data_file(add, (), ()).rows for add in adds or ()]
    return None if adds is None or None in rows else sum(row or 0 for row in rows)


def partitioning(log: DeltaLog, version: int) -> Partitioning:
    """Returns how a table is divided."""
    state = log.state(version)
    metadata = state.metadata or {}
    kinds = dict(state.columns())
    logical = {physical: name for name, physical in physical_names(metadata).items()}
    return Partitioning(
        partition_by=tuple((name, kinds[name]) for name in metadata.get("partitionColumns") or ()),
        cluster_by=tuple(logical.get(name, name) for name in _clustering_columns(state)),
    )


def physical_names(metadata: Mapping[str, Any]) -> dict[str, str]:
    """Returns the names that columns have in files and statistics: with column mapping not those of the table."""
    fields = json.loads(metadata["schemaString"])["fields"] if metadata else []
    return {item["name"]: item["metadata"].get("delta.columnMapping.physicalName", item["name"]) for item in fields}


def _clustering_columns(state: LogState) -> tuple[str, ...]:
    domain = state.domains.get(_CLUSTERING)
    if domain is None or domain.get("removed"):
        return ()
    named = json.loads(domain["configuration"]).get("clusteringColumns") or ()
    return tuple(".".join(one["physicalName"] if isinstance(one, dict) else one) for one in named)


def _data_file(add: Mapping[str, Any], columns: Sequence[str], divided: Sequence[str]) -> DataFile:
    stats = json.loads(add.get("stats") or "{}")
    vector, values, tags = add.get("deletionVector"), add.get("partitionValues") or {}, add.get("tags") or {}
    low, high = stats.get("minValues") or {}, stats.get("maxValues") or {}
    return DataFile(
        size=int(add["size"]),
        rows=stats.get("numRecords"),
        deleted=int(vector["cardinality"]) if vector else 0,
        vector=bool(vector),
        vector_bytes=int(vector["sizeInBytes"]) if vector else 0,
        partition=tuple(values.get(name) for name in divided),
        modified=int(add.get("modificationTime") or 0),
        cube=str(tags.get(_CUBE) or ""),
        bounds=tuple((_bound(low.get(name)), _bound(high.get(name))) for name in columns),
    )


def _bound(value: Any) -> Bound:
    return value if isinstance(value, int | float | str) else None
