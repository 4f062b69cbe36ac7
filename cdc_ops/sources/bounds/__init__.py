"""The safe upper bound of a window, and the open transactions of a server."""
