"""Alerts in Airflow: at the end of each run, and by a DAG of their own that needs no other DAG to run."""
