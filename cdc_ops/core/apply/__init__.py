"""How rows are applied to a table: deletes, SCD types, order, metadata columns. Pure."""
