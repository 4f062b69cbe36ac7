"""From what a record says to values of columns: one by one, and many at once."""
