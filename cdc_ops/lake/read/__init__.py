"""For readers of a table: its current rows, and what changed between two versions."""
