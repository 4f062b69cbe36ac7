"""Splits a table for snapshots and for parallel connections. Pure."""
