"""Spark steps as Airflow tasks."""
