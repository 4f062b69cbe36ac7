"""Cursors of the query method: positions, windows, late rows. Pure."""
