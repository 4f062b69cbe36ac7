"""What Airflow's list of providers shows of this package; outside the data path, read from the entry point of the same name."""

from typing import Any


def get_provider_info() -> dict[str, Any]:
    """Returns the description that Airflow checks against its provider_info.schema.json."""
    return {
        "package-name": "cdc-ops",
        "name": "CDC to Delta Lake",
        "description": "Keeps Delta Lake tables equal to operational database tables, in batches.",
        "extra-links": ["cdc_ops.airflow.spark.links.TablesLink", "cdc_ops.airflow.spark.links.SparkHistoryLink"],
        "triggers": [{"integration-name": "cdc-ops", "python-modules": ["cdc_ops.airflow.archive_trigger"]}],
        "integrations": [{"integration-name": "cdc-ops", "tags": ["software"]}],
    }
