"""Alerts at the end of a run: the receivers are told while its `outcome` task works. Nothing here fails a run."""

import logging
from typing import Any

from airflow.sdk.exceptions import AirflowTaskTimeout

from cdc_ops.airflow.alerts.channels import find_channel
from cdc_ops.airflow.run_states import answer_link, ended_runs
from cdc_ops.alerts.host import Host, Place
from cdc_ops.alerts.notify import Delivery, notify_receivers
from cdc_ops.core.pipeline.pipeline import Pipeline
from cdc_ops.state.base import StateStore

log = logging.getLogger("cdc_ops.airflow")


def notify_after_run(pipeline: Pipeline, store: StateStore, host: Host) -> None:
    """Tells the receivers of a pipeline what they have not been told. A failure is logged: its rows are committed all the same."""
    if not pipeline.notify:
        return
    try:
        log_delivery(pipeline.name, notify_receivers(pipeline, store, find_channel, host))
    except (Exception, AirflowTaskTimeout):  # Airflow's time-out is no Exception: a receiver that hangs uses up the time of the task
        log.exception("The receivers of alerts were not told; the rows are not concerned. The DAG 'cdc-ops-alerts' tries again.")


def airflow_host(pipeline: Pipeline, instance: Any, *, ending: str = "", places: tuple[Place, ...] | None = None) -> Host:
    """Returns what a task of Airflow knows besides the ledger.

    Args:
        pipeline: The pipeline that is looked at.
        instance: The task that looks.
        ending: Id in the ledger of the run that the task belongs to and whose tries are over: what its lines say is decided, although
            Airflow has it at work.
        places: Where the disks of this machine are looked at; None = nowhere.
    """
    has_ended = ended_runs(pipeline, instance)

    def is_at_work(run_id: str) -> bool | None:
        return None if run_id == ending else not has_ended(run_id)

    return Host(is_at_work=is_at_work, answer_link=answer_link, places=places)


def log_delivery(pipeline: str, done: Delivery) -> None:
    """Writes into the task's log who was told what, and who was not."""
    for receiver, message in done.notified:
        log.info("%s was told: %s", receiver, message.subject)
    for error in done.errors:
        log.error("pipeline %s: %s", pipeline, error)
