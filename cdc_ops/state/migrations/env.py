"""Alembic's entry: runs the migrations on the connection that `cdc_ops.state.migrate` has locked."""

from alembic import context

from cdc_ops.state.db.schema import VERSION_TABLE, metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    version_table=VERSION_TABLE,
    render_as_batch=True,  # SQLite alters a column only by copying the table
)
with context.begin_transaction():
    context.run_migrations()
