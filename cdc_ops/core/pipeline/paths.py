"""Where a pipeline keeps what belongs to a table beside its Delta table. Pure."""

from cdc_ops.core.events.event_history import EventHistory, generation_path
from cdc_ops.core.pipeline.pipeline import Pipeline, TableConfig
from cdc_ops.core.schema.tables import TableName, folder_name


def quarantine_root(pipeline: Pipeline) -> str:
    """Returns the folder of a pipeline's quarantines."""
    return f"{pipeline.target.root.rstrip('/')}/_cdc_quarantine/{pipeline.name}"


def quarantine_path(pipeline: Pipeline, table: TableName) -> str:
    """Returns the path of the Delta table that holds a table's records which cannot be read."""
    return f"{quarantine_root(pipeline)}/{table.folder}"


def tombstones_path(pipeline: Pipeline, table: TableName) -> str:
    """Returns the path of the Delta table that remembers which keys of a table were deleted."""
    return f"{pipeline.target.root.rstrip('/')}/_cdc_tombstones/{pipeline.name}/{table.folder}"


def staging_root(pipeline: Pipeline, table: TableName) -> str:
    """Returns the folder below which a table's operations land."""
    return f"{pipeline.target.staging.rstrip('/')}/{pipeline.name}/{folder_name(str(table))}"


def history_root(pipeline: Pipeline, table: TableName) -> str:
    """Returns the folder of a table's event history."""
    return f"{pipeline.target.root.rstrip('/')}/_cdc_events/{pipeline.name}/{table.folder}"


def event_history(pipeline: Pipeline, config: TableConfig, generation: int) -> EventHistory | None:
    """Returns where the events of a table are kept, None if they are not."""
    if not config.settings.history.event_history:
        return None
    root = history_root(pipeline, config.table)
    path = generation_path(root, max(generation, 1))
    return EventHistory(root=root, path=path, retention=config.settings.history.event_history_retention)
