"""The paths of a table's files other than its Delta table: quarantine, tombstones, staging, history. Pure."""

from cdc_ops.core.events.event_history import EventHistory, generation_path
from cdc_ops.core.pipeline.pipeline import Pipeline, TableConfig
from cdc_ops.core.schema.tables import TableName, folder_name


def quarantine_root(pipeline: Pipeline) -> str:
    """Returns the folder of all quarantines of a pipeline."""
    return f"{pipeline.target.root.rstrip('/')}/_cdc_quarantine/{pipeline.name}"


def quarantine_path(pipeline: Pipeline, table: TableName) -> str:
    """Returns the path of the Delta table with a table's quarantined records."""
    return f"{quarantine_root(pipeline)}/{table.folder}"


def tombstones_path(pipeline: Pipeline, table: TableName) -> str:
    """Returns the path of the Delta table with a table's tombstones."""
    return f"{pipeline.target.root.rstrip('/')}/_cdc_tombstones/{pipeline.name}/{table.folder}"


def staging_root(pipeline: Pipeline, table: TableName) -> str:
    """Returns the folder of a table's staging area."""
    return f"{pipeline.target.staging.rstrip('/')}/{pipeline.name}/{folder_name(str(table))}"


def history_root(pipeline: Pipeline, table: TableName) -> str:
    """Returns the folder of a table's event history."""
    return f"{pipeline.target.root.rstrip('/')}/_cdc_events/{pipeline.name}/{table.folder}"


def event_history(pipeline: Pipeline, config: TableConfig, generation: int) -> EventHistory | None:
    """Returns the location of a table's event history, None if it has none."""
    if not config.settings.history.event_history:
        return None
    root = history_root(pipeline, config.table)
    path = generation_path(root, max(generation, 1))
    return EventHistory(root=root, path=path, retention=config.settings.history.event_history_retention)
