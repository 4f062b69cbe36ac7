"""Lineage of Spark tasks for Airflow's OpenLineage provider. Only that provider's listener has this loaded: see `events`."""
