"""The demo's Airflow: settings, processes, REST API."""
