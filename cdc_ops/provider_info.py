"""What Airflow's list of providers shows of this package; outside the data path, read from the entry point of the same name."""

from typing import Any


def get_provider_info() -> dict[str, Any]:
    """Returns the description that Airflow checks against its provider_info.schema.json."""
    return {
        "package-name": "cdc-ops",
        "name": "CDC to Delta Lake",
        "description": "Keeps Delta Lake tables equal to operational database tables, in batches.",
        "integrations": [{"integration-name": "cdc-ops", "tags": ["software"]}],
    }
