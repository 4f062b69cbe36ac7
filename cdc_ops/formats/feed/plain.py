"""The formats that the compiled decoder reads, by name: what is plain in their records comes out as rows of Arrow. Spark-free.

What a format says here it says of a part of its records; `Format.envelopes` and `Format.reading` read all of them, and say the same.
"""

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Final

from cdc_ops.core.events.format_spec import FormatOptions
from cdc_ops.core.schema.tables import TableSchema

if TYPE_CHECKING:
    from cdc_ops.decode.plain_rows import PlainRows

_FORMATS: Final[dict[str, str]] = {
    "debezium-mysql": "cdc_ops.formats.debezium.plain:plain_mysql",
    "debezium-postgres": "cdc_ops.formats.debezium.plain:plain_postgres",
    "debezium-mysql-unwrapped": "cdc_ops.formats.debezium.plain_flat:plain_mysql_unwrapped",
    "debezium-postgres-unwrapped": "cdc_ops.formats.debezium.plain_flat:plain_postgres_unwrapped",
    "maxwell": "cdc_ops.formats.plain_maxwell:plain_maxwell",
    "canal": "cdc_ops.formats.plain_canal:plain_canal",
    "ticdc-canal": "cdc_ops.formats.plain_canal:plain_canal",
    "mysql-binlog": "cdc_ops.formats.fast_binlog.plain:plain_binlog",
}


def has_plain_format(name: str) -> bool:
    """True for a format of which some records can be read so."""
    return name in _FORMATS


def plain_format(schema: TableSchema, keys: tuple[str, ...], options: FormatOptions) -> "PlainRows | None":
    """Returns how the plain records of a table are read; None if all are left to the exact way. Needs what the kernels need.

    Args:
        schema: The table, as the source has it.
        keys: The columns that identify a row, in the order of the key.
        options: The format's options from the pipeline file.
    """
    if options.name not in _FORMATS:
        return None
    module, _, name = _FORMATS[options.name].partition(":")
    make: Callable[[TableSchema, tuple[str, ...], FormatOptions], PlainRows | None] = getattr(import_module(module), name)
    return make(schema, keys, options)
