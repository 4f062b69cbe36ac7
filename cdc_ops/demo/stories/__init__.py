"""The demo's stories: their phases, each a real Airflow run and a comparison."""
