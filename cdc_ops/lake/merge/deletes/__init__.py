"""Rows that are gone: marked, and remembered so that no older event brings them back."""
