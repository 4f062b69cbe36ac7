"""The DAG that looks at the ledger for all pipelines of a folder: it notices what no run can tell, because no run comes.

It needs no other DAG to run, and reads the pipeline files when it runs: their DAGs may be paused, or broken.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

from airflow.sdk import DAG, CronTriggerTimetable, task
from airflow.sdk.exceptions import AirflowFailException

from cdc_ops.airflow.alerts.channels import find_channel
from cdc_ops.airflow.alerts.run_end import log_telling
from cdc_ops.airflow.connections import ledger_url
from cdc_ops.airflow.exceptions import translated
from cdc_ops.alerts.conditions import Condition
from cdc_ops.alerts.messages import condition_text
from cdc_ops.alerts.tell import tell
from cdc_ops.config.loading import read_folder
from cdc_ops.core.pipeline.pipeline import Pipeline
from cdc_ops.errors import CdcError
from cdc_ops.state.base import StateStore
from cdc_ops.state.sql import open_store

log = logging.getLogger(__name__)

ALERTS_DAG: Final = "cdc-ops-alerts"
"""Unless the DAG file says otherwise. No pipeline's DAG can have this id: theirs begin with `cdc_`."""
EVERY: Final = timedelta(minutes=5)

_DOC: Final = """\
Looks at the ledger and tells the receivers in `notify` of each pipeline what is wrong: failures, tables further behind than `max_lag`, and
so on. It connects to no source and starts no Spark. Keep it unpaused: it is what notices that another DAG is paused.

A run fails if a receiver was not told, if a pipeline file cannot be used, or if something is wrong in a pipeline without `notify` but with
a `max_lag`. It does not look at pipelines with neither.
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
        tags=["alerts", "cdc"],
        description="Tells who has to know when a pipeline fails, is late, or does not run at all",
        doc_md=_DOC,
        default_args={"owner": "cdc-ops", "retries": 1, **options},
    ) as dag:

        @task(task_id="look")
        def look() -> None:
            """Tells the receivers of all pipelines what they have not been told."""
            with translated(), _opened() as store:
                if problems := list(problems_of(folder, store)):
                    raise AirflowFailException("\n".join(problems))

        look()
    return dag


@contextmanager
def _opened() -> Iterator[StateStore]:
    store = open_store(ledger_url())
    try:
        yield store
    finally:
        store.close()


def problems_of(folder: str | Path, store: StateStore) -> Iterator[str]:
    """Looks at each pipeline, and yields what the task fails for: one pipeline does not keep the others from being looked at."""
    contents = read_folder(folder)
    for pipeline in contents.pipelines:
        if not wants_alerts(pipeline):
            continue
        try:
            done = tell(pipeline, store, find_channel)
        except CdcError as error:
            yield f"pipeline {pipeline.name}: {error}"
            continue
        except Exception as error:  # not foreseen: the pipelines behind it are looked at all the same
            log.exception("pipeline %s cannot be looked at", pipeline.name)
            yield f"pipeline {pipeline.name}: {type(error).__name__}; the task's log has more."
            continue
        log_telling(pipeline.name, done)
        yield from (f"pipeline {pipeline.name}: {error}" for error in done.errors)
        if not pipeline.notify:
            yield from _untold(pipeline, done.conditions)
    yield from map(str, contents.errors)


def _untold(pipeline: Pipeline, conditions: tuple[Condition, ...]) -> Iterator[str]:
    wrong = [one for one in conditions if one.subject.kind.lasts]
    if wrong:
        yield f"pipeline {pipeline.name} has no 'notify', so nobody is told of this:"
        yield from map(condition_text, wrong)
