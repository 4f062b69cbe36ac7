"""How the files of a Delta table lie: which of them to write again, and which layout would pay. Pure."""
