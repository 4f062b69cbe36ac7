"""Names: which DAG belongs to which pipeline."""

from typing import Final

PREFIX: Final = "cdc_"


def dag_id(pipeline: str) -> str:
    """Returns the id of a pipeline's DAG."""
    return f"{PREFIX}{pipeline}"


def pipeline_of(identity: str) -> str:
    """Returns the pipeline of a DAG id that `dag_id` made."""
    return identity.removeprefix(PREFIX)
