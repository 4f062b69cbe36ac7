"""Everything that touches Delta tables."""
