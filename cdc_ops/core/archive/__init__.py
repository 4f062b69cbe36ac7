"""Archives of change files: names, listings, offsets, and the proof that nothing is missing. Pure."""
