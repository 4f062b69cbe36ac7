"""Tables and types: how each source type is stored, and what a change of the schema means. Pure."""
