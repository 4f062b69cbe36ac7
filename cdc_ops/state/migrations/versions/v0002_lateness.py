"""Late rows and alerts of runs, as columns: what somebody who watches the ledger searches by."""

from typing import Any

import sqlalchemy as sa
from alembic import op

from cdc_ops.state.db.schema import LongText

revision = "0002"
down_revision = "0001"

RUNS = "cdc_table_runs"


def upgrade() -> None:
    """Adds columns for late rows, commit lag in seconds and alert to the runs, each if it is not there."""
    _add_column(sa.Column("late_rows", sa.BigInteger, nullable=False, server_default="0"))
    _add_column(sa.Column("max_commit_lag", sa.Double))
    _add_column(sa.Column("alert", LongText))


def _add_column(column: sa.Column[Any]) -> None:
    # MySQL commits at every ALTER: a migration that was cut off is begun again.
    if column.name not in {known["name"] for known in sa.inspect(op.get_bind()).get_columns(RUNS)}:
        with op.batch_alter_table(RUNS) as table:
            table.add_column(column)
