"""The ledger's tables and statements."""
