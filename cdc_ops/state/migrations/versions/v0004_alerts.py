"""Alerts: what runs and verifications found, and what each receiver has been told."""

from typing import Any

import sqlalchemy as sa
from alembic import op

from cdc_ops.state.db.schema import MYSQL, LongText, UtcDateTime

revision = "0004"
down_revision = "0003"

KEY = ("pipeline", "table_schema", "table_name", "kind", "detail")


def upgrade() -> None:
    """Creates the tables for findings and for what was told, each if it is not there."""
    _create_table(
        "cdc_findings",
        sa.Column("found_at", UtcDateTime, nullable=False),
        sa.Column("body", LongText, nullable=False),
        sa.PrimaryKeyConstraint(*KEY, name="pk_cdc_findings"),
    )
    _create_table(
        "cdc_told_alerts",
        sa.Column("receiver", sa.String(64), nullable=False),
        sa.Column("body", LongText, nullable=False),
        sa.PrimaryKeyConstraint(*KEY, "receiver", name="pk_cdc_told_alerts"),
    )


def _create_table(name: str, *items: sa.Column[Any] | sa.Constraint) -> None:
    # MySQL commits at every CREATE: a migration that was cut off is begun again.
    if not sa.inspect(op.get_bind()).has_table(name):
        lengths = {"kind": 32, "detail": 32}
        key = (sa.Column(part, sa.String(lengths.get(part, 128)), nullable=False) for part in KEY)
        op.create_table(name, *key, *items, **MYSQL)
