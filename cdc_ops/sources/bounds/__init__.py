"""The safe upper bound of a window, and what a server shows of its open transactions."""
