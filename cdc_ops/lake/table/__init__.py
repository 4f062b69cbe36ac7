"""Delta tables themselves: created, altered, kept in shape."""
