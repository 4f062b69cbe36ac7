"""Everything that touches Airflow."""
