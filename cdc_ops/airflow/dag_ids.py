"""Names and tags: which DAG belongs to which pipeline."""

from typing import Final

from cdc_ops.core.pipeline.pipeline import reconcile_name

PREFIX: Final = "cdc_"
TAG: Final = "cdc"
"""Of all DAGs of cdc-ops, also of the one that looks at the ledger, whose runs have no page."""
DECLARED: Final = "declared"
"""Tag of the DAG of a pipeline without a database; a DAG that reconciles never has it."""


def dag_id(pipeline: str) -> str:
    """Returns the id of a pipeline's DAG."""
    return f"{PREFIX}{pipeline}"


def reconcile_dag_id(pipeline: str) -> str:
    """Returns the id of the DAG that reconciles a pipeline's tables on a schedule of its own."""
    return dag_id(reconcile_name(pipeline))


def pipeline_of(identity: str) -> str:
    """Returns the pipeline of a DAG id that `dag_id` made."""
    return identity.removeprefix(PREFIX)
