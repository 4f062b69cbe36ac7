"""Debezium's formats: as JSON and Avro, flattened, of MongoDB, SQL Server and Oracle."""
