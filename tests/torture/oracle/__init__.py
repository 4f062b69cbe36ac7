"""What is true: the source by its own text, the lake by its log and files. Nothing of the package is imported here; a test holds that."""
