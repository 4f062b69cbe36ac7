"""The byte layout of binlogs of MySQL and MariaDB: events, checksums, GTID sets, what a file begins and ends with. Pure."""
