"""AWS DMS on S3."""
