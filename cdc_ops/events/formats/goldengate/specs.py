"""The declared properties of the format of Oracle GoldenGate. Pure."""

from typing import Final

from cdc_ops.core.events.format_spec import EventMarks, FormatSpec, LossySetting, OrderField, RowImage
from cdc_ops.core.schema.logical_types import LogicalType

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

SPECS: Final = (GOLDENGATE,)
