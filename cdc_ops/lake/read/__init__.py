"""For readers of a table: its current rows, and the changes between two versions."""
