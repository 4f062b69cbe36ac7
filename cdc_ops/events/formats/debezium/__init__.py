"""Debezium: events and flat records of its connectors, as JSON and from Avro."""
