"""Servers and tools for tests, the demo and authors of sources: installed or fetched, started, stopped. Outside the data path."""
