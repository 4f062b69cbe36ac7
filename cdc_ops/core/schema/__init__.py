"""Tables and types: how each source type is stored, and how a table follows schema changes. Pure."""
