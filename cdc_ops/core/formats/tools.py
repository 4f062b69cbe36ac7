"""The declared properties of the formats of Maxwell, Canal, TiCDC, DTS, GoldenGate and Hudi. Pure."""

from dataclasses import replace
from typing import Final

from cdc_ops.core.events.format_spec import MYSQL, Container, EventMarks, FileKind, FormatSpec, LossySetting, OrderField, RowImage
from cdc_ops.core.formats.known_losses import CUT_FRACTIONS, ENUM_ERRORS, FULL_ROW_IMAGE, NO_TRUNCATE, left_alone
from cdc_ops.core.schema.logical_types import LogicalType

MAXWELL: Final = FormatSpec(
    name="maxwell",
    tool="Maxwell",
    order=(
        OrderField(name="streamed", type="tinyint", meaning="0 for rows of a bootstrap, which are older than all changes of their batch"),
        OrderField(name="file_no", type="bigint", meaning="number at the end of the binlog file's name; -1 without positions"),
        OrderField(name="pos", type="bigint", meaning="place in that file; -1 without positions"),
        OrderField(name="xoffset", type="bigint", meaning="number of the row in its transaction"),
        OrderField(name="offset", type="bigint", meaning="offset in Kafka, where the archive keeps it; -1 without"),
    ),
    images=RowImage.FULL,
    marks=EventMarks(
        snapshot="type bootstrap-insert",
        delete="type delete",
        key_change="an update with a key column in 'old'",
        truncate="not at all",
        ddl="types table-create, table-alter, table-drop, database-*, if output_ddl=true",
    ),
    statements=MYSQL,
    lossy=(
        LossySetting(
            name="output_binlog_position",
            safe=("true",),
            default="false",
            loses="Without positions, only offsets in Kafka order the changes, if the archive keeps them; a restart resets xid.",
            remedy="Set output_binlog_position=true and output_xoffset=true in Maxwell.",
        ),
        LossySetting(
            name="output_xoffset",
            safe=("true",),
            default="false",
            loses="Without it, several changes of a row in one transaction may have the same position.",
            remedy="Set output_xoffset=true in Maxwell.",
        ),
        LossySetting(
            name="ignore_producer_error",
            safe=("false",),
            default="true",
            loses="Maxwell skips records that Kafka refuses; only Maxwell's log shows it.",
            remedy="Set ignore_producer_error=false in Maxwell.",
        ),
        *left_alone(
            "Maxwell",
            ("output_nulls", "true", "Maxwell omits NULL columns; they look like unchanged columns."),
            ("output_commit_info", "true", "Without its mark the last row of a transaction stands before the others."),
            ("output_null_zerodates", "false", "Maxwell writes 0000-00-00 as NULL, so 'zero_dates' has no effect."),
            ("output_naming_strategy", "none", "Maxwell renames columns."),
            ("exclude_columns", "", "Maxwell excludes columns from all records."),
            ("javascript", "", "The filter drops or changes rows."),
        ),
        NO_TRUNCATE,
        CUT_FRACTIONS,
        ENUM_ERRORS,
        FULL_ROW_IMAGE,
    ),
    unreadable={
        LogicalType.GEOMETRY: "Maxwell writes geometries as text, without their SRID.",
        LogicalType.VECTOR: "Maxwell does not write vectors as bytes.",
    },
    local_instants=True,
)


_ELEMENT: Final = OrderField(name="element", type="int", meaning="number of the row in the message")

CANAL: Final = FormatSpec(
    name="canal",
    tool="Canal",
    order=(OrderField(name="offset", type="bigint", meaning="offset in Kafka: records without one are bad"), _ELEMENT),
    images=RowImage.FULL,
    marks=EventMarks(
        snapshot="not at all",
        delete="type DELETE with the row before",
        key_change="an UPDATE with a key column in 'old'",
        truncate="isDdl with type TRUNCATE",
        ddl="isDdl with the statement",
    ),
    statements=MYSQL,
    lossy=(
        FULL_ROW_IMAGE,
        *left_alone(
            "Canal",
            ("canal.instance.tsdb.enable", "true", "Canal reads events from before an ALTER with the current columns."),
            ("canal.instance.filter.table.error", "false", "Canal skips events of tables whose columns it cannot find."),
            ("canal.instance.filter.query.ddl", "false", "Canal skips statements, also TRUNCATE: truncated rows stay in the lake."),
            ("canal.instance.filter.rows", "false", "Canal skips row changes."),
            ("canal.instance.filter.dml.insert", "false", "Inserts are left out."),
            ("canal.instance.filter.dml.update", "false", "Updates are left out."),
            ("canal.instance.filter.dml.delete", "false", "Canal skips deletes."),
        ),
    ),
    unreadable=dict.fromkeys((LogicalType.GEOMETRY, LogicalType.VECTOR), "Canal's text of its bytes is not documented."),
    local_instants=True,
    one_order=False,
)
TICDC: Final = replace(
    CANAL,
    name="ticdc-canal",
    tool="TiCDC",
    order=(
        OrderField(name="commit_ts", type="bigint", meaning="when the transaction committed, by TiDB's one clock"),
        OrderField(name="offset", type="bigint", meaning="offset in Kafka, where the archive keeps it; -1 without"),
        _ELEMENT,
    ),
    lossy=left_alone(
        "TiCDC",
        ("large-message-handle-option", "none", "TiCDC sends only the key of messages that are too large, or the location of the rest."),
        ("sink.only-output-updated-columns", "false", "Updates have only the columns that changed."),
        ("filter.event-filters", "", "A filter drops events."),
    ),
    one_order=True,
)


DTS_JSON: Final = FormatSpec(
    name="dts-json",
    tool="Alibaba Cloud DTS",
    order=(
        OrderField(name="streamed", type="tinyint", meaning="0 for rows of the full load, which are older than all changes"),
        OrderField(name="record_id", type="bigint", meaning="recordID: the number of the record in the stream"),
    ),
    images=RowImage.FULL,
    marks=EventMarks(
        snapshot="recordType INIT",
        delete="recordType DELETE with beforeImages",
        key_change="an UPDATE whose images differ in the key",
        truncate="recordType DDL with the statement",
        ddl="recordType DDL with the statement",
    ),
    statements=MYSQL,
    lossy=(FULL_ROW_IMAGE,),
    unreadable=dict.fromkeys(
        (LogicalType.BINARY, LogicalType.GEOMETRY, LogicalType.VECTOR), "The parser writes bytes as text in an unknown encoding."
    ),
    local_instants=True,
)


DTS_AVRO: Final = replace(
    DTS_JSON,
    name="dts-avro",
    order=(DTS_JSON.order[0], OrderField(name="record_id", type="bigint", meaning="id: the number of the record in the stream")),
    images=RowImage.PARTIAL,
    marks=replace(
        DTS_JSON.marks,
        snapshot="operation INIT",
        delete="operation DELETE with beforeImages",
        truncate="operation DDL with the statement",
        ddl="operation DDL with the statement",
    ),
    statements=MYSQL,
    unreadable=dict.fromkeys((LogicalType.GEOMETRY, LogicalType.VECTOR), "How DTS writes their bytes is not documented."),
    local_instants=False,
    files=FileKind(container=Container.AVRO),
)


GOLDENGATE: Final = FormatSpec(
    name="goldengate-json",
    tool="Oracle GoldenGate",
    order=(OrderField(name="pos", type="decimal(36,0)", meaning="number of the trail file and place in it, 20 digits or more"),),
    images=RowImage.PARTIAL,
    marks=EventMarks(
        snapshot="not at all: an initial load comes as inserts",
        delete="op_type D with the row before, or its key",
        key_change="an op_type U whose images differ in the key",
        truncate="op_type T, if GETTRUNCATES is set",
        ddl="not at all: only the columns of later records differ",
    ),
    lossy=(
        LossySetting(
            name="GETTRUNCATES",
            safe=("true",),
            default="false",
            loses="By default, Extract skips TRUNCATE, so truncated rows would stay in the lake.",
            remedy="Set GETTRUNCATES in Extract and in Replicat.",
        ),
        LossySetting(
            name="GETUPDATEBEFORES",
            safe=("true",),
            default="false",
            loses="An update without a before image does not show a changed key: the row of the old key stays in the lake.",
            remedy="Set GETUPDATEBEFORES in Extract (or LOGALLSUPCOLS with both images).",
        ),
        LossySetting(
            name="includePosition",
            safe=("true",),
            default="true",
            loses="Without 'pos' the changes have no order, and every record is bad.",
            remedy="Set gg.handler.<name>.format.includePosition=true.",
        ),
        LossySetting(
            name="omitNullValues",
            safe=("false",),
            default="false",
            loses="A column that became NULL looks like an unchanged column.",
            remedy="Set gg.handler.<name>.format.omitNullValues=false.",
        ),
    ),
    unreadable=dict.fromkeys(
        (
            *(LogicalType.BINARY, LogicalType.BIT, LogicalType.BIT_TEXT, LogicalType.VARBIT, LogicalType.GEOMETRY, LogicalType.VECTOR),
            *(
                LogicalType.SHAPE,
                LogicalType.INTERVAL,
                LogicalType.MONEY,
                LogicalType.ARRAY,
                LogicalType.BENT_ARRAY,
                LogicalType.ZONED_TIME,
            ),
        ),
        "How GoldenGate spells its values as JSON is not documented.",
    ),
    local_instants=True,
)


HUDI: Final = FormatSpec(
    name="hudi-cdc",
    tool="Hudi",
    order=(OrderField(name="instant", type="bigint", meaning="ts_ms: the commit's instant, yyyyMMddHHmmssSSS"),),
    images=RowImage.FULL,
    marks=EventMarks(
        snapshot="not at all",
        delete="op d with the row before",
        key_change="not at all: record keys do not change",
        truncate="not at all: rows are deleted one by one",
        ddl="not at all: only the columns of later records differ",
    ),
    unreadable=dict.fromkeys(
        (LogicalType.BINARY, LogicalType.GEOMETRY, LogicalType.VECTOR, LogicalType.BIT),
        "The query writes bytes as text in an unknown encoding.",
    ),
    local_instants=True,
    names_table=False,
)
