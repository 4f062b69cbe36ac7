"""Records that cannot be read and changes that cannot be ordered: set aside, and shown."""
