"""Debezium's flat records for the compiled reader. Spark-free.

What `formats.debezium.unwrapped` reads by expressions, this reads by kernels, or leaves; tests read the same records both ways.
"""

from functools import partial
from typing import Any, Final

from cdc_ops.core.events.format_spec import FormatOptions
from cdc_ops.core.formats.catalog import format_spec
from cdc_ops.core.formats.debezium_flat import DELETED
from cdc_ops.core.schema.tables import TableSchema
from cdc_ops.decode.json.layout import is_plain_name
from cdc_ops.formats.debezium.added_fields import added_fields, added_name
from cdc_ops.formats.debezium.plain import encodings_by_schema, flat_fields_of
from cdc_ops.formats.debezium.unchanged import BEGINNINGS
from cdc_ops.formats.feed.plain_columns import plain_fields

_OF_MYSQL: Final = {
    "op": "OP",
    "transaction.total_order": "TOTAL_ORDER",
    "db": "DATABASE",
    "table": "TABLE",
    "file": "FILE",
    "pos": "POS",
    "row": "ROW",
    "gtid": "GTID",
    "connector": "CONNECTOR",
}
_OF_POSTGRES: Final = {
    "op": "OP",
    "transaction.total_order": "TOTAL_ORDER",
    "schema": "DATABASE",
    "table": "TABLE",
    "sequence": "SEQUENCE",
    "lsn": "LSN",
}
"""Fields of the envelope or of its source, and the slots of the members that have them."""


def plain_mysql_unwrapped(schema: TableSchema, keys: tuple[str, ...], options: FormatOptions) -> Any:
    """Returns how the compiled reader reads flat records of MySQL; None if they are left to the exact way. Needs what the kernels need."""
    from cdc_ops.decode.json import debezium, flat

    return _flat(schema, keys, options, _OF_MYSQL, flat.read_flat_mysql, debezium.MYSQL_PARTS)


def plain_postgres_unwrapped(schema: TableSchema, keys: tuple[str, ...], options: FormatOptions) -> Any:
    """The same for flat records of Postgres."""
    from cdc_ops.decode.json import debezium, flat

    return _flat(schema, keys, options, _OF_POSTGRES, flat.read_flat_postgres, debezium.POSTGRES_PARTS)


def _flat(schema: TableSchema, keys: tuple[str, ...], options: FormatOptions, wanted: dict[str, str], read: Any, parts: int) -> Any:
    from cdc_ops.decode.json import flat

    fields, added = plain_fields(schema, keys), added_fields(format_spec(options.name), options)
    taken = [DELETED, *added.values()]
    if fields is None or len(set(taken)) != len(taken) or set(taken) & set(schema.names) or not all(map(is_plain_name, taken)):
        return None
    import numpy as np

    from cdc_ops.decode.json.reader import PlainFormat

    slots = {found: int(flat.Slot[slot]) for name, slot in wanted.items() if (found := added_name(added, name))}
    if found := added_name(added, "ts_ms", top=False):
        slots[found] = int(flat.Slot.MOMENT)
    others = [name for name in added.values() if name not in slots]
    slots |= {DELETED: int(flat.Slot.DELETED)} | {name: flat.FIRST_FREE + index for index, name in enumerate(others)}
    names = [np.frombuffer(name.encode(), np.uint8) for name in (schema.table.schema, schema.table.name)]
    names_table = bool({int(flat.Slot.DATABASE), int(flat.Slot.TABLE)} & set(slots.values()))
    first = flat.FIRST_FREE + len(others)

    def envelopes(data: Any, spans: Any, rows: int, events: Any, counts: Any) -> None:
        read(data, spans, rows, *names, names_table, events, counts)

    return PlainFormat(
        layouts=flat.layouts(schema.names, slots),
        parts=parts,
        slots=first + len(fields),
        first_columns=(first, first),
        schema_slot=flat.Slot.SCHEMA,
        envelopes=envelopes,
        columns=fields,
        keys=tuple(schema.names.index(key) for key in keys),
        encodings=partial(encodings_by_schema, schema, options, flat_fields_of),
        refused=BEGINNINGS,
    )
