"""Which pipeline file a run works by: the ledger keeps each version of it, for people who ask what has changed and since when."""

from cdc_ops.config.loading import shown_file
from cdc_ops.core.pipeline.pipeline import Pipeline
from cdc_ops.state.base import StateStore


def note_pipeline_file(store: StateStore, pipeline: Pipeline, run_id: str) -> None:
    """Notes the file of a run's pipeline, as it was loaded by this process; a pipeline that comes from no file is left out.

    Args:
        store: The ledger.
        pipeline: The pipeline.
        run_id: The run.
    """
    if text := shown_file(pipeline):
        store.note_pipeline_file(pipeline.name, text, run_id)
