"""What the Spark tasks tell Airflow's OpenLineage provider, which asks their operators when a task starts and when it ends.

At the start the ledger has the operations that are planned; at the end the journal has those that were tried, with their results. Columns
of a Delta table are read from its log. A failure of all this is logged: the provider asks outside of the work, so no task fails by it.
"""

import logging
from collections.abc import Iterable, Iterator
from contextlib import closing
from typing import TYPE_CHECKING, Any

from cdc_ops.airflow.connections import ledger_url, source_url
from cdc_ops.airflow.dag_ids import reconcile_dag_id
from cdc_ops.airflow.job_files import open_journal
from cdc_ops.airflow.task_context import is_approved, table_configs
from cdc_ops.config.expressions.spark_conditions import named_columns
from cdc_ops.core.apply.apply_spec import Landing
from cdc_ops.core.lineage.datasets import DatasetName, TableLineage, catalog_dataset, source_dataset
from cdc_ops.core.lineage.tables import Surroundings, last_version, table_lineage
from cdc_ops.core.operation.catalog_entry import catalog_entry
from cdc_ops.core.operation.job import JobSpec, Step, StepResult
from cdc_ops.core.operation.operation import Operation
from cdc_ops.core.operation.results import OperationResult, Outcome
from cdc_ops.core.operation.run_request import ledger_run_id
from cdc_ops.core.pipeline.connections import ConnectionUrl
from cdc_ops.core.pipeline.pipeline import Pipeline, TableConfig
from cdc_ops.core.schema.tables import TableName
from cdc_ops.lake.log.delta_log import DeltaLog
from cdc_ops.state.sql import open_reader

if TYPE_CHECKING:
    from airflow.providers.openlineage.extractors import OperatorLineage
    from airflow.sdk.types import RuntimeTaskInstanceProtocol

log = logging.getLogger("cdc_ops.airflow")

_UNTOLD = "What the task '%s' reads and writes was not told to OpenLineage; the rows are not concerned."


def planned_lineage(pipeline: Pipeline, step: Step, tables: Iterable[str]) -> "OperatorLineage[Any, Any] | None":
    """Returns what a task is going to read and write, None if it has nothing to do.

    Args:
        pipeline: The pipeline.
        step: The task's.
        tables: `schema.table` names of its group.
    """
    try:
        configs = table_configs(pipeline, tables)
        with closing(open_reader(ledger_url())) as reader:
            opened = {config.table: reader.open_operations(pipeline.name, config.table) for config in configs}
        planned = {table: tuple(one for one in known if _is_of(step, one)) for table, known in opened.items()}
        return _as_facets(pipeline, step, planned, {})
    except Exception:
        log.warning(_UNTOLD, step, exc_info=True)
        return None


def done_lineage(pipeline: Pipeline, step: Step, instance: "RuntimeTaskInstanceProtocol") -> "OperatorLineage[Any, Any] | None":
    """Returns what a task has read and written, in all its tries; None if it has done nothing.

    Args:
        pipeline: The pipeline.
        step: The task's.
        instance: The task instance, which has ended well or not.
    """
    try:
        run_id = ledger_run_id(instance.run_id, reconcile_dag=instance.dag_id == reconcile_dag_id(pipeline.name))
        journal = open_journal(pipeline, run_id, instance.map_index or 0, approved=is_approved(instance.task_id))
        tries = tuple((job, result) for job, result in journal.tries() if job.step is step)
        return _as_facets(pipeline, step, tried_operations(tries), results_of(tries))
    except Exception:
        log.warning(_UNTOLD, step, exc_info=True)
        return None


def _is_of(step: Step, operation: Operation) -> bool:
    """True if a step works on an operation: what lands nowhere is not extracted."""
    return step is not Step.EXTRACT or operation.apply.landing is Landing.STAGED


def tried_operations(tries: Iterable[tuple[JobSpec, StepResult | None]]) -> dict[TableName, tuple[Operation, ...]]:
    """Returns the operations of some tries by their tables, each once and as its last try had it."""
    found: dict[TableName, dict[str, Operation]] = {}
    for job, _ in tries:
        for operation in job.operations:
            found.setdefault(operation.table, {})[operation.operation_id] = operation
    return {table: tuple(sorted(known.values(), key=lambda one: one.op_seq)) for table, known in found.items()}


def results_of(tries: Iterable[tuple[JobSpec, StepResult | None]]) -> dict[str, OperationResult]:
    """Returns what became of operations by their ids: what the try says that did it, not a later one that found it done."""
    found: dict[str, OperationResult] = {}
    for _, result in tries:
        for one in (item for table in (result.tables if result else ()) for item in table.operations):
            if one.outcome is not Outcome.ALREADY_APPLIED or one.operation_id not in found:
                found[one.operation_id] = one
    return found


def _as_facets(
    pipeline: Pipeline, step: Step, operations: dict[TableName, tuple[Operation, ...]], results: dict[str, OperationResult]
) -> "OperatorLineage[Any, Any] | None":
    lineages = tuple(_lineages(pipeline, step, {table: known for table, known in operations.items() if known}, results))
    if not lineages:
        return None
    from cdc_ops.airflow.lineage.facets import operator_lineage

    return operator_lineage(lineages)


def _lineages(
    pipeline: Pipeline, step: Step, operations: dict[TableName, tuple[Operation, ...]], results: dict[str, OperationResult]
) -> Iterator[TableLineage]:
    url = source_url(pipeline.source) if operations else ""
    address = ConnectionUrl.parse(url) if url else None
    for config in table_configs(pipeline, map(str, operations)):
        known = operations[config.table]
        version = last_version(results[one.operation_id] for one in known if one.operation_id in results)
        around = Surroundings(
            origin=source_dataset(address, config.table) if address else None,
            catalog_name=_catalog_name(pipeline, config),
            previous_key=config.settings.order.previous_key,
            named=lambda text, columns: named_columns((text,), columns),
            stored=() if version is None else DeltaLog(config.path).state(version).columns(),
        )
        yield table_lineage(known, results, around, writes=step is not Step.EXTRACT)


def _catalog_name(pipeline: Pipeline, config: TableConfig) -> DatasetName | None:
    entry = catalog_entry(pipeline.target.catalog, config)
    return catalog_dataset(entry.name, dict(pipeline.spark.conf), pipeline.target.root) if entry else None
