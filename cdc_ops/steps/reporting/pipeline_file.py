"""Which pipeline file a run works by: the ledger keeps each version of it, for people who ask what has changed and since when."""

from cdc_ops.config.loading import shown_file
from cdc_ops.core.operation.run_request import RunRequest
from cdc_ops.steps.context import Context


def note_pipeline_file(context: Context, request: RunRequest) -> None:
    """Notes the file of a run's pipeline, as it was loaded by this process; a pipeline that comes from no file is left out.

    Args:
        context: Pipeline and ledger.
        request: The run.
    """
    if text := shown_file(context.pipeline):
        context.store.note_pipeline_file(context.pipeline.name, text, request.run_id)
