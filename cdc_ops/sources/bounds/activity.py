"""The activity of a source database at one moment: clock, open writers, and the lag behind its primary."""

from dataclasses import dataclass
from datetime import datetime, timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class Writer:
    """A transaction or statement that may still commit rows with an old NOW().

    Args:
        connection: The server's connection id; 0 if there is none (a prepared transaction, which may have had one before).
        transaction: InnoDB's transaction id, "" while it has none.
        started: UTC, not later than any NOW() that it has used.
        label: Who and what, for messages; never the statement, which can hold data.
        start_known: False for a prepared transaction that outlived a restart of the server.
        hint: The statements with which to look at it and to end it, for messages.
    """

    connection: int
    transaction: str
    started: datetime
    label: str
    start_known: bool = True
    hint: str = ""

    def is_same(self, later: "Writer") -> bool:
        """True unless a later observation is surely another transaction than this one."""
        if self.connection != later.connection and later.connection:
            return False
        if self.transaction and later.transaction:
            return self.transaction == later.transaction
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerActivity:
    """The activity of a server at one moment.

    Args:
        now: The server's clock before anything else was read, UTC.
        writers: Who may still commit; empty and meaningless if not `complete`.
        complete: False if the user lacks the privilege to see others.
        account: The user's account as the server knows it, for the GRANT to name.
        nodes: How many servers were asked; their clocks and writers are in this one value.
    """

    now: datetime
    writers: tuple[Writer, ...]
    complete: bool
    account: str
    nodes: int = 1

    @property
    def oldest(self) -> Writer | None:
        """The writer that started first."""
        return min(self.writers, key=lambda writer: writer.started, default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaState:
    """A replica's lag behind its primary, as far as it knows.

    Args:
        lag: Age of what it applies now, rounded up.
        certain: False if the user may not ask and the server is only suspected to be a replica.
        declared: What the source is, if its lag is not known but declared by the pipeline.
    """

    lag: timedelta
    certain: bool = True
    declared: str = ""

    def warning(self, lookback: timedelta) -> str:
        """Returns the warning about the limits of a replica."""
        if self.declared:
            return (
                f"The source is {self.declared}: who still writes its rows is not known. Windows stay {self.lag.total_seconds():g} s"
                " ('replication_lag') and 'lookback' behind the clock; a row that appears later than that is read late."
            )
        kind = (
            "The source is a replica"
            if self.certain
            else "The source is read-only, so probably a replica (the user lacks the privilege to check)"
        )
        return (
            f"{kind}: it does not show transactions that are open on its primary. Windows stay its lag and {lookback.total_seconds():g} s "
            "behind the clock; a transaction that stays open longer can be read late. Raise 'lookback', or connect to the primary."
        )
