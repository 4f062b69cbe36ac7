"""The DAG that looks at the ledger for all pipelines of a folder: it notices what no run can tell, because no run comes.

It needs no other DAG to run, and reads the pipeline files when it runs: their DAGs may be paused, or broken.
"""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

from airflow.sdk import DAG, CronTriggerTimetable, get_current_context, task
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from cdc_ops.airflow.alerts.channels import find_channel
from cdc_ops.airflow.alerts.run_end import airflow_host, log_delivery
from cdc_ops.airflow.connections import ledger_url
from cdc_ops.airflow.dag_ids import TAG
from cdc_ops.airflow.exceptions import translated
from cdc_ops.alerts.host import Host
from cdc_ops.alerts.messages import condition_text
from cdc_ops.alerts.notify import notify_of_broken_file, notify_receivers
from cdc_ops.alerts.space import places_of
from cdc_ops.alerts.words import Condition
from cdc_ops.config.broken_files import BrokenFile, broken_files
from cdc_ops.config.loading import read_folder
from cdc_ops.core.pipeline.pipeline import Pipeline
from cdc_ops.errors import CdcError, ConfigError, LedgerUnavailableError
from cdc_ops.state.base import StateStore
from cdc_ops.state.sql import open_reader, open_store

log = logging.getLogger("cdc_ops.airflow")

ALERTS_DAG: Final = "cdc-ops-alerts"
"""Unless the DAG file says otherwise. No pipeline's DAG can have this id: theirs begin with `cdc_`."""
EVERY: Final = timedelta(minutes=5)

FIRST_LOOKS: Final = timedelta(hours=1) // EVERY
"""How many looks may come before the first run of any pipeline: so long it is no failure that there is no ledger."""

_DOC: Final = """\
Looks at the ledger and tells the receivers in `notify` of each pipeline what is wrong: failures, tables further behind than `max_lag`,
questions that wait, and so on. It connects to no source and starts no Spark. Keep it unpaused: it is what notices that another DAG is
paused. A run that is still at work is judged when it has ended.

A run fails if there is no ledger an hour after the first look, if a receiver was not told, if a pipeline file cannot be used, or if
something is wrong in a pipeline without `notify` but with a `max_lag`. It does not look at pipelines with neither.
"""


def wants_alerts(pipeline: Pipeline) -> bool:
    """True if a pipeline has receivers, or a table with a limit for its lag."""
    return bool(pipeline.notify) or any(rule.settings.load.max_lag for rule in pipeline.tables if not rule.exclude)


def build_alerts_dag(folder: str | Path, dag_id: str = ALERTS_DAG, **options: Any) -> DAG:
    """Builds the DAG for all pipelines of a folder."""
    with DAG(
        dag_id=dag_id,
        schedule=CronTriggerTimetable(f"*/{EVERY // timedelta(minutes=1)} * * * *", timezone="UTC", interval=EVERY),
        catchup=False,
        max_active_runs=1,
        is_paused_upon_creation=False,
        tags=["alerts", TAG],
        description="Tells who has to know when a pipeline fails, is late, or does not run at all",
        doc_md=_DOC,
        default_args={"owner": "cdc-ops", "retries": 1, **options},
    ) as dag:

        @task(task_id="look")
        def look() -> None:
            """Tells the receivers of all pipelines what they have not been told."""
            instance = get_current_context()["ti"]
            with translated(), _opened(folder, is_new=instance.get_dr_count(dag_id=dag_id) <= FIRST_LOOKS) as store:
                if problems := list(problems_of(folder, store, lambda pipeline: _host(pipeline, instance))):
                    raise AirflowFailException("\n".join(problems))

        look()
    return dag


@contextmanager
def _opened(folder: str | Path, *, is_new: bool) -> Iterator[StateStore]:
    """Opens the ledger; where there is none and nothing has run yet, the task is skipped, unless a pipeline file cannot be used."""
    url = ledger_url()
    try:
        with open_reader(url) as reader, suppress(LedgerUnavailableError):  # one that waits to be upgraded is upgraded when it is opened
            reader.required()  # a store would make a ledger where none is, in which nothing is wrong
    except ConfigError as error:
        broken = read_folder(folder).errors
        if is_new and not broken:
            raise AirflowSkipException(
                f"{error}\nThis fails once the DAG has looked {FIRST_LOOKS} times. Unpause a pipeline's DAG."
            ) from None
        raise AirflowFailException("\n".join(map(str, (error, *broken)))) from None
    store = open_store(url)
    try:
        yield store
    finally:
        store.close()


def _host(pipeline: Pipeline, instance: Any) -> Host:
    return airflow_host(pipeline, instance, places=places_of(pipeline, ledger_url()))


def problems_of(folder: str | Path, store: StateStore, host_of: Callable[[Pipeline], Host]) -> Iterator[str]:
    """Looks at each pipeline, and yields what the task fails for: one pipeline does not keep the others from being looked at.

    Args:
        folder: With the pipeline files.
        store: The ledger.
        host_of: What is known of a pipeline besides the ledger.
    """
    contents = read_folder(folder)
    for pipeline in contents.pipelines:
        if not wants_alerts(pipeline):
            continue
        try:
            done = notify_receivers(pipeline, store, find_channel, host_of(pipeline))
        except CdcError as error:
            yield f"pipeline {pipeline.name}: {error}"
            continue
        except Exception as error:  # not foreseen: the pipelines behind it are looked at all the same
            log.exception("pipeline %s cannot be looked at", pipeline.name)
            yield f"pipeline {pipeline.name}: {type(error).__name__}; the task's log has more."
            continue
        log_delivery(pipeline.name, done)
        yield from (f"pipeline {pipeline.name}: {error}" for error in done.errors)
        if not pipeline.notify:
            yield from _untold(pipeline, done.conditions)
    usable = {pipeline.name for pipeline in contents.pipelines}
    for file in broken_files(folder):
        if file.name not in usable:  # else the original's receivers would hear of its copy that it is wrong, and that it is right, by turns
            yield from _notify_of_file(file, store)
    yield from map(str, contents.errors)


def _notify_of_file(file: BrokenFile, store: StateStore) -> Iterator[str]:
    """Tells the receivers of a pipeline file that cannot be used, and yields why one was not told."""
    try:
        done = notify_of_broken_file(file.name, file.notify, file.error, store, find_channel)
    except CdcError as error:
        yield f"pipeline {file.name}: {error}"
        return
    log_delivery(file.name, done)
    yield from (f"pipeline {file.name}: {error}" for error in done.errors)


def _untold(pipeline: Pipeline, conditions: tuple[Condition, ...]) -> Iterator[str]:
    wrong = [one for one in conditions if one.subject.kind.lasts]
    if wrong:
        yield f"pipeline {pipeline.name} has no 'notify', so nobody is told of this:"
        yield from map(condition_text, wrong)
