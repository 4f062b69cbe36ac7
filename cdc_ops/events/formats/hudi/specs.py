"""The declared properties of the format of Hudi's change query. Pure."""

from typing import Final

from cdc_ops.core.events.format_spec import EventMarks, FormatSpec, OrderField, RowImage
from cdc_ops.core.schema.logical_types import LogicalType

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

SPECS: Final = (HUDI,)
