"""Pure functions on frozen values. Standard library only; no clock, environment, database, Airflow or Spark."""
