"""What a plan warns of that is neither the cursor's nor the archive's: changes by others, and keys that are compared loosely."""

from cdc_ops.core.commits import LakeHead
from cdc_ops.core.pipeline import Method
from cdc_ops.core.runs import TableState
from cdc_ops.steps.orders import TableFacts

SHOWN_CHANGES = 3
"""Commits by others that a warning names."""


def foreign_warnings(head: LakeHead | None) -> tuple[str, ...]:
    """Says which commits by others have changed rows of the table since our last one; they are told until our next one."""
    changes = [change for change in head.foreign_changes if not change.undoes_commits] if head else []
    if not changes:
        return ()
    listed = ", ".join(f"{change.operation} in Delta version {change.version}" for change in changes[:SHOWN_CHANGES])
    more = f" and {len(changes) - SHOWN_CHANGES} more" if len(changes) > SHOWN_CHANGES else ""
    return (
        f"rows of the Delta table were changed by others: {listed}{more}; increments do not see it: cdc-ops verify finds what differs,"
        " and a resync brings it back",
    )


def key_warnings(facts: TableFacts, state: TableState) -> tuple[str, ...]:
    """Warns, until the first load is done, of key columns in which the source holds texts for equal that the lake tells apart.

    Not where rows follow events: one of a key that is written otherwise names the old spelling too, and takes its row away.
    """
    if state.watermark is not None or facts.config.settings.method is Method.LOG:
        return ()
    columns = (column for key in facts.keys if (column := facts.schema.column(key)) is not None and column.loose)
    return tuple(
        f"Key column {column.name!r} of {facts.config.table} is compared loosely at the source ({column.loose}), and exactly in the lake:"
        " an update that only changes how a key is written (case, accents, spaces at its end) leaves the row under its old spelling too."
        " 'cdc-ops verify' finds such rows, a resync with --mode full removes them."
        for column in columns
    )
