"""A table's policies at the plan: columns, keys, deletes, storage. No Spark here."""
