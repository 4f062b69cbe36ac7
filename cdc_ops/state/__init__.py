"""The ledger: watermarks, runs and leases."""
