#!/usr/bin/env python3
"""Makes the folder `secrets` beside docker-compose.yaml: a file for each secret of its services, with random values.

    python3 docker/make_secrets.py

It needs nothing but Python. Files that are there stay as they are, so that a database keeps the password that it was made with; what is
made of several of them (URLs, connections, the login of the object store) is written again. Nobody but you may enter the folder; its files
can be read by all, because the users of the containers, which get them at /run/secrets, have other numbers than you.
"""

import base64
import json
import secrets
import sys
from pathlib import Path

RANDOM = (
    "airflow_admin_password",
    "airflow_api_secret_key",
    "airflow_jwt_secret",
    "mysql_admin_password",
    "mysql_cdc_password",
    "mysql_debezium_password",
    "object_store_password",
    "postgres_admin_password",
    "postgres_airflow_password",
    "postgres_cdc_ops_password",
    "spark_connect_token",
    "spark_secret",
)


def make(folder: Path) -> list[str]:
    """Makes what is missing in a folder, and returns its names."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    before = {path.name for path in folder.iterdir()}
    for name in RANDOM:
        keep(folder / name, secrets.token_hex(24))  # letters and digits: passwords become parts of URLs
    keep(folder / "airflow_fernet_key", base64.urlsafe_b64encode(secrets.token_bytes(32)).decode())
    keep(folder / "object_store_user", "cdcops")
    known = {path.name: path.read_text("utf-8").strip() for path in folder.iterdir()}
    for name, text in derived(known).items():
        (folder / name).write_text(text, "utf-8")
    for path in folder.iterdir():
        path.chmod(0o644)
    return sorted({path.name for path in folder.iterdir()} - before)


def keep(path: Path, value: str) -> None:
    """Writes a value, unless the file is there."""
    if not path.exists():
        path.write_text(value, "utf-8")


def derived(known: "dict[str, str]") -> "dict[str, str]":
    """Returns the files that are made of others."""
    source = f"mysql://cdc:{known['mysql_cdc_password']}@mysql:3306/shop"
    master = {"conn_type": "spark", "host": "spark://spark-master", "port": 7077, "extra": {"deploy-mode": "client"}}
    store = {"conn_type": "aws"}  # its login is in aws_credentials, which all clients of S3 read
    return {
        "airflow_database": f"postgresql+psycopg2://airflow:{known['postgres_airflow_password']}@postgres:5432/airflow",
        "airflow_connections.json": json.dumps({"shop_db": source, "spark_default": master, "object_store": store}, indent=2) + "\n",
        "aws_credentials": "[default]\n"
        f"aws_access_key_id = {known['object_store_user']}\naws_secret_access_key = {known['object_store_password']}\n",
        "cdc_ops_ledger": f"postgresql+psycopg://cdc_ops:{known['postgres_cdc_ops_password']}@postgres:5432/cdc_ops",
        "shop_db": source,
        "spark.conf": f"spark.authenticate true\nspark.authenticate.secret {known['spark_secret']}\nspark.network.crypto.enabled true\n",
    }


if __name__ == "__main__":
    place = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parents[1] / "secrets"
    print(f"{place}: {', '.join(make(place)) or 'nothing was missing'}")
