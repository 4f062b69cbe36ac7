"""Where a pipeline keeps what belongs to a table beside its Delta table. Pure."""

from cdc_ops.core.history import EventHistory, generation_path
from cdc_ops.core.pipeline import Pipeline, TableConfig
from cdc_ops.core.tables import TableName


def history_root(pipeline: Pipeline, table: TableName) -> str:
    """Returns the folder of a table's event history."""
    return f"{pipeline.target.root.rstrip('/')}/_cdc_events/{pipeline.name}/{table.schema}/{table.name}"


def event_history(pipeline: Pipeline, config: TableConfig, generation: int) -> EventHistory | None:
    """Returns where the events of a table are kept, None if they are not."""
    if not config.settings.event_history:
        return None
    root = history_root(pipeline, config.table)
    path = generation_path(root, max(generation, 1))
    return EventHistory(root=root, path=path, retention=config.settings.event_history_retention)
