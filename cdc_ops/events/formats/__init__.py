"""The formats of change records, one package a tool: what is known of the tool stands there and nowhere else."""
