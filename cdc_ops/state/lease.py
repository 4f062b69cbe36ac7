"""Leases as values: who may write a table, until when."""

from dataclasses import dataclass
from datetime import datetime

from cdc_ops.core.processes import holder_name
from cdc_ops.core.schema.tables import TableName


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """The right to write one table.

    Args:
        pipeline, table: Which.
        holder: Who, e.g. `airflow:cdc_shop:scheduled__2026-01-01T00:00` or `cli:host:pid:uuid`, which ends in the identity of its process
            (`core.processes`).
        token: Fencing number, larger than any earlier one of this table.
        expires_at: By the ledger database's clock, UTC.
        purpose: What for, shown to those who wait.
        instead_of: Who held it when it was taken, and is certain to have ended; "" if it was free.
    """

    pipeline: str
    table: TableName
    holder: str
    token: int
    expires_at: datetime
    purpose: str = ""
    instead_of: str = ""

    @property
    def holder_name(self) -> str:
        """The holder as people read it."""
        return holder_name(self.holder)
