"""What the block `airflow` of a pipeline file means for Airflow."""
