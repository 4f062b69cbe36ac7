"""Archives of change files on disks and object stores: listings, clocks, and file endings. Spark-free."""
