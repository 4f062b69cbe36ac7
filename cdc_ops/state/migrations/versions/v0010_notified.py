"""What Airflow and receivers were notified of: two tables and a status get the names that the code and the docs use."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"

RENAMED = {"cdc_told_alerts": "cdc_notified_alerts", "cdc_told_files": "cdc_notified_files"}


def upgrade() -> None:
    """Renames the tables with all their rows."""
    for old, new in RENAMED.items():
        _rename(old, new)
    files = sa.table("cdc_notified_files", sa.column("status", sa.String))
    op.execute(sa.update(files).where(files.c.status == "told").values(status="notified"))


def _rename(old: str, new: str) -> None:
    # MySQL commits at every ALTER: a migration that was cut off is begun again.
    connection = op.get_bind()
    known = sa.inspect(connection)
    if not known.has_table(old):
        return
    is_empty = connection.scalar(sa.select(sa.func.count()).select_from(sa.table(old))) == 0
    if known.has_table(new) and is_empty:  # the chain was begun again from its start, which created the old table anew
        op.drop_table(old)
        return
    op.rename_table(old, new)
    if connection.dialect.name == "postgresql":  # SQLite keeps the key's name in the table's text; MySQL names every key PRIMARY
        op.execute(f"ALTER TABLE {new} RENAME CONSTRAINT pk_{old} TO pk_{new}")
