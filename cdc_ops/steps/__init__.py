"""The data path, one module a verb."""
