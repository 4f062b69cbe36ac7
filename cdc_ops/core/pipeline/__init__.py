"""Pipelines: settings, connections, paths, and which tables they mean. Pure."""
