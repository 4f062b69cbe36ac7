"""The demo's Airflow: settings, processes and REST API."""
