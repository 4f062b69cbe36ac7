"""Servers and suites for tests of sources and formats, for third parties too."""
