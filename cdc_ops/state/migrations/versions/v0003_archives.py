"""Archives: files with what they hold, what the last listing leaves for the next, gaps and who accepted them."""

from typing import Any

import sqlalchemy as sa
from alembic import op

from cdc_ops.state.db.schema import MYSQL, LongText, UtcDateTime

revision = "0003"
down_revision = "0002"

KEY = ("pipeline", "table_schema", "table_name")


def upgrade() -> None:
    """Creates the tables for files, listing marks and gaps of archives, each if it is not there."""
    _create_table(
        "cdc_archive_files",
        sa.Column("path_hash", sa.String(64), nullable=False),
        sa.Column("status", sa.String(16), nullable=False),
        sa.Column("operation_id", sa.String(64), nullable=False),
        sa.Column("body", LongText, nullable=False),
        sa.PrimaryKeyConstraint(*KEY, "path_hash", name="pk_cdc_archive_files"),
    )
    _create_index("ix_cdc_archive_files_status", "cdc_archive_files", *KEY, "status")
    _create_index("ix_cdc_archive_files_operation", "cdc_archive_files", "operation_id")
    _create_table(
        "cdc_archive_marks",
        sa.Column("body", LongText, nullable=False),
        sa.PrimaryKeyConstraint(*KEY, name="pk_cdc_archive_marks"),
    )
    _create_table(
        "cdc_archive_gaps",
        sa.Column("gap_id", sa.String(64), nullable=False),
        sa.Column("status", sa.String(16), nullable=False),
        sa.Column("found_at", UtcDateTime, nullable=False),
        sa.Column("body", LongText, nullable=False),
        sa.PrimaryKeyConstraint(*KEY, "gap_id", name="pk_cdc_archive_gaps"),
    )
    _create_index("ix_cdc_archive_gaps_status", "cdc_archive_gaps", "pipeline", "status")


def _create_table(name: str, *items: sa.Column[Any] | sa.Constraint) -> None:
    # MySQL commits at every CREATE: a migration that was cut off is begun again.
    if not sa.inspect(op.get_bind()).has_table(name):
        key = (sa.Column(part, sa.String(128), nullable=False) for part in KEY)
        of_table = sa.ForeignKeyConstraint(KEY, [f"cdc_tables.{part}" for part in KEY], name=f"fk_{name}_table")
        op.create_table(name, *key, *items, of_table, **MYSQL)


def _create_index(name: str, table: str, *columns: str) -> None:
    if name not in {index["name"] for index in sa.inspect(op.get_bind()).get_indexes(table)}:
        op.create_index(name, table, list(columns))
