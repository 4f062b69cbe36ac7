"""Alibaba Cloud DTS: as JSON, and in its own Avro records."""
