"""Archives of change files: names, listings, offsets, and the check that no file is missing. Pure."""
