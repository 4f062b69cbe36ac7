"""Archives of change files on disks and object stores: what is there, by whose clock, and how files end. Spark-free."""
