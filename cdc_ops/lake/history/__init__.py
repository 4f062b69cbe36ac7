"""The event history of a table: written, read, and made of rows."""
