"""The declared properties of the formats of Debezium's MongoDB events. Pure."""

from dataclasses import replace
from typing import Final

from cdc_ops.core.events.format_spec import Container, EventMarks, FileKind, FormatSpec, LossySetting, OrderField, RowImage, Where
from cdc_ops.core.schema.declared_tables import DOCUMENT_COLUMN, TypeDialect
from cdc_ops.core.schema.logical_types import LogicalType
from cdc_ops.events.formats.debezium.declared.flat import PREFIX, flat_losses
from cdc_ops.events.formats.debezium.declared.losses import SCHEMAS

CAPTURE_MODE: Final = "capture.mode"
FULL_UPDATE: Final = "capture.mode.full.update.type"

_LEFT_ALONE: Final = (
    ("errors.tolerance", "none", "Kafka Connect skips records at which a transformation or a converter fails."),
    ("event.processing.failure.handling.mode", "fail", "The connector skips events at which it fails."),
    ("field.exclude.list", "", "The connector excludes fields of documents; they look like removed fields."),
    ("field.renames", "", "The connector renames fields of documents."),
    ("cursor.pipeline", "", "Changes that a custom aggregation pipeline removes from the stream have no event."),
    ("post.processors", "", "Post processors change documents after they were read."),
)
"""Settings of the connector, the values that lose nothing, and what others lose."""

MONGODB: Final = FormatSpec(
    name="debezium-mongodb",
    tool="Debezium",
    order=(OrderField(name="offset", type="bigint", meaning="offset in Kafka: records without one are bad"),),
    images=RowImage.PARTIAL,
    marks=EventMarks(
        snapshot="op r, or source.snapshot",
        delete="op d with the document before, or the record's key; a tombstone may follow",
        key_change="never: _id does not change",
        truncate="not at all: documents of a collection that is dropped stay",
        ddl="not at all: there is none",
    ),
    dialect=TypeDialect.MONGODB,
    lossy=(
        LossySetting(
            name=CAPTURE_MODE,
            safe=("change_streams_update_full_with_pre_image", "change_streams_with_pre_image"),
            default="change_streams_update_full",
            loses="Without the before image, a delete does not name its document; only the record's key does.",
            remedy=f"Set {CAPTURE_MODE}=change_streams_update_full_with_pre_image (MongoDB 6.0), or archive records with their keys.",
            where=Where.CONNECTOR,
        ),
        LossySetting(
            name="skipped.operations",
            safe=("none", "t"),
            default="t",
            loses="The connector skips events of this kind.",
            remedy="Set skipped.operations=none in the connector.",
            where=Where.CONNECTOR,
        ),
        LossySetting(
            name="cursor.oversize.handling.mode",
            safe=("fail", "split"),
            default="fail",
            loses="The connector skips events that are too large.",
            remedy="Set cursor.oversize.handling.mode=split (MongoDB 6.0.9).",
            where=Where.CONNECTOR,
        ),
        *(
            LossySetting(
                name=name,
                safe=(safe,),
                default=safe,
                loses=loses,
                remedy=f"Leave {name} at its default{', ' + safe if safe else ''}.",
                where=Where.CONNECTOR,
            )
            for name, safe, loses in _LEFT_ALONE
        ),
    ),
    settings={"json.serialization.mode": "legacy", FULL_UPDATE: "lookup", DOCUMENT_COLUMN: ""},
    one_order=False,
    sparse=True,
)


UPDATED: Final = "updateDescription.updatedFields"
REMOVED: Final = "updateDescription.removedFields"

_FIELDS, _DELETES = flat_losses(("op", UPDATED, REMOVED), ("db", "collection"))
_FLATTENED: Final = (
    replace(
        _FIELDS,
        loses="What is not named is not in the records: without it nobody knows what happened, which fields an update removed, nor whether"
        " it has the whole document.",
        remedy=f"Set transforms.<name>.add.fields={','.join(_FIELDS.needs)}, and repeat it here.",
    ),
    _DELETES,
    LossySetting(
        name="delete.tombstone.handling.mode.rewrite-with-id",
        safe=("true",),
        default="false",
        loses="A delete does not name its document unless the connector has the before image"
        " (capture.mode=change_streams_update_full_with_pre_image).",
        remedy="Set transforms.<name>.delete.tombstone.handling.mode.rewrite-with-id=true.",
        where=Where.TRANSFORMATION,
        written="transforms.unwrap.delete.tombstone.handling.mode.rewrite-with-id",
    ),
    LossySetting(
        name=SCHEMAS,
        safe=("true",),
        default="true",
        loses="Without schemas, dates look like numbers, and bytes and decimals look like texts: a value of another type may be read as"
        " the column's type.",
        remedy="Set value.converter.schemas.enable=true in the connector.",
        where=Where.CONVERTER,
        written="value.converter.schemas.enable",
    ),
    LossySetting(
        name="flatten.struct",
        safe=("false",),
        default="false",
        loses="Fields of documents within a document get names that others may have, and a document that takes another's place leaves those"
        " of the other one behind.",
        remedy="Set transforms.<name>.flatten.struct=false.",
        where=Where.TRANSFORMATION,
        written="transforms.unwrap.flatten.struct",
    ),
    LossySetting(
        name="field.name.adjustment.mode",
        safe=("none",),
        default="none",
        loses="The transformation may rename fields.",
        remedy="Set transforms.<name>.field.name.adjustment.mode=none.",
        where=Where.TRANSFORMATION,
        written="transforms.unwrap.field.name.adjustment.mode",
    ),
)
MONGODB_UNWRAPPED: Final = replace(
    MONGODB,
    name="debezium-mongodb-unwrapped",
    marks=replace(MONGODB.marks, snapshot="__op r", delete="__deleted true, with the document before or its _id; a tombstone may follow"),
    lossy=(*(item for item in MONGODB.lossy if item.name != CAPTURE_MODE), *_FLATTENED),
    settings={PREFIX: "__"},
    unreadable=dict.fromkeys(
        (LogicalType.DOCUMENT, LogicalType.JSON),
        "ExtractNewDocumentState writes what is in documents and arrays without its types: dates as numbers, ids and decimals as texts.",
    ),
    names_table=False,
)
MONGODB_AVRO: Final = replace(MONGODB, name="debezium-mongodb-avro", files=FileKind(container=Container.AVRO))
"""Documents are texts in Avro too, so that neither converter nor sink changes what they say."""
