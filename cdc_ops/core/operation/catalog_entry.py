"""What is registered of a table in Spark's catalog, and how that ended. Pure."""

import hashlib
import urllib.parse
from collections.abc import Iterable
from dataclasses import dataclass

from cdc_ops.core.pipeline.pipeline import TableConfig
from cdc_ops.core.pipeline.tables.catalog_names import catalog_name
from cdc_ops.core.schema.tables import TableName
from cdc_ops.core.text import quoted


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogEntry:
    """A table and its name in Spark's catalog.

    Args:
        table: Which.
        path: Its Delta folder, a local path or URI.
        name: Parts of its name: schema and table, or catalog, schema and table.
        registered: Fingerprint of what was registered last, "" if nothing was or that is not known.
    """

    table: TableName
    path: str
    name: tuple[str, ...]
    registered: str = ""

    @property
    def sql_name(self) -> str:
        """The name as Spark SQL has it.

        >>> CatalogEntry(table=TableName(schema="s", name="t"), path="/lake/s/t", name=("s", "t")).sql_name
        '`s`.`t`'
        """
        return ".".join(map(quoted, self.name))

    @property
    def sql_schema(self) -> str:
        """The name of its schema."""
        return ".".join(map(quoted, self.name[:-1]))

    def fingerprint(self, columns: Iterable[tuple[str, str]]) -> str:
        """Returns what tells a registration apart: the table's name, place and columns."""
        return hashlib.sha256(repr((self.name, self.path, tuple(columns))).encode()).hexdigest()[:32]


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogResult:
    """How a registration ended.

    Args:
        registered: Fingerprint of what is registered now, "" if it failed.
        error: `CdcError.to_payload` of why it failed, None if it did not.
    """

    registered: str = ""
    error: dict[str, str] | None = None


def catalog_entry(template: str, config: TableConfig, registered: str = "") -> CatalogEntry | None:
    """Returns what is to be registered of a table, None if nothing is.

    Args:
        template: Of all tables of the pipeline; the table's own `catalog_name` goes before it.
        config: The table.
        registered: Fingerprint of what was registered last.
    """
    name = catalog_name(config.settings.storage.catalog_name or template, config.table)
    return CatalogEntry(table=config.table, path=config.path, name=name, registered=registered) if name else None


def same_place(one: str, other: str) -> bool:
    """True if two locations are one folder, however they are written.

    >>> same_place("s3a://lake/shop/orders", "s3://lake/shop/orders/"), same_place("/lake/shop", "file:///lake/shop")
    (True, True)
    """
    return _place(one) == _place(other)


def _place(location: str) -> tuple[str, str, str]:
    found = urllib.parse.urlsplit(location) if ":/" in location else urllib.parse.SplitResult("file", "", location, "", "")
    rest = "".join((found.path, f"?{found.query}" if found.query else "", f"#{found.fragment}" if found.fragment else ""))
    scheme = "s3" if found.scheme in ("s3a", "s3n") else found.scheme
    return scheme, found.netloc, rest.rstrip("/")
