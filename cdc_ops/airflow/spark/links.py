"""Buttons on the page of a Spark task: the page of its tables, and its application in Spark's history server.

Airflow asks for a link in the task's process when the task ends, and keeps it beside the task; nothing is shown before.
"""

from typing import Any
from urllib.parse import quote, urlencode

from airflow.sdk import BaseOperatorLink

from cdc_ops.airflow.links import page_address


class TablesLink(BaseOperatorLink):
    """The status page: of the table if the task has only one, else of all."""

    name = "CDC tables"

    def get_link(self, operator: Any, *, ti_key: Any) -> str:
        """Returns the address of the page, on the API server that shows the button."""
        names = operator.tables if isinstance(operator.tables, list | tuple) else ()
        if len(names) == 1:
            return page_address(f"table?{urlencode({'pipeline': operator.pipeline.name, 'name': names[0]})}")
        return page_address("ui")


class SparkHistoryLink(BaseOperatorLink):
    """The task's application in Spark's history server, whose address the pipeline file has."""

    name = "Spark history"

    def get_link(self, operator: Any, *, ti_key: Any) -> str:
        """Returns the address of the application, "" if there is no history server or no application."""
        server, application = operator.pipeline.airflow.spark_history_url.rstrip("/"), operator.spark_application
        return f"{server}/history/{quote(application, safe='')}/" if server and application else ""
