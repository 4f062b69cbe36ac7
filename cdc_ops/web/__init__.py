"""The read-only page in Airflow's menu."""
