"""Known losses that several tools share. Pure."""

from typing import Final

from cdc_ops.core.events.format_spec import LossySetting, Where

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
