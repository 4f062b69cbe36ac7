"""The tables that a pipeline file means: which they are, where they lie, and what they are called. Pure."""
