"""Alibaba Cloud DTS: as JSON, and in DTS's Avro records."""
