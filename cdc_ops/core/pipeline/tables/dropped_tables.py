"""The policy for a copied table that the source no longer shows. Pure."""

import enum


class DroppedTables(enum.StrEnum):
    """The policy of a run for a table that the lake has and the source no longer shows."""

    ALERT = "alert"
    """The first run that finds it raises an alert; later runs show it as a state."""
    FAIL = "fail"
    """Every run of the table fails until the table is back, or its entry changes."""
    IGNORE = "ignore"
    """Runs only show it as a state."""
