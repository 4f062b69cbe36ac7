"""Who may see the status page in Airflow's API server: visitors who may see plugins, and of the tables those whose DAG they may read.

Airflow mounts a plugin's routes without any check. The functions that its own routes are guarded by are no public API, so where they cannot
be imported the page refuses everybody.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Annotated, Any

from fastapi import Depends, FastAPI, HTTPException

from cdc_ops.airflow.connections import ledger_url
from cdc_ops.airflow.dag_ids import DECLARED, PREFIX, dag_id, pipeline_of, reconcile_dag_id
from cdc_ops.state.base import StateReader
from cdc_ops.state.sql import open_reader
from cdc_ops.web.app import create_app
from cdc_ops.web.view import PipelineInfo


def status_page() -> FastAPI:
    """Builds the page with Airflow's own login in front of it."""
    guard, visible = _airflow_guard()
    return create_app(ReaderOfLedger(), dependencies=[Depends(guard)], visible_pipelines=visible, find_task=_find_task)


def _find_task(dag_id: str, run_id: str, table: str) -> str:
    try:
        from cdc_ops.airflow.task_page import task_page  # the tasks' own modules, which no page needs

        return task_page(dag_id, run_id, table)
    except ImportError:  # Airflow's models are no public API either: the run's page is near enough
        return ""


class ReaderOfLedger:
    """Opens the ledger when the first visitor comes and keeps it; opens another one when its URL has changed."""

    def __init__(self) -> None:
        self._url = ""
        self._reader: StateReader | None = None

    def __call__(self) -> StateReader:
        """Returns the ledger for reading."""
        url = ledger_url()
        if self._reader is None or url != self._url:
            self._url, self._reader = url, open_reader(url)
        return self._reader


def deny_all() -> None:
    """Refuses everybody."""
    raise HTTPException(403, "This version of Airflow lacks the functions with which cdc-ops checks a login; the page stays closed.")


def _nothing() -> Mapping[str, PipelineInfo]:
    return {}


def _airflow_guard() -> tuple[Callable[..., Any], Callable[..., Mapping[str, PipelineInfo]]]:
    try:
        from airflow.api_fastapi.app import get_auth_manager
        from airflow.api_fastapi.auth.managers.models.resource_details import AccessView
        from airflow.api_fastapi.core_api.security import get_user, requires_access_view
    except ImportError:
        return deny_all, _nothing

    def visible(user: Annotated[Any, Depends(get_user)]) -> Mapping[str, PipelineInfo]:
        """Returns the pipelines whose DAGs the user may read, with their schedules."""
        allowed = get_auth_manager().get_authorized_dag_ids(user=user, method="GET")
        return _schedules({one for one in allowed if one.startswith(PREFIX)})

    return requires_access_view(AccessView.PLUGINS), visible


def _schedules(dag_ids: set[str]) -> dict[str, PipelineInfo]:
    """What Airflow's database knows of the DAGs' schedules: how far apart their runs are, whether they are paused.

    A DAG that reconciles belongs to the pipeline whose name it has, and a pipeline may have such a name too. It refuses backfills, as only
    the DAGs of pipelines without a database do else, and these have a tag of their own.
    """
    from airflow.models.dag import DagModel
    from airflow.utils.session import create_session
    from sqlalchemy import select
    from sqlalchemy.orm import selectinload

    with create_session() as session:
        wanted = select(DagModel).where(DagModel.dag_id.in_(dag_ids)).options(selectinload(DagModel.tags))
        models = session.scalars(wanted).all() if dag_ids else []
        known = {model.dag_id: _info(model) for model in models}
        reconciling = {model.dag_id for model in models if model.allowed_run_types and not _is_declared(model)}
    pipelines = map(pipeline_of, sorted(dag_ids - reconciling))
    return {one: _with_dags(one, reconciling, known.get(dag_id(one), PipelineInfo())) for one in pipelines}


def _info(model: Any) -> PipelineInfo:
    start, end = model.next_dagrun_data_interval_start, model.next_dagrun_data_interval_end
    every = end - start if start and end and end > start else None
    return PipelineInfo(every=every, paused=bool(model.is_paused), has_database=not _is_declared(model))


def _is_declared(model: Any) -> bool:
    return DECLARED in {tag.name for tag in model.tags}


def _with_dags(pipeline: str, reconciling: set[str], info: PipelineInfo) -> PipelineInfo:
    """Adds the DAGs of a pipeline: its own, and of those that reconcile and that the user may read the one that is its."""
    own, other = dag_id(pipeline), reconcile_dag_id(pipeline)
    return replace(info, dag_ids=(own, other) if other in reconciling else (own,))
