"""Alibaba Cloud DTS, as JSON and as Avro."""
