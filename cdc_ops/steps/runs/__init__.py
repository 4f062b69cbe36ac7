"""Whole runs: groups of tables, leases while Spark works, what was told before."""
