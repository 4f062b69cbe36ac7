"""Binlogs of MySQL and MariaDB servers: which there are, and their bytes through the replication protocol."""
