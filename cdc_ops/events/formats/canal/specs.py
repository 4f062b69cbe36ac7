"""The declared properties of the formats of Canal and of TiCDC, which writes the same messages. Pure."""

from dataclasses import replace
from typing import Final

from cdc_ops.core.events.format_spec import MYSQL, EventMarks, FormatSpec, OrderField, RowImage
from cdc_ops.core.formats.known_losses import FULL_ROW_IMAGE, left_alone
from cdc_ops.core.schema.declared_tables import TypeDialect
from cdc_ops.core.schema.logical_types import LogicalType

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
        statements=MYSQL,
    ),
    dialect=TypeDialect.MYSQL,
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

SPECS: Final = (CANAL, TICDC)
