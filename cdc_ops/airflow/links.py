"""The button on every task of a pipeline's DAG that leads to its run's page; the API server makes it, so it is there from the start."""

from typing import Any
from urllib.parse import urlencode, urlsplit

from airflow.sdk import BaseOperatorLink
from airflow.sdk.configuration import conf

from cdc_ops.airflow.dag_ids import PREFIX, TAG

PAGE = "cdc"
"""Where the plugin's page is, below Airflow's own address."""


def page_address(path: str) -> str:
    """Returns where a page of the plugin is on the API server that shows the link to it."""
    base = urlsplit(conf.get("api", "base_url", fallback="")).path.rstrip("/")
    return f"{base}/{PAGE}/{path}"


class RunLink(BaseOperatorLink):
    """The page of the run that a task belongs to: how each of its tables fared."""

    name = "CDC run"

    def get_link(self, operator: Any, *, ti_key: Any) -> str:
        """Returns the address of the page, "" for a task of another DAG, which has no button then."""
        tags = getattr(getattr(operator, "dag", None), "tags", None) or ()
        if TAG not in tags or not ti_key.dag_id.startswith(PREFIX):
            return ""
        return page_address(f"run?{urlencode({'dag_id': ti_key.dag_id, 'run_id': ti_key.run_id})}")
