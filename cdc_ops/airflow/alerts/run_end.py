"""Alerts at the end of a run: the receivers are told while its `outcome` task works. Nothing here fails a run."""

import logging

from airflow.sdk.exceptions import AirflowTaskTimeout

from cdc_ops.airflow.alerts.channels import find_channel
from cdc_ops.alerts.tell import Telling, tell
from cdc_ops.core.pipeline.pipeline import Pipeline
from cdc_ops.state.base import StateStore

log = logging.getLogger(__name__)


def tell_receivers(pipeline: Pipeline, store: StateStore) -> None:
    """Tells the receivers of a pipeline what they have not been told. A failure is logged: its rows are committed all the same."""
    if not pipeline.notify:
        return
    try:
        log_telling(pipeline.name, tell(pipeline, store, find_channel))
    except (Exception, AirflowTaskTimeout):  # Airflow's time-out is no Exception: a receiver that hangs uses up the time of the task
        log.exception("The receivers of alerts were not told; the rows are not concerned. The DAG 'cdc-ops-alerts' tries again.")


def log_telling(pipeline: str, done: Telling) -> None:
    """Writes into the task's log who was told what, and who was not."""
    for receiver, message in done.told:
        log.info("%s was told: %s", receiver, message.subject)
    for error in done.errors:
        log.error("pipeline %s: %s", pipeline, error)
