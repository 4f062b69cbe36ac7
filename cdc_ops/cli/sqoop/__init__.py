"""Imports of Sqoop 1.4 as pipeline files: what a command line or a saved job says, and what of it cannot be carried over."""
