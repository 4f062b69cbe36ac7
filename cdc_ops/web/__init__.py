"""The status page: read-only, on `StateReader`; it imports no Airflow, so it can be tried and tested alone."""
