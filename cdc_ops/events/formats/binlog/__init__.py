"""Binlogs of MySQL and MariaDB, as records."""
