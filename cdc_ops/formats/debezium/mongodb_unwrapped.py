r"""Debezium's change events of MongoDB flattened by ExtractNewDocumentState, as JSON with or without schemas; inside Spark.

    {"_id": "596e…", "n": 7, "__deleted": false, "__op": "u", "__updateDescription_updatedFields": "{\"n\": 7}",
     "__updateDescription_removedFields": ["a"]}

The transformation converts BSON types to Kafka Connect's: dates are milliseconds, decimals and ids are text, bytes are base64. Values in
documents and arrays lose their types, so no column may hold a document or an array. A record of an update has the whole document or only
its changes, and does not say which. `updateDescription` has the changes in both cases, so it is applied. Replaced documents have no
`updateDescription`. Field layouts: Debezium's documentation and source of the transformation.
"""

from dataclasses import dataclass
from typing import Final

from pyspark.sql import Column as Expr
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from cdc_ops.core.events.format_spec import EventOperation, FormatOptions, FormatSpec, RecordKind, setting
from cdc_ops.core.formats.catalog import format_spec
from cdc_ops.core.formats.debezium_flat import DELETED
from cdc_ops.core.formats.debezium_losses import SCHEMAS
from cdc_ops.core.formats.mongodb import REMOVED, UPDATED
from cdc_ops.core.schema.tables import Column
from cdc_ops.formats.debezium import mongodb_values
from cdc_ops.formats.debezium.json_events import is_snapshot, types_of
from cdc_ops.formats.debezium.mongodb import NAMELESS, SILENT, patch_of
from cdc_ops.formats.debezium.unwrapped import Added, kind_of, opened, unknown
from cdc_ops.formats.debezium.values import only_typed
from cdc_ops.formats.feed.envelopes import envelopes, moment_of, name_of
from cdc_ops.formats.feed.format import Format, Reading

_ID: Final = "_id"


@dataclass(frozen=True, slots=True, kw_only=True)
class DebeziumMongoDbUnwrapped:
    """The format `debezium-mongodb-unwrapped`."""

    spec: FormatSpec

    def envelopes(self, records: DataFrame, options: FormatOptions) -> DataFrame:
        """See `Format`."""
        frame, wrapped, fields = opened(records)
        row, added = F.col("b"), Added(F.col("b"), self.spec, options)
        deleted = F.coalesce(F.try_element_at(row, F.lit(DELETED)) == "true", F.lit(False))
        op = F.when(deleted, EventOperation.DELETE.value).otherwise(added.field("op"))
        document = mongodb_values.fields_of(F.when(wrapped, F.try_element_at(F.col("m"), F.lit("payload"))).otherwise(F.col("value")))
        said = F.map_filter(document, lambda name, _: ~name.isin(DELETED, *added.names))
        removed = F.from_json(added.field(REMOVED), "array<string>")
        patched = (op == EventOperation.UPDATE) & (added.field(UPDATED).isNotNull() | removed.isNotNull())
        frame = frame.withColumn("said", said).withColumn("patch", F.when(patched, patch_of(F.col("said"), removed, F.lit(None))))
        image, database, collection = F.col("said"), added.field("db"), added.field("collection")
        named = database.isNotNull() & collection.isNotNull()
        reason = _reason(added, op, deleted, image)
        return envelopes(
            frame,
            self.spec,
            {
                "kind": F.when(reason.isNotNull(), RecordKind.BAD.value).otherwise(kind_of(row, op, wrapped)),
                "reason": F.coalesce(reason, unknown(op)),
                # The record of a replaced document has all of its fields.
                "op": F.when((op == EventOperation.UPDATE) & F.col("patch").isNull(), EventOperation.CREATE.value).otherwise(op),
                "snapshot": is_snapshot(op, F.lit("false")),
                "table": name_of(F.when(named, database), F.when(named, collection)),
                "before": F.when(deleted, image),
                "after": F.when(~deleted, F.coalesce(F.col("patch"), image)),
                "types": types_of(fields),
                "transaction": F.coalesce(
                    added.field("transaction.id"), F.concat(added.field("lsid"), F.lit(":"), added.field("txnNumber"))
                ),
                "source_time": moment_of(added.field("ts_ms", top=False).try_cast("bigint")),
                "position": F.struct(F.col("offset").cast("bigint").alias("offset")),
            },
        )

    def reading(self, column: Column, text: Expr, kind: Expr, options: FormatOptions) -> Reading:
        """See `Format`."""
        reading = mongodb_values.read_flat(column, text, kind)
        return only_typed(reading, kind) if setting(self.spec, options, SCHEMAS) == "true" else reading


def _reason(added: Added, op: Expr, deleted: Expr, image: Expr) -> Expr:
    """Returns the reason why an event cannot be applied; NULL if it can."""
    told = added.has(UPDATED) & added.has(REMOVED)
    silent = ((op == EventOperation.UPDATE) & ~told) | (deleted & (added.field("op") != EventOperation.DELETE))
    nameless = (op == EventOperation.DELETE) & ~F.map_contains_key(image, _ID)
    return F.when(silent, SILENT).when(nameless, NAMELESS)


def debezium_mongodb_unwrapped() -> Format:
    """The format `debezium-mongodb-unwrapped`."""
    return DebeziumMongoDbUnwrapped(spec=format_spec("debezium-mongodb-unwrapped"))
