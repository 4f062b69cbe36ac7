"""Servers and tools for tests, the demo and authors of sources: started, stopped, fetched where they are missing. Outside the data path."""
