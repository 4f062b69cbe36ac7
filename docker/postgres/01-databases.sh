#!/bin/bash
# Two databases with a login each: Airflow's metadata, and the ledger. Neither login can read the other's.
set -euo pipefail
for name in airflow cdc_ops; do
  psql --username "$POSTGRES_USER" --dbname postgres --set ON_ERROR_STOP=1 <<SQL
CREATE ROLE ${name} LOGIN PASSWORD '$(cat "/run/secrets/postgres_${name}_password")';
CREATE DATABASE ${name} OWNER ${name};
REVOKE CONNECT ON DATABASE ${name} FROM PUBLIC;
SQL
done
