"""What late rows mean for a table's line in the record of a run."""

from collections.abc import Mapping
from dataclasses import replace

from cdc_ops.core.cursor.late_rows import LateRows, advice, commit_lag, deepest
from cdc_ops.core.operation.operation import Operation
from cdc_ops.core.operation.reads import WindowRead
from cdc_ops.core.operation.results import OperationResult
from cdc_ops.core.pipeline.pipeline import TableConfig
from cdc_ops.lake.log.head import find_commit
from cdc_ops.state.table_run import TableRun


def with_late_rows(run: TableRun, config: TableConfig, specs: tuple[Operation, ...], reported: Mapping[str, OperationResult]) -> TableRun:
    """Returns a line with the late rows of its operations.

    Args:
        run: The line.
        config: The table.
        specs: Its operations.
        reported: What Spark reported of them, by operation id; of one that it did not report, the lake is asked.
    """
    looked = tuple(operation for operation in specs if isinstance(operation.read, WindowRead) and operation.read.rereads)
    late = deepest(tuple(_late(operation, reported.get(operation.operation_id)) for operation in looked))
    if not late.rows:
        return run
    cursor = looked[0].source.cursor
    lag = commit_lag(cursor, late)
    return replace(
        run,
        result=replace(run.result, late_rows=late.rows, max_commit_lag=lag.total_seconds() if lag is not None else None),
        messages=replace(run.messages, advice=advice(cursor, late, config.settings.load.lookback)),
    )


def _late(operation: Operation, reported: OperationResult | None) -> LateRows:
    if reported is not None:
        return reported.late
    found = find_commit(operation.target.path, operation.operation_id)
    return found.record.counts.late if found else LateRows()
