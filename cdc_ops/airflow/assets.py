"""Asset events: what a DAG that follows a table is told. One per table that committed, through an alias of the pipeline.

An outlet that is known when the DAG is parsed would get an event from every run, also for tables that are idle or failed; an alias
gets those that are added. A consumer schedules on the same `Asset(name, uri)`, or on the alias for any table of the
pipeline (docs/changes.md). Airflow's asset graph leads from the DAG over the alias to the table.
"""

from collections.abc import Iterable
from pathlib import PurePosixPath
from typing import Any

from airflow.sdk import Asset, AssetAlias

from cdc_ops.core.pipeline.pipeline import TableConfig
from cdc_ops.state.table_run import TableRun


def pipeline_alias(pipeline: str) -> AssetAlias:
    """Returns the alias under which all tables of a pipeline report."""
    return AssetAlias(name=f"cdc/{pipeline}", group="cdc")


def table_asset(config: TableConfig) -> Asset:
    """Returns a table's asset; its name is stable, its URI is where the Delta table lies."""
    uri = PurePosixPath(config.path).as_uri() if config.path.startswith("/") else config.path
    return Asset(name=f"cdc/{config.pipeline}/{config.table}", uri=uri, group="cdc")


def emit(context: Any, alias: AssetAlias, configs: Iterable[TableConfig], runs: Iterable[TableRun]) -> None:
    """Adds an event for each table that committed.

    Args:
        context: Airflow's context of the commit task, which has the alias among its outlets.
        alias: The pipeline's.
        configs: Tables of the task.
        runs: Those that committed.
    """
    by_table = {config.table: config for config in configs}
    events = context["outlet_events"][alias]
    for run in runs:
        events.add(table_asset(by_table[run.table]), extra=event_extra(run))


def event_extra(run: TableRun) -> dict[str, Any]:
    """Returns what the event says: enough to read exactly what changed, and to tell a backfill from new data.

    `delta_versions` is what `cdc_ops.changes` takes. It begins where the event before it ended, whatever came between; None is the very
    beginning. Our Delta tables have no partitions that could be named.
    """
    result, counts = run.result, run.result.counts
    window = {"low": str(result.window.low or ""), "high": str(result.window.high or "")} if result.window else None
    return {
        "pipeline": run.pipeline,
        "table": str(run.table),
        "kind": run.kind.value,
        "run_id": run.run_id,
        "run_type": run.trigger,
        "delta_version": result.delta_version,
        "delta_versions": {"begin": run.events.told_before, "end": result.delta_version},
        "window": window,
        "counts": {"read": counts.read, "inserted": counts.inserted, "updated": counts.updated, "deleted": counts.deleted},
        "complete_until": result.fresh_at.isoformat() if result.fresh_at else None,
        "late_rows": result.late_rows,
        "max_commit_lag": result.max_commit_lag,
        "alert": run.messages.alert,
    }


def notified_batches(context: Any) -> frozenset[str]:
    """Returns the batches of files whose events have started a run: Airflow has stored them, also if their watcher died before it knew.

    Args:
        context: Airflow's context of a task.
    """
    started_by = context.get("triggering_asset_events") or {}
    extras = (event.extra or {} for events in started_by.values() for event in events)
    payloads = (extra.get("payload") for extra in extras if extra.get("from_trigger"))
    return frozenset(str(one["batch"]) for one in payloads if isinstance(one, dict) and "batch" in one)
