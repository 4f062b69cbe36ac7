"""Which runs of a pipeline Airflow has at work, and where it shows them."""

from collections.abc import Callable
from typing import Any, Final
from urllib.parse import quote

from airflow.configuration import conf

from cdc_ops.airflow.dag_ids import dag_id, reconcile_dag_id
from cdc_ops.core.approvals import ApprovalRecord
from cdc_ops.core.operation.run_request import airflow_run_id
from cdc_ops.core.pipeline.pipeline import Pipeline

_AT_WORK: Final = ("queued", "running")
"""States of a run that has not ended."""


def ended_runs(pipeline: Pipeline, instance: Any) -> Callable[[str], bool]:
    """Returns what tells whether a run of a pipeline is over, by its id in the ledger: Airflow has it in another state, or not at all.

    Args:
        pipeline: The pipeline, whose two DAGs may have asked.
        instance: The task that wants to know.
    """

    def has_ended(run_id: str) -> bool:
        dag, of_airflow = run_in_airflow(pipeline.name, run_id)
        return not instance.get_dr_count(dag_id=dag, run_ids=[of_airflow], states=list(_AT_WORK))

    return has_ended


def answer_link(question: ApprovalRecord) -> str:
    """Returns the page of Airflow on which a run's questions are answered, "" if Airflow's own address is not set."""
    base = str(conf.get("api", "base_url", fallback="") or "").rstrip("/")
    dag, run_id = run_in_airflow(question.pipeline, question.run_id)
    return f"{base}/dags/{dag}/runs/{quote(run_id, safe='')}/required_actions" if base else ""


def run_in_airflow(pipeline: str, run_id: str) -> tuple[str, str]:
    """Returns DAG and run by the ids that Airflow has for them.

    Args:
        pipeline: Name of the pipeline.
        run_id: The run's id in the ledger.
    """
    of_airflow, reconciles = airflow_run_id(run_id)
    return (reconcile_dag_id(pipeline) if reconciles else dag_id(pipeline)), of_airflow
