"""Database servers for tests and the demo."""
