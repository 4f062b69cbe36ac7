"""Where Airflow shows the work of a run on a table: the mapped task of the table's group that somebody would look at first.

The ledger knows runs and tables and nothing of Airflow's tasks, so that Airflow's database is asked, for one run at a time.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final

from cdc_ops.airflow.task_context import APPROVED, ASK
from cdc_ops.core.operation.job import Step

GROUPS: Final = (("tables", "discover"), (APPROVED, ASK))
"""The groups of mapped tasks, each with the task whose result they are mapped over: the tables of each index."""

_WORK: Final = (Step.SYNC.value, Step.MERGE.value, Step.EXTRACT.value, "plan", "commit")
"""Tasks whose logs say what happened to a table, the most telling first."""

_TELLING: Final = ("failed", "running", "up_for_retry", "success")
"""States of tasks, the most telling first; a task that was skipped or has not begun says nothing."""


def task_page(dag_id: str, run_id: str, table: str) -> str:
    """Returns the rest of a run's address, behind the run, at which the table's task is shown; "" if none is known.

    Args:
        dag_id, run_id: The run, as Airflow names it.
        table: `schema.table`.
    """
    from airflow.models.taskinstance import TaskInstance
    from airflow.models.xcom import XComModel
    from airflow.utils.session import create_session
    from sqlalchemy import select

    with create_session() as session:
        returned = select(XComModel.task_id, XComModel.value).where(
            XComModel.dag_id == dag_id,
            XComModel.run_id == run_id,
            XComModel.key == "return_value",
            XComModel.task_id.in_([source for _, source in GROUPS]),
        )
        places = _places({row.task_id: row.value for row in session.execute(returned)}, table)
        if not places:
            return ""
        known = select(TaskInstance.task_id, TaskInstance.map_index, TaskInstance.state).where(
            TaskInstance.dag_id == dag_id, TaskInstance.run_id == run_id, TaskInstance.map_index.in_(places.values())
        )
        instances = [(row.task_id, row.map_index, str(row.state)) for row in session.execute(known)]
    return _most_telling(instances, places)


def _places(returned: dict[str, Any], table: str) -> dict[str, int]:
    """Returns the index of a table in each group that has it; a result that is kept elsewhere than in Airflow's database tells nothing."""
    found = {}
    for group, source in GROUPS:
        parts = returned.get(source)
        for index, part in enumerate(parts if isinstance(parts, list) else ()):
            if isinstance(part, list) and table in part:
                found[group] = index
    return found


def _most_telling(instances: Iterable[tuple[str, int, str]], places: dict[str, int]) -> str:
    """Returns the page of the task that one would look at first: of the last group that has the table, what failed or works."""
    candidates: list[tuple[Sequence[int], str]] = []
    for task, index, state in instances:
        group, _, verb = task.rpartition(".")
        if places.get(group) == index and verb in _WORK and state in _TELLING:
            newest = -[name for name, _ in GROUPS].index(group)
            candidates.append(((newest, _TELLING.index(state), _WORK.index(verb)), f"/tasks/{task}/mapped/{index}"))
    return min(candidates)[1] if candidates else ""
