"""A table's columns at the plan: those that change, are added, are read and not stored, and keys beside themselves. No Spark here."""
