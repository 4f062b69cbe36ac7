"""Watchers of archives: the files that Airflow was told of."""

import sqlalchemy as sa
from alembic import op

from cdc_ops.state.db.schema import MYSQL, LongText, UtcDateTime

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """Creates the table, if it is not there."""
    # MySQL commits at every CREATE: a migration that was cut off is begun again.
    if not sa.inspect(op.get_bind()).has_table("cdc_told_files"):
        op.create_table(
            "cdc_told_files",
            sa.Column("pipeline", sa.String(128), nullable=False),
            sa.Column("path_hash", sa.String(64), nullable=False),
            sa.Column("batch", sa.String(32), nullable=False),
            sa.Column("status", sa.String(16), nullable=False),
            sa.Column("until", UtcDateTime, nullable=False),
            sa.Column("body", LongText, nullable=False),
            sa.PrimaryKeyConstraint("pipeline", "path_hash", name="pk_cdc_told_files"),
            **MYSQL,
        )
