"""The pure heart: frozen values and functions on them. Standard library only; no clock, environment, database, Airflow or Spark."""
