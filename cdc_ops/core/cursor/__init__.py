"""Cursors of the query method: values, windows, late rows. Pure."""
