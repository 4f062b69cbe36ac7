"""Approvals: what runs asked a person for, and who decided what."""

import sqlalchemy as sa
from alembic import op

from cdc_ops.state.db.schema import MYSQL, LongText, UtcDateTime

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Creates the table and its indexes, each if it is not there."""
    found = sa.inspect(op.get_bind())
    if not found.has_table("cdc_approvals"):  # MySQL commits at every CREATE: a migration that was cut off is begun again
        op.create_table(
            "cdc_approvals",
            sa.Column("approval_id", sa.String(64), nullable=False),
            sa.Column("pipeline", sa.String(128), nullable=False),
            sa.Column("table_schema", sa.String(128), nullable=False),
            sa.Column("table_name", sa.String(128), nullable=False),
            sa.Column("run_id", sa.String(250), nullable=False),
            sa.Column("status", sa.String(16), nullable=False),
            sa.Column("asked_at", UtcDateTime, nullable=False),
            sa.Column("body", LongText, nullable=False),
            sa.PrimaryKeyConstraint("approval_id", name="pk_cdc_approvals"),
            sa.Index("ix_cdc_approvals_table", "pipeline", "table_schema", "table_name", "asked_at"),
            sa.Index("ix_cdc_approvals_asked", "asked_at"),
            **MYSQL,
        )
