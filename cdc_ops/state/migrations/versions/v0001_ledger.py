"""The ledger: tables with state and lease, waiting live runs, operations, runs."""

from typing import Any

import sqlalchemy as sa
from alembic import op

from cdc_ops.state.db.schema import MYSQL, LongText, UtcDateTime

revision = "0001"
down_revision = None

KEY = ("pipeline", "table_schema", "table_name")


def upgrade() -> None:
    """Creates the tables of the ledger and their indexes, each if it is not there."""
    _create_table(
        "cdc_tables",
        sa.Column("state", LongText),
        sa.Column("stats", LongText),
        sa.Column("token", sa.BigInteger, nullable=False),
        sa.Column("holder", sa.String(600), nullable=False),
        sa.Column("purpose", sa.Text, nullable=False),
        sa.Column("expires_at", UtcDateTime),
        sa.PrimaryKeyConstraint(*KEY, name="pk_cdc_tables"),
    )
    _create_table(
        "cdc_lease_waiters",
        sa.Column("waiter", sa.String(64), nullable=False),
        sa.Column("holder", sa.String(600), nullable=False),
        sa.Column("until", UtcDateTime, nullable=False),
        sa.PrimaryKeyConstraint(*KEY, "waiter", name="pk_cdc_lease_waiters"),
        _of_table("fk_cdc_lease_waiters_table"),
    )
    _create_operations()
    _create_runs()


def _create_operations() -> None:
    _create_table(
        "cdc_operations",
        sa.Column("operation_id", sa.String(64), nullable=False),
        sa.Column("op_seq", sa.BigInteger, nullable=False),
        sa.Column("status", sa.String(16), nullable=False),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("spec", LongText, nullable=False),
        sa.Column("result", LongText),
        sa.Column("frozen_at", UtcDateTime, nullable=False),
        sa.Column("settled_at", UtcDateTime),
        sa.PrimaryKeyConstraint("operation_id", name="pk_cdc_operations"),
        _of_table("fk_cdc_operations_table"),
    )
    _create_index("ix_cdc_operations_status", "cdc_operations", *KEY, "status", "op_seq")


def _create_runs() -> None:
    _create_table(
        "cdc_table_runs",
        sa.Column("run_id", sa.String(250), nullable=False),
        sa.Column("status", sa.String(16), nullable=False),
        sa.Column("started_at", UtcDateTime, nullable=False),
        sa.Column("body", LongText, nullable=False),
        sa.PrimaryKeyConstraint(*KEY, "run_id", name="pk_cdc_table_runs"),
        _of_table("fk_cdc_table_runs_table"),
    )
    _create_index("ix_cdc_table_runs_table", "cdc_table_runs", *KEY, "started_at")
    _create_index("ix_cdc_table_runs_pipeline", "cdc_table_runs", "pipeline", "started_at")
    _create_index("ix_cdc_table_runs_run", "cdc_table_runs", "run_id", "started_at")
    _create_index("ix_cdc_table_runs_started", "cdc_table_runs", "started_at")


def _create_table(name: str, *items: sa.Column[Any] | sa.Constraint) -> None:
    if not sa.inspect(op.get_bind()).has_table(name):
        key = (sa.Column(part, sa.String(128), nullable=False) for part in KEY)
        op.create_table(name, *key, *items, **MYSQL)


def _create_index(name: str, table: str, *columns: str) -> None:
    if name not in {index["name"] for index in sa.inspect(op.get_bind()).get_indexes(table)}:
        op.create_index(name, table, list(columns))


def _of_table(name: str) -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint(KEY, [f"cdc_tables.{part}" for part in KEY], name=name)
