"""Debezium's events of MongoDB: whole documents, and flattened ones."""
