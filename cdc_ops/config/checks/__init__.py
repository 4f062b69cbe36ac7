"""Checks that need more than one field of a pipeline file."""
