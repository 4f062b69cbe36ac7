"""What is done about a table that was copied and that the source does not show any more. Pure."""

import enum


class DroppedTables(enum.StrEnum):
    """What a run does about a table that the lake has and the source no longer shows."""

    ALERT = "alert"
    """The first run that notices raises an alert; later ones show it as a state."""
    FAIL = "fail"
    """Every run of the table fails until it is back, or its entry is changed."""
    IGNORE = "ignore"
    """It is shown as a state, and that is all."""
