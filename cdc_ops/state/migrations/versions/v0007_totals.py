"""Sums over all runs, which stay when lines of old runs are forgotten."""

import sqlalchemy as sa
from alembic import op

from cdc_ops.state.db.schema import MYSQL, UtcDateTime, runs

revision = "0007"
down_revision = "0006"

_KEY = ("pipeline", "table_schema", "table_name")
_COUNTS = (
    *("committed_runs", "idle_runs", "failed_runs"),
    *("read_rows", "inserted_rows", "updated_rows", "deleted_rows", "late_rows", "quarantined_records", "written_bytes"),
    *("asked", "granted", "refused", "timed_out", "withdrawn"),
)


def upgrade() -> None:
    """Creates the table, if it is not there. Sums begin at 0; only when tables last succeeded is taken from the runs that are known."""
    # MySQL commits at every CREATE: a migration that was cut off is begun again.
    if not sa.inspect(op.get_bind()).has_table("cdc_totals"):
        op.create_table(
            "cdc_totals",
            *(sa.Column(name, sa.String(128), nullable=False) for name in _KEY),
            *(sa.Column(name, sa.BigInteger, nullable=False, server_default="0") for name in _COUNTS),
            sa.Column("run_seconds", sa.Double, nullable=False, server_default="0"),
            sa.Column("succeeded_at", UtcDateTime),
            sa.PrimaryKeyConstraint(*_KEY, name="pk_cdc_totals"),
            **MYSQL,
        )
    totals = sa.table("cdc_totals", *(sa.column(name) for name in (*_KEY, "succeeded_at")))
    keys = [runs.c[name] for name in _KEY]
    succeeded = sa.select(*keys, sa.func.max(runs.c.started_at)).where(runs.c.status.in_(("committed", "idle"))).group_by(*keys)
    op.execute(sa.delete(totals))
    op.execute(sa.insert(totals).from_select([*_KEY, "succeeded_at"], succeeded))
