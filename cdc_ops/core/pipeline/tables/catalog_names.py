"""The names under which tables are registered in Spark's catalog. Pure."""

import re
from typing import Final

from cdc_ops.core.schema.tables import TableName

PLACES: Final = ("schema", "table")
"""What a template may name in braces: the table's schema at the source, and its name."""
_PLACE: Final = re.compile(r"\{(schema|table)\}")


def catalog_name(template: str, table: TableName) -> tuple[str, ...]:
    """Returns the parts of a table's name in the catalog; a dot in the source's name makes no further part.

    Args:
        template: As in the pipeline file; "" = the table is not registered.
        table: Whose name.

    Returns:
        Schema and table, or catalog, schema and table; () for a table that is not registered.

    >>> catalog_name("lake.{schema}_raw.{table}", TableName(schema="shop", name="orders"))
    ('lake', 'shop_raw', 'orders')
    """
    values = {"schema": table.schema, "table": table.name}
    return tuple(_PLACE.sub(lambda found: values[found[1]], part) for part in template.split(".")) if template else ()


def is_of_one_table(template: str) -> bool:
    """True if all tables would have the same name by a template."""
    return bool(template) and "{table}" not in template


def parse_catalog_name(text: str) -> str:
    """Checks a template.

    Raises:
        ValueError: it has not two or three parts, or names something in braces that there is not.
    """
    parts = text.split(".")
    if len(parts) not in (2, 3) or not all(part and part == part.strip() for part in parts):
        raise ValueError(f"{text!r} is not schema.table or catalog.schema.table. Write for example '{{schema}}.{{table}}'")
    for part in parts:
        if set(_PLACE.sub("", part)) & set("{}"):
            raise ValueError(f"{part!r} has braces around something else than schema and table. Write {{schema}} and {{table}}")
    return text
