"""Rows that runs have written, as a column in an index: the sum of a day reads no line of a run."""

import sqlalchemy as sa
from alembic import op

from cdc_ops.state.db.schema import LongText

revision = "0008"
down_revision = "0007"

RUNS = "cdc_table_runs"
COLUMN = "rows_written"
INDEX, BEFORE = "ix_cdc_table_runs_written", "ix_cdc_table_runs_pipeline"


def upgrade() -> None:
    """Adds the column and fills it from the lines; its index takes the place of the one that lacks it."""
    # MySQL commits at every ALTER and CREATE: a migration that was cut off is begun again.
    known = sa.inspect(op.get_bind())
    if COLUMN not in {column["name"] for column in known.get_columns(RUNS)}:
        with op.batch_alter_table(RUNS) as table:
            table.add_column(sa.Column(COLUMN, sa.BigInteger, nullable=False, server_default="0"))
    _fill()
    indexes = {index["name"] for index in known.get_indexes(RUNS)}
    if INDEX not in indexes:
        op.create_index(INDEX, RUNS, ["pipeline", "started_at", COLUMN])
    if BEFORE in indexes:
        op.drop_index(BEFORE, RUNS)


def _fill() -> None:
    """Takes the counts from the JSON of the lines that committed; only Postgres has to be told that their text is JSON."""
    connection = op.get_bind()
    runs = sa.table(RUNS, sa.column("status", sa.String), sa.column("body", LongText), sa.column(COLUMN, sa.BigInteger))
    body = sa.cast(runs.c.body, sa.JSON) if connection.dialect.name == "postgresql" else sa.type_coerce(runs.c.body, sa.JSON)
    members = (body[("counts", name)].as_string() for name in ("inserted", "updated", "deleted"))
    counts = [sa.func.coalesce(sa.cast(member, sa.BigInteger), 0) for member in members]
    connection.execute(sa.update(runs).where(runs.c.status == "committed").values({COLUMN: counts[0] + counts[1] + counts[2]}))
