"""The canonical change feed: the columns that every format produces. Pure.

kind          string     RecordKind: change, ddl, control, bad
op            string     Operation of a change: r c u d t
snapshot      boolean    the row comes from a snapshot, not from a log
table         struct     schema, name
key           struct     the key columns, typed; of the row as it is after the event, of a delete as it was
previous_key  struct     the key before an update that changed it, else NULL
before        struct     the row before, typed; NULL if the event does not say
after         struct     the row after, typed; NULL for deletes
present       array      columns of `after` that the event speaks of: what is not in it is unknown, not NULL
nulled        array      columns whose value no stored type holds and for which NULL stands
unmapped      array      columns that the event has and the table's schema has not
position      struct     numbers, most significant first: the total order of a table's events
transaction   string     the tool's name of the transaction, NULL if it has none
source_time   timestamp  when the source says that it happened; never an order
ddl           string     the statement of a `ddl` record
reason        string     why a record is `bad`
raw           string     the record as it came
file, line               where it came from; lines count from 0
"""

from collections.abc import Iterable
from typing import Final

from cdc_ops.core.events.format_spec import FormatSpec
from cdc_ops.core.schema.tables import Column, TableSchema
from cdc_ops.core.text import quoted

LANDED_NUMBER: Final = -1
"""Replaces a number of a position that an archive does not have."""


def struct_type(columns: Iterable[Column]) -> str:
    """Returns the type of a row image as Spark SQL DDL."""
    return "struct<" + ", ".join(f"{quoted(column.name)}: {column.delta_type}" for column in columns) + ">"


def key_columns(schema: TableSchema, keys: Iterable[str]) -> tuple[Column, ...]:
    """Returns the columns of the key, in its order.

    Raises:
        ValueError: the schema lacks one of them.
    """
    found = tuple(schema.column(key) for key in keys)
    if any(column is None for column in found):
        raise ValueError(f"{schema.table} lacks a column for one of its keys {', '.join(keys)}")
    return tuple(column for column in found if column is not None)


def feed_columns(spec: FormatSpec, schema: TableSchema, keys: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """Returns name and type of the columns of a table's canonical feed."""
    row, key = struct_type(schema.columns), struct_type(key_columns(schema, tuple(keys)))
    return (
        ("kind", "string"),
        ("op", "string"),
        ("snapshot", "boolean"),
        ("table", "struct<schema: string, name: string>"),
        ("key", key),
        ("previous_key", key),
        ("before", row),
        ("after", row),
        ("present", "array<string>"),
        ("nulled", "array<string>"),
        ("unmapped", "array<string>"),
        ("position", spec.position_type),
        ("transaction", "string"),
        ("source_time", "timestamp"),
        ("ddl", "string"),
        ("reason", "string"),
        ("raw", "string"),
        ("file", "string"),
        ("line", "bigint"),
    )
