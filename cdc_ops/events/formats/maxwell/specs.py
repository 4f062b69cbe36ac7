"""The declared properties of Maxwell's format. Pure."""

from typing import Final

from cdc_ops.core.events.format_spec import MYSQL, ColumnFilter, EventMarks, FormatSpec, LossySetting, OrderField, RowImage, Where
from cdc_ops.core.formats.known_losses import FULL_ROW_IMAGE, NO_TRUNCATE, left_alone
from cdc_ops.core.schema.declared_tables import TypeDialect
from cdc_ops.core.schema.logical_types import LogicalType

_ENUM_ERRORS: Final = LossySetting(
    name="enum_errors",
    safe=("none",),
    default="null",
    loses="The error value of an ENUM, '' with the number 0, which a session without strict mode stores for texts that are no label, comes"
    " as NULL.",
    remedy="Use a strict sql_mode in all sessions, correct the rows that have '', and set 'enum_errors: none'.",
    families=(LogicalType.ENUM,),
    where=Where.NOWHERE,
)
_CUT_FRACTIONS: Final = LossySetting(
    name="fractions",
    where=Where.NOWHERE,
    safe=("kept",),
    default="cut",
    loses="The tool drops fractions of seconds (seen with Maxwell 1.22.6).",
    remedy="Use a version that keeps them, and set 'fractions: kept'.",
    families=(LogicalType.WALL_CLOCK, LogicalType.INSTANT, LogicalType.MOMENT_TEXT, LogicalType.TIME),
    only=ColumnFilter(only_fractions=True),
)

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
        statements=MYSQL,
    ),
    dialect=TypeDialect.MYSQL,
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
        _CUT_FRACTIONS,
        _ENUM_ERRORS,
        FULL_ROW_IMAGE,
    ),
    unreadable={
        LogicalType.GEOMETRY: "Maxwell writes geometries as text, without their SRID.",
        LogicalType.VECTOR: "Maxwell does not write vectors as bytes.",
    },
    local_instants=True,
)

SPECS: Final = (MAXWELL,)
