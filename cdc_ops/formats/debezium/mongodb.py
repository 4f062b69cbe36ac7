"""Debezium's change events of MongoDB; inside Spark.

    {"op": "u", "before": "{…}", "after": "{…}", "updateDescription": {"updatedFields": "{…}", "removedFields": ["a"],
     "truncatedArrays": [{"field": "b", "size": 2}]}, "source": {"db": "shop", "collection": "orders", "ord": 1, …}, …}

Documents are text in extended JSON. An update has the whole document or only its changes, depending on `capture.mode`. Events have no field
for the document's `_id`: it is in one of the documents, or in the record's key where archives hold records as {"key": …, "value": …}.

The order is the offset in Kafka. `source.ts_ms` is the clock of the server that wrote (`wallTime`); `ord` counts within a second of another
clock; both are the same for all changes of a transaction. Field layouts: Debezium's documentation and source of the connector.
"""

from dataclasses import dataclass
from typing import Final

from pyspark.sql import Column as Expr
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from cdc_ops.core.events.format_spec import EventOperation, FormatOptions, FormatSpec, RecordKind, setting
from cdc_ops.core.formats.catalog import format_spec
from cdc_ops.core.formats.mongodb import CAPTURE_MODE, FULL_UPDATE
from cdc_ops.core.schema.declared_tables import DOCUMENT_COLUMN
from cdc_ops.core.schema.tables import Column
from cdc_ops.formats.debezium import mongodb_values as spelled
from cdc_ops.formats.debezium.json_events import is_snapshot
from cdc_ops.formats.feed.envelopes import envelopes, moment_of, name_of, parsed
from cdc_ops.formats.feed.format import Format, Reading

_BODY: Final = (
    "op string, before string, after string, updateDescription struct<updatedFields: string, removedFields: array<string>,"
    " truncatedArrays: array<struct<field: string, size: int>>>, source struct<db: string, collection: string, ts_ms: bigint,"
    " snapshot: string, txnNumber: bigint, lsid: string>, ts_ms bigint, status string, transaction struct<id: string>"
)
_NAMES: Final = ("op", "before", "after", "updateDescription", "source", "ts_ms", "status", "transaction")
_EVENT: Final = f"{_BODY}, payload struct<{_BODY}>"
_LAYOUT: Final = f"{_EVENT}, key struct<id: string, payload: struct<id: string>>, value struct<{_EVENT}>"
SILENT: Final = "the update does not have the changed fields"
NAMELESS: Final = "the record does not identify its document: it has neither a before image nor a key"


@dataclass(frozen=True, slots=True, kw_only=True)
class DebeziumMongoDb:
    """The format `debezium-mongodb`."""

    spec: FormatSpec

    def envelopes(self, records: DataFrame, options: FormatOptions) -> DataFrame:
        """See `Format`."""
        frame = parsed(records, _LAYOUT, _event)
        body, source, op = F.col("r.body"), F.col("r.body.source"), F.col("r.body.op")
        document = setting(self.spec, options, DOCUMENT_COLUMN)
        frame = frame.withColumns({name: _with_document(body[name], document) for name in ("before", "after")})
        key = spelled.fields_of(F.concat(F.lit('{"_id":'), F.col("r.id"), F.lit("}")))
        frame = frame.withColumns({"key": key, "patch": _patch(body, document)})
        before, after, patch = (F.col(name) for name in ("before", "after", "patch"))
        patched = F.map_concat(_without(F.coalesce(before, F.col("key")), patch), patch)
        update = op == EventOperation.UPDATE
        whole = update & (after.isNotNull() | before.isNotNull())
        reason = _reason(body, F.coalesce(after, before, F.col("key")).isNull())
        return envelopes(
            frame,
            self.spec,
            {
                "kind": F.when(reason.isNotNull(), RecordKind.BAD.value)
                .when(update & after.isNull() & self._gone(patch, options), RecordKind.CONTROL.value)
                .otherwise(_kind(body, F.col("r.id"))),
                "reason": F.coalesce(reason, F.lit("the record has no operation")),
                # An event with the whole document replaces the one before: fields that it lacks are gone.
                "op": F.when(whole, EventOperation.CREATE.value).otherwise(op),
                "snapshot": is_snapshot(op, source["snapshot"]),
                "table": name_of(source["db"], source["collection"]),
                "before": F.when(op == EventOperation.DELETE, F.coalesce(before, F.col("key"))).otherwise(before),
                "after": F.when(update, F.coalesce(after, patched)).otherwise(after),
                "transaction": F.coalesce(
                    body["transaction"]["id"], F.concat(source["lsid"], F.lit(":"), source["txnNumber"].cast("string"))
                ),
                "source_time": moment_of(source["ts_ms"]),
                "position": F.struct(F.col("offset").cast("bigint").alias("offset")),
            },
        )

    def _gone(self, patch: Expr, options: FormatOptions) -> Expr:
        """True for an update whose document was deleted before the connector looked it up: it cannot be applied, and the delete follows."""
        looks_up = "update_full" in setting(self.spec, options, CAPTURE_MODE) and setting(self.spec, options, FULL_UPDATE) == "lookup"
        return F.exists(F.map_values(patch), lambda value: F.coalesce(value.startswith(spelled.IN_PART), F.lit(False))) & F.lit(looks_up)

    def reading(self, column: Column, text: Expr, kind: Expr, options: FormatOptions) -> Reading:
        """See `Format`."""
        return spelled.read(column, text)


def _reason(body: Expr, nameless: Expr) -> Expr:
    """Returns the reason why an event cannot be applied; NULL if it can."""
    silent = (body["op"] == EventOperation.UPDATE) & body["after"].isNull() & body["updateDescription"].isNull()
    return F.when(silent, SILENT).when(body["op"].isin(EventOperation.UPDATE, EventOperation.DELETE) & nameless, NAMELESS)


def _event(document: Expr) -> Expr:
    """Returns the event of a record, with or without a schema around it and a key beside it, and that key."""
    value = document["value"]

    def bare(of: Expr) -> Expr:
        return F.struct(*(of[name].alias(name) for name in _NAMES))

    body = F.coalesce(value["payload"], F.when(value.isNotNull(), bare(value)), document["payload"], bare(document))
    return F.struct(body.alias("body"), F.coalesce(document["key"]["payload"]["id"], document["key"]["id"]).alias("id"))


def _with_document(document: Expr, name: str) -> Expr:
    """Returns the fields of a document, and the whole document as the column that the table declares for it."""
    fields = spelled.fields_of(document)
    if not name:
        return fields
    return F.map_concat(F.map_filter(fields, lambda field, _: field != name), F.create_map(F.lit(name), document))


def _patch(body: Expr, document: str) -> Expr:
    """Returns the changed fields of an update, see `patch_of`."""
    told = body["updateDescription"]
    fields = spelled.fields_of(F.coalesce(told["updatedFields"], F.lit("{}")))
    return patch_of(fields, told["removedFields"], told["truncatedArrays"]["field"], (document,) if document else ())


def patch_of(fields: Expr, removed: Expr, cut: Expr, always: tuple[str, ...] = ()) -> Expr:
    """Returns the top-level fields that an update changed: their new values, NULL for removed fields, `IN_PART` for partly known ones.

    Args:
        fields: The fields that were set, by name or by path with dots.
        removed: The names or paths of fields that were removed; NULL = none.
        cut: Arrays that were truncated; NULL = none.
        always: Columns that every update changes in part, such as the whole document.
    """
    none = F.array().cast("array<string>")
    removed, cut = F.coalesce(removed, none), F.coalesce(cut, none)
    whole = F.map_filter(fields, lambda name, _: ~name.contains("."))
    gone = F.array_except(F.filter(removed, lambda name: ~name.contains(".")), F.map_keys(whole))
    paths = F.array_union(F.filter(F.array_union(F.map_keys(fields), removed), lambda name: name.contains(".")), cut)
    firsts = F.array_distinct(F.transform(paths, _first))
    if always:
        firsts = F.array_union(firsts, F.array(*(F.lit(name) for name in always)))
    parts = F.array_except(firsts, F.concat(F.map_keys(whole), gone))
    return F.map_concat(
        whole,
        F.map_from_arrays(gone, F.transform(gone, lambda _: F.lit(None).cast("string"))),
        F.map_from_arrays(parts, F.transform(parts, lambda name: _in_part(paths, name))),
    )


def _first(path: Expr) -> Expr:
    return F.substring_index(path, ".", 1)


def _in_part(paths: Expr, name: Expr) -> Expr:
    found = F.filter(paths, lambda path: _first(path) == name)
    return F.concat(F.lit(spelled.IN_PART), F.when(F.size(found) > 0, F.array_join(found, ", ")).otherwise(name))


def _without(image: Expr, other: Expr) -> Expr:
    return F.map_filter(image, lambda name, _: ~F.map_contains_key(other, name))


def _kind(body: Expr, key: Expr) -> Expr:
    """Returns the kind of a record. Transaction borders, heartbeats, and tombstones beside their key change nothing."""
    without_row = body["status"].isNotNull() | (body["source"].isNull() & (body["ts_ms"].isNotNull() | key.isNotNull()))
    return (
        F.when(without_row & body["op"].isNull(), RecordKind.CONTROL.value)
        .when(body["op"].isNotNull(), RecordKind.CHANGE.value)
        .otherwise(RecordKind.BAD.value)
    )


def debezium_mongodb() -> Format:
    """The format `debezium-mongodb`."""
    return DebeziumMongoDb(spec=format_spec("debezium-mongodb"))
