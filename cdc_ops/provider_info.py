"""What Airflow knows of this package without importing it: forms of connections, settings, buttons, triggers.

Outside the data path, read by the entry point of the same name. Notifiers there are none: alerts go through any of Airflow's.
"""

from typing import Any

_INTEGRATION = "cdc-ops"


def get_provider_info() -> dict[str, Any]:
    """Returns the description that Airflow checks against its provider_info.schema.json."""
    return {
        "package-name": "cdc-ops",
        "name": "CDC to Delta Lake",
        "description": "Keeps Delta Lake tables equal to operational database tables, in batches.",
        "integrations": [{"integration-name": _INTEGRATION, "tags": ["software"]}],
        "operators": _modules("cdc_ops.airflow.spark.submit"),
        "hooks": _modules("cdc_ops.airflow.hooks", "cdc_ops.airflow.spark.hook"),
        "triggers": _modules("cdc_ops.airflow.archive_trigger"),
        "extra-links": ["cdc_ops.airflow.spark.links.TablesLink", "cdc_ops.airflow.spark.links.SparkHistoryLink"],
        "connection-types": [_mysql(), _postgres(), _spark()],
        "config": {"cdc_ops": {"description": "Where cdc-ops finds its surroundings, for all pipelines.", "options": _options()}},
    }


def _modules(*names: str) -> list[dict[str, Any]]:
    return [{"integration-name": _INTEGRATION, "python-modules": list(names)}]


def _mysql() -> dict[str, Any]:
    return {
        "connection-type": "cdc_ops_mysql",
        "hook-class-name": "cdc_ops.airflow.hooks.MySqlHook",
        "hook-name": "CDC: MySQL, MariaDB",
        "ui-field-behaviour": _database_fields("3306"),
        "conn-fields": {
            "ssl_mode": _choice(
                "TLS",
                "Of a source: empty = as the server likes it. Only verify_ca and verify_identity prove who the server is.",
                ["disabled", "required", "verify_ca", "verify_identity"],
            ),
            "ssl_ca": _text("Certificate authority", "Path of a PEM file, on every machine that reads the database."),
        },
    }


def _postgres() -> dict[str, Any]:
    return {
        "connection-type": "cdc_ops_postgres",
        "hook-class-name": "cdc_ops.airflow.hooks.PostgresHook",
        "hook-name": "CDC: Postgres",
        "ui-field-behaviour": _database_fields("5432"),
        "conn-fields": {
            "sslmode": _choice(
                "TLS",
                "Empty = as the driver likes it. Only verify-ca and verify-full prove who the server is.",
                ["disable", "allow", "prefer", "require", "verify-ca", "verify-full"],
            ),
            "sslrootcert": _text("Certificate authority", "Path of a PEM file, on every machine that reads the database."),
        },
    }


def _spark() -> dict[str, Any]:
    return {
        "connection-type": "cdc_ops_spark",
        "hook-class-name": "cdc_ops.airflow.spark.hook.CdcSparkHook",
        "hook-name": "CDC: Spark",
        "ui-field-behaviour": {
            "hidden-fields": ["schema", "login", "password", "port"],
            "relabeling": {"host": "Master"},
            "placeholders": {"host": "local[*], spark://host:7077, yarn or k8s://https://host:6443; there is no default"},
        },
        "conn-fields": {
            "deploy-mode": _choice("Deploy mode", "Where the driver runs; empty = client, on the worker.", ["client", "cluster"]),
            "queue": _text("YARN queue", "With the master yarn."),
            "namespace": _text("Kubernetes namespace", "With a master k8s://."),
        },
    }


def _database_fields(port: str) -> dict[str, Any]:
    return {
        "hidden-fields": [],
        "relabeling": {"schema": "Database"},
        "placeholders": {"host": "db.example.com", "port": port, "login": "cdc", "schema": "The database that the tables are in"},
    }


def _choice(label: str, description: str, values: list[str]) -> dict[str, Any]:
    return {"label": label, "description": description, "schema": {"type": ["string", "null"], "enum": values}}


def _text(label: str, description: str) -> dict[str, Any]:
    return {"label": label, "description": description, "schema": {"type": ["string", "null"]}}


def _options() -> dict[str, Any]:
    ledger = "SQLAlchemy URL of the ledger, if the variable CDC_OPS_LEDGER is not set. All processes share one."
    jars = "Folder of the jars for Delta and the databases, if the variable CDC_OPS_JARS is not set."
    return {
        "ledger": {**_option(ledger, "postgresql://user:password@host/ledger"), "sensitive": True},
        "jars": _option(jars, "/opt/cdc-ops/jars"),
    }


def _option(description: str, example: str) -> dict[str, Any]:
    return {"description": description, "version_added": None, "type": "string", "example": example, "default": ""}
