"""cdc-ops: keeps Delta Lake tables equal to operational database tables, in batches."""

__version__ = "0.1.0"
