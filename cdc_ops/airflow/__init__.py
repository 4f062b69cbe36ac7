"""Airflow's side: DAGs, operators, the plugin. The only package that imports airflow; nothing here loads Spark."""
