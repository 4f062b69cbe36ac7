"""The plugin: one page in Airflow's menu. Importing this must stay cheap, because every Airflow process does it, each task included."""

from functools import cached_property
from typing import Any

from airflow.sdk.plugins_manager import AirflowPlugin


class CdcOpsPlugin(AirflowPlugin):
    """Shows the status page under Browse; the page itself is built in the API server, when it asks for it."""

    name = "cdc_ops"
    external_views = [  # noqa: RUF012  Airflow's own declaration
        {"name": "CDC tables", "href": "cdc/ui", "destination": "nav", "category": "browse", "url_route": "cdc"}
    ]

    @cached_property
    def fastapi_apps(self) -> list[dict[str, Any]]:  # type: ignore[override]
        """The status page, which only visitors with a right to see plugins reach."""
        from cdc_ops.airflow.auth import status_page

        return [{"app": status_page(), "url_prefix": "/cdc", "name": "cdc-ops"}]
