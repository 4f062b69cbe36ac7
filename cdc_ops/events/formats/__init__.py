"""The formats of change records, one module a tool."""
