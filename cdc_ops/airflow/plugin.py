"""The plugin: a page in Airflow's menu, a tab on each DAG, run and task, and a button on each task.

Importing this must stay cheap, because every Airflow process does it, each task included.
"""

from functools import cached_property
from typing import Any

from airflow.sdk.plugins_manager import AirflowPlugin

__all__ = ["CdcOpsPlugin"]


class CdcOpsPlugin(AirflowPlugin):
    """Shows the status page under Browse, and its part of a DAG, a run or a task's run on their pages.

    The page itself is built in the API server, when it asks for it. Airflow shows a tab on every DAG: on one that is no pipeline, the tab
    says so.
    """

    name = "cdc_ops"
    external_views = [  # noqa: RUF012  Airflow's own declaration
        {"name": "CDC tables", "href": "cdc/ui", "destination": "nav", "category": "browse", "url_route": "cdc"},
        {"name": "CDC tables", "href": "cdc/dag?dag_id={DAG_ID}", "destination": "dag", "url_route": "cdc-dag"},
        {"name": "CDC tables", "href": "cdc/run?dag_id={DAG_ID}&run_id={RUN_ID}", "destination": "dag_run", "url_route": "cdc-run"},
        {"name": "CDC run", "href": "cdc/run?dag_id={DAG_ID}&run_id={RUN_ID}", "destination": "task_instance", "url_route": "cdc-task"},
    ]

    @cached_property
    def global_operator_extra_links(self) -> list[Any]:  # type: ignore[override]
        """The button, which only tasks of pipelines' DAGs have."""
        from cdc_ops.airflow.links import RunLink

        return [RunLink()]

    @cached_property
    def fastapi_apps(self) -> list[dict[str, Any]]:  # type: ignore[override]
        """The status page, which only visitors with a right to see plugins reach."""
        from cdc_ops.airflow.auth import status_page

        return [{"app": status_page(), "url_prefix": "/cdc", "name": "cdc-ops"}]
