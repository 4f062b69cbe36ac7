"""How rows become true in a table: deletes, SCD types, order, metadata columns. Pure."""
