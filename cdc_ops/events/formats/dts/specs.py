"""The declared properties of the formats of Alibaba Cloud DTS. Pure."""

from dataclasses import replace
from typing import Final

from cdc_ops.core.events.format_spec import MYSQL, Container, EventMarks, FileKind, FormatSpec, OrderField, RowImage
from cdc_ops.core.formats.known_losses import FULL_ROW_IMAGE
from cdc_ops.core.schema.declared_tables import TypeDialect
from cdc_ops.core.schema.logical_types import LogicalType

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
        statements=MYSQL,
    ),
    dialect=TypeDialect.MYSQL,
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
    unreadable=dict.fromkeys((LogicalType.GEOMETRY, LogicalType.VECTOR), "How DTS writes their bytes is not documented."),
    local_instants=False,
    files=FileKind(container=Container.AVRO),
)

SPECS: Final = (DTS_JSON, DTS_AVRO)
