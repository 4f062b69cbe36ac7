"""Drafts of operations, one module for each kind. Asks the source, writes nothing; no Spark here."""
