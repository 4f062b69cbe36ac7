"""`quarantine replay`: records in quarantine are read again, with today's settings, columns and package. No Spark here.

quarantine -> records -> feed -> last state of each key -> MERGE, which skips records that are older than their row
"""

from dataclasses import replace

from cdc_ops.core.archive.watermarks import ArchiveWatermark
from cdc_ops.core.operation.log_batch import LogBatch
from cdc_ops.core.operation.operation import OperationKind
from cdc_ops.core.operation.reads import ArchiveRead
from cdc_ops.core.pipeline.table_settings import Method
from cdc_ops.core.pipeline.tables.paths import event_history, quarantine_path
from cdc_ops.errors import RequestError
from cdc_ops.lake.quarantine.read import read_quarantine
from cdc_ops.steps.planning.request import Draft, TableRequest, declared_names, new_operation


def draft_quarantine_retry(request: TableRequest) -> Draft:
    """Drafts the operation that reads a table's records in quarantine.

    Raises:
        RequestError: the table is read by query.
    """
    source_table, config = request.source_table, request.source_table.config
    if config.settings.method is not Method.LOG:
        raise RequestError(
            f"Records in quarantine of {request.table} cannot be read again: its rows are read by query.",
            why="A row without a valid order has to be repaired at the source.",
            data="Nothing was read or written; the watermark stays.",
            next="Repair the row. cdc-ops reads it again when its cursor changes, or with a backfill of its range: cdc-ops backfill.",
        )
    path = quarantine_path(source_table.pipeline, config.table)
    if not read_quarantine(path):
        return Draft(idle="no record in quarantine")
    archive = source_table.pipeline.archive
    batch = LogBatch(
        archive=archive,
        url=archive.location(config.table),
        files=(),
        before=request.state.progress.archive or ArchiveWatermark(),
        quarantine=path,
        history=event_history(source_table.pipeline, config, request.state.generation),
        again=True,
        renamed=config.settings.values.renamed,
        declared=declared_names(request),
    )
    operation = new_operation(request, OperationKind.REPLAY, request.source.now(), ArchiveRead(batch=batch))
    return Draft(operations=(replace(operation, apply=replace(operation.apply, previous_keys=())),))
