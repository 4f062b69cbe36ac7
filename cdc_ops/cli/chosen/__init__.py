"""Which pipelines and tables a command means."""
