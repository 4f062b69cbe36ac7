"""Alert for a long-running transaction that holds a table's watermark back. Pure."""

from datetime import timedelta

from cdc_ops.core.cursor.windows import SafeBound


def long_transaction_alert(bound: SafeBound, limit: timedelta) -> str:
    """Returns the alert for a transaction that is open longer than `limit`, "" if there is none.

    The bound stays where it is all the same: to pass it would lose the writer's rows. By the source's own clock.
    """
    if bound.held_since is None or bound.observed_at - bound.held_since <= limit:
        return ""
    held = timedelta(seconds=int((bound.observed_at - bound.held_since).total_seconds()))
    hint = f" {bound.held_hint}" if bound.held_hint else ""
    return (
        f"The watermark has been held back for {held} by {bound.held_by}, longer than 'long_transaction_alert' ({limit}). Changes "
        f"since {bound.held_since:%Y-%m-%d %H:%M:%S} UTC reach the lake only after that transaction ends.{hint}"
    )
