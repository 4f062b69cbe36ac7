"""Datasets of lineage: how they are named, which columns they have, and from which columns of others each of these comes. Pure.

The names follow OpenLineage's naming of datasets (https://openlineage.io/docs/spec/naming), so that other tools' events of the same table
or folder meet ours.
"""

import re
import urllib.parse
from dataclasses import dataclass
from typing import Final

from cdc_ops.core.operation.operation import Operation
from cdc_ops.core.operation.results import OperationResult
from cdc_ops.core.pipeline.connections import ConnectionUrl
from cdc_ops.core.schema.tables import TableName

_SCHEMES: Final = {"mysql": "mysql", "mariadb": "mysql", "postgresql": "postgres"}
"""Schemes of namespaces; the naming knows no MariaDB, which other tools name as MySQL too."""
_CANONICAL: Final = {"s3a": "s3", "s3n": "s3", "abfs": "abfss", "wasb": "wasbs"}
_WITH_PATHS: Final = ("file", "hdfs", "viewfs")
"""File systems, whose names begin with a slash; those of object stores are keys."""
_CONTAINERS: Final = ("abfss", "wasbs")
"""Stores whose addresses have a container before the `@`, and no login."""
_METASTORES: Final = ("spark.hadoop.hive.metastore.uris", "spark.hive.metastore.uris")


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class DatasetName:
    """The identity of a dataset: where names are unique, and the name there."""

    namespace: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Flow:
    """How a column depends on another, in OpenLineage's words.

    Args:
        type: `DIRECT`: the value comes from it. `INDIRECT`: it decides about the value.
        subtype: E.g. `IDENTITY`, `TRANSFORMATION`; `JOIN`, `FILTER`.
        description: The expression, or what is decided by it.
    """

    type: str
    subtype: str
    description: str = ""


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class ColumnName:
    """A column of a dataset."""

    dataset: DatasetName
    column: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Dependency:
    """A column that something depends on, and how."""

    column: ColumnName
    flow: Flow


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """A column as a dataset's schema shows it; "" = not known, or nothing to say."""

    name: str
    type: str = ""
    description: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadDataset:
    """A dataset that was read.

    Args:
        name: Which.
        fields: Its columns that were read, () if they are not known.
        rows: Rows, or events, that were read; None while that is not known.
    """

    name: DatasetName
    fields: tuple[Field, ...] = ()
    rows: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """One operation, as far as it has come; `result` is None while it is only planned."""

    operation: Operation
    result: OperationResult | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenDataset:
    """A Delta table that was written.

    Args:
        name: Where it lies.
        catalog_name: The same table in Spark's catalog, None if it has no name there.
        fields: All its columns.
        columns: By the name of a column: what its values come from. Columns that come from nowhere, or that nothing was written to, are not
            here.
        whole: What decides about rows as a whole.
        writes: The operations, in their order.
        version: Delta version after the last of them, None before.
    """

    name: DatasetName
    catalog_name: DatasetName | None
    fields: tuple[Field, ...]
    columns: tuple[tuple[str, tuple[Dependency, ...]], ...]
    whole: tuple[Dependency, ...]
    writes: tuple[Write, ...]
    version: int | None

    @property
    def results(self) -> tuple[OperationResult, ...]:
        """What was done so far."""
        return tuple(write.result for write in self.writes if write.result is not None)

    @property
    def rows(self) -> int | None:
        """Rows that were written, those that were deleted left aside; None before."""
        return sum(one.counts.inserted + one.counts.updated for one in self.results) if self.version is not None else None


@dataclass(frozen=True, slots=True, kw_only=True)
class TableLineage:
    """One table in one task; `written` is None where nothing was written, or where the task only reads."""

    table: TableName
    read: tuple[ReadDataset, ...]
    written: WrittenDataset | None = None


def source_dataset(url: ConnectionUrl, table: TableName) -> DatasetName:
    """Returns the name of a source's table. Login and options of the URL are in no part of it.

    >>> source_dataset(ConnectionUrl(scheme="mariadb", host="db", user="u"), TableName(schema="shop", name="orders"))
    DatasetName(namespace='mysql://db:3306', name='shop.orders')
    >>> source_dataset(ConnectionUrl(scheme="postgresql", host="::1", port=5433, database="crm"), TableName(schema="public", name="t"))
    DatasetName(namespace='postgres://[::1]:5433', name='crm.public.t')
    """
    host = f"[{url.host}]" if ":" in url.host else url.host
    name = f"{url.database}.{table}" if url.scheme == "postgresql" else str(table)
    return DatasetName(namespace=f"{_SCHEMES[url.scheme]}://{host}:{url.default_port}", name=name)


def folder_dataset(path: str) -> DatasetName:
    """Returns the name of a folder, such as that of a Delta table.

    >>> folder_dataset("/lake/shop/orders")
    DatasetName(namespace='file', name='/lake/shop/orders')
    >>> folder_dataset("s3a://lake/tables/shop/a%2Fb/")
    DatasetName(namespace='s3://lake', name='tables/shop/a%2Fb')
    >>> folder_dataset("hdfs://node:8020/lake")
    DatasetName(namespace='hdfs://node:8020', name='/lake')
    """
    found = re.match(r"^([A-Za-z][A-Za-z0-9+.-]*):(?://([^/]*))?(.*)$", path)
    scheme, authority, rest = (found[1].lower(), found[2] or "", found[3]) if found else ("file", "", path)
    scheme = _CANONICAL.get(scheme, scheme)
    name = "/" + rest.strip("/") if scheme in _WITH_PATHS else rest.strip("/") or "/"
    place = authority if scheme in _CONTAINERS else authority.rpartition("@")[2]
    return DatasetName(namespace=f"{scheme}://{place}" if place else scheme, name=name)


def catalog_dataset(name: tuple[str, ...], conf: dict[str, str], root: str) -> DatasetName | None:
    """Returns the name that a Delta table has in Spark's catalog, None if it has none.

    Args:
        name: Schema and table, or catalog, schema and table; () = it has none.
        conf: Spark's settings in the pipeline file, which may name the metastore.
        root: Of the lake. Where no metastore is named, it stands for the catalog, as in the events of Spark's integration.

    >>> catalog_dataset(("shop", "orders"), {"spark.hadoop.hive.metastore.uris": "thrift://meta:9083"}, "s3a://lake/tables")
    DatasetName(namespace='hive://meta:9083', name='shop.orders')
    >>> catalog_dataset(("lake", "shop", "orders"), {}, "s3a://lake/tables")
    DatasetName(namespace='s3://lake/tables', name='lake.shop.orders')
    """
    if not name:
        return None
    uris = next((conf[key] for key in _METASTORES if conf.get(key)), "")
    address = urllib.parse.urlsplit(uris.partition(",")[0].strip()).netloc.rpartition("@")[2]
    if address:
        return DatasetName(namespace=f"hive://{address}", name=".".join(name))
    place = folder_dataset(root)
    namespace = f"file:{place.name}" if place.namespace == "file" else f"{place.namespace}/{place.name.strip('/')}"
    return DatasetName(namespace=namespace, name=".".join(name))
