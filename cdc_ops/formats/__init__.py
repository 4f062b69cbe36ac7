"""Raw change records in, the canonical change feed out."""
