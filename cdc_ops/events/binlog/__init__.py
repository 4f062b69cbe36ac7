"""Binlogs of MySQL and MariaDB, decoded to exact values: the readable reference, without Spark."""
