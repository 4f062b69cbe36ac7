"""Known losses that several tools share."""

from typing import Final

from cdc_ops.core.events.format_spec import ColumnFilter, LossySetting, Where
from cdc_ops.core.schema.logical_types import LogicalType

FULL_ROW_IMAGE: Final = LossySetting(
    name="binlog_row_image",
    safe=("FULL",),
    default="FULL",
    loses="Under MINIMAL and NOBLOB inserts leave out columns that took their default, and updates of a key leave out the others.",
    remedy="Set binlog_row_image=FULL at the server, for all sessions.",
    where=Where.SERVER,
)

NO_TRUNCATE: Final = LossySetting(
    name="truncate",
    safe=(),
    default="dropped",
    loses="The tool writes no event for TRUNCATE: the rows stay in the lake until a resync or a reconcile.",
    remedy="Do not truncate the table, or resync it afterwards.",
    where=Where.NOWHERE,
)

ENUM_ERRORS: Final = LossySetting(
    name="enum_errors",
    safe=("none",),
    default="null",
    loses="The error value of an ENUM, '' with the number 0, which a session without strict mode stores for texts that are no label, comes"
    " as NULL.",
    remedy="Use a strict sql_mode in all sessions, correct the rows that have '', and set 'enum_errors: none'.",
    families=(LogicalType.ENUM,),
    where=Where.NOWHERE,
)


def left_alone(tool: str, *settings: tuple[str, str, str]) -> tuple[LossySetting, ...]:
    """Returns settings of which only the default loses no data.

    Args:
        tool: Whose they are.
        settings: Of each its name, its default, and what is lost under others.
    """
    return tuple(
        LossySetting(
            name=name,
            safe=(default,),
            default=default,
            loses=loses,
            remedy=f"Leave {name} of {tool} {f'at its default, {default}' if default else 'unset'}.",
        )
        for name, default, loses in settings
    )


CUT_FRACTIONS: Final = LossySetting(
    name="fractions",
    where=Where.NOWHERE,
    safe=("kept",),
    default="cut",
    loses="The tool drops fractions of seconds (seen with Maxwell 1.22.6).",
    remedy="Use a version that keeps them, and set 'fractions: kept'.",
    families=(LogicalType.WALL_CLOCK, LogicalType.INSTANT, LogicalType.MOMENT_TEXT, LogicalType.TIME),
    only=ColumnFilter(only_fractions=True),
)
