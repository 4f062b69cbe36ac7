"""What the ledger knows of a pipeline, all of it, goes at once: for pipelines that are gone. A later run of it finds a lost ledger."""

from typing import Final

from sqlalchemy import Connection, delete, select, union

from cdc_ops.core.schema.tables import TableName
from cdc_ops.state.db import leases
from cdc_ops.state.db.schema import KEY, metadata, tables
from cdc_ops.state.lease import Lease
from cdc_ops.state.processes import holder_is_gone

_OF_PIPELINES: Final = tuple(table for table in reversed(metadata.sorted_tables) if "pipeline" in table.c)
"""All tables with rows of pipelines, those that refer to others first."""


def forget(connection: Connection, pipeline: str) -> tuple[TableName, ...] | Lease:
    """Removes everything of a pipeline, and returns its tables; if a run holds one of them, removes nothing and returns its lease."""
    rows = connection.execute(select(tables).where(tables.c.pipeline == pipeline).order_by(*KEY).with_for_update()).all()
    now = leases.clock(connection)
    for row in rows:
        if row.holder and row.expires_at > now and not holder_is_gone(row.holder):
            return leases.lease_of(row)
    for table in _OF_PIPELINES:
        connection.execute(delete(table).where(table.c.pipeline == pipeline))
    return tuple(TableName(schema=row.table_schema, name=row.table_name) for row in rows)


def pipelines(connection: Connection) -> tuple[str, ...]:
    """Returns the names of all pipelines of which something is known, sorted."""
    roots = (table for table in _OF_PIPELINES if not table.foreign_keys)  # the rows of all others hang on one of these, and are many
    return tuple(sorted(connection.scalars(union(*(select(table.c.pipeline) for table in roots)))))
