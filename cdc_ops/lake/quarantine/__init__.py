"""The quarantine: records that cannot be read, and changes that cannot be ordered."""
