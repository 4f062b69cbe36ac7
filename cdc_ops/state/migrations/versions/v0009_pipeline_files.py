"""The pipeline files that runs have worked by."""

import sqlalchemy as sa
from alembic import op

from cdc_ops.state.db.schema import MYSQL, LongText, UtcDateTime

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    """Creates the table, if it is not there."""
    # MySQL commits at every CREATE: a migration that was cut off is begun again.
    if not sa.inspect(op.get_bind()).has_table("cdc_pipeline_files"):
        op.create_table(
            "cdc_pipeline_files",
            sa.Column("pipeline", sa.String(128), nullable=False),
            sa.Column("number", sa.Integer, nullable=False, autoincrement=False),
            sa.Column("digest", sa.String(64), nullable=False),
            sa.Column("text", LongText, nullable=False),
            sa.Column("run_id", sa.String(250), nullable=False),
            sa.Column("since", UtcDateTime, nullable=False),
            sa.PrimaryKeyConstraint("pipeline", "number", name="pk_cdc_pipeline_files"),
            **MYSQL,
        )
