"""Suites and servers for tests of sources and formats, also for third parties."""
