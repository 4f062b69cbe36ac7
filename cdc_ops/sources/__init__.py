"""The databases that tables are read from."""
