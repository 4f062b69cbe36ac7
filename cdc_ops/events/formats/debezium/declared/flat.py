"""The declared properties of the formats of Debezium's flattened records, and of its records in Avro files. Pure."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from cdc_ops.core.events.format_spec import Container, FileKind, FormatSpec, LossySetting, Where
from cdc_ops.core.formats.known_losses import NO_TRUNCATE
from cdc_ops.events.formats.debezium.declared.losses import (
    BINARY_MODE,
    META_DATA,
    NEED_SCHEMAS,
    OF_KEYS,
    OF_TRANSFORMATION,
    SCHEMAS,
    SKIPPED,
)
from cdc_ops.events.formats.debezium.declared.relational import MYSQL_EVENTS, ORACLE, POSTGRES, SQL_SERVER

FIELDS: Final = "add.fields"
PREFIX: Final = "add.fields.prefix"
DELETES: Final = "delete.tombstone.handling.mode"
DELETED: Final = "__deleted"
_NAMED: Final = ("source.schema", "source.table")


def flat_losses(needs: tuple[str, ...], of_table: Iterable[str]) -> tuple[LossySetting, ...]:
    """Returns the losses by settings of the transformation.

    Args:
        needs: The names of the fields that it must add.
        of_table: Those that say the table, of which it had better add all.
    """
    return (
        LossySetting(
            name=FIELDS,
            needs=needs,
            default="",
            loses="The transformation adds only the named fields: without operation and position, records have no order and no meaning.",
            advised=",".join((*(_qualified(name) for name in needs), *of_table)),
            remedy=f"Set transforms.<name>.add.fields={','.join(needs)} (each may be written source.<field>), and repeat it here.",
            where=Where.TRANSFORMATION,
            written="transforms.unwrap.add.fields",
        ),
        LossySetting(
            name=DELETES,
            safe=("rewrite", "rewrite-with-tombstone"),
            default="tombstone",
            loses="The transformation drops deletes, so deleted rows stay in the lake.",
            remedy="Set transforms.<name>.delete.tombstone.handling.mode=rewrite.",
            where=Where.TRANSFORMATION,
            written="transforms.unwrap.delete.tombstone.handling.mode",
        ),
    )


def _qualified(name: str) -> str:
    return name if name == "op" or "." in name else f"source.{name}"


def _flattened(spec: FormatSpec, needs: tuple[str, ...], of_table: Iterable[str] = _NAMED) -> FormatSpec:
    kept = tuple(item for item in spec.lossy if item.name != SKIPPED)
    truncates = len(kept) < len(spec.lossy)
    return replace(
        spec,
        name=f"{spec.name}-unwrapped",
        marks=replace(
            spec.marks,
            snapshot="__op r",
            delete="__deleted true, with the row before; a tombstone may follow",
            truncate="not at all: the transformation leaves it out" if truncates else spec.marks.truncate,
            hidden_keys="flat records have no row before the change",
        ),
        lossy=(*kept, OF_KEYS, *flat_losses(needs, of_table), *OF_TRANSFORMATION, *((NO_TRUNCATE,) if truncates else ())),
        settings={**spec.settings, PREFIX: "__"},
        names_table=False,
    )


_OF_JSON: Final = (SCHEMAS, "converter.replace.null.with.default", "converter.decimal.format")
_OF_AVRO: Final = (
    LossySetting(
        name="ignore.default.for.nullables",
        safe=("true",),
        default="false",
        loses="By default, Avro converters and the sink write a column's default in place of NULL.",
        remedy="Set value.converter.ignore.default.for.nullables=true in the connector and in the sink, and"
        " ignore.default.for.nullables=true in the sink. Versions that do not know it always replace NULL.",
        where=Where.CONVERTER,
        written="value.converter.ignore.default.for.nullables",
    ),
    LossySetting(
        name=META_DATA,
        safe=("true",),
        default="true",
        loses="Without Kafka Connect's types in its schema a file does not say the scale of its decimals, nor the unit of its times: those"
        " of the columns as they are today are taken, also for records from before an ALTER.",
        remedy="Set connect.meta.data=true in the sink.",
        families=NEED_SCHEMAS,
        seen=True,
        where=Where.SINK,
    ),
    LossySetting(
        name="schema.compatibility",
        safe=("NONE",),
        default="NONE",
        loses="The sink converts records of an older schema to the newest one: a column that they lack becomes NULL or its default.",
        remedy="Set schema.compatibility=NONE in the sink: it begins a new file for each schema then.",
        where=Where.SINK,
    ),
)


def in_avro(spec: FormatSpec) -> FormatSpec:
    """Returns the declared properties of the same events in Avro files."""
    kept = (item for item in spec.lossy if item.name not in _OF_JSON)
    # Bytes are Avro's own, whether a file has Kafka Connect's types or not.
    lossy = (replace(item, stated_without=META_DATA if item.name != BINARY_MODE else "") if item.stated_without else item for item in kept)
    return replace(
        spec,
        name=f"{spec.name}-avro",
        lossy=(*lossy, *_OF_AVRO),
        files=FileKind(container=Container.AVRO, column_names="[A-Za-z_][A-Za-z0-9_]*"),
    )


MYSQL_UNWRAPPED: Final = _flattened(MYSQL_EVENTS, ("op", "file", "pos", "row"), ("source.db", "source.table", "source.connector"))
POSTGRES_UNWRAPPED: Final = _flattened(POSTGRES, ("op", "lsn", "sequence"))
SQL_SERVER_UNWRAPPED: Final = _flattened(SQL_SERVER, ("op", "commit_lsn", "change_lsn", "event_serial_no"))
ORACLE_UNWRAPPED: Final = _flattened(ORACLE, ("op", "scn", "commit_scn"))
UNWRAPPED: Final = (MYSQL_UNWRAPPED, POSTGRES_UNWRAPPED, SQL_SERVER_UNWRAPPED, ORACLE_UNWRAPPED)
