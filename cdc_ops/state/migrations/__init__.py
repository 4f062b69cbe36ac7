"""Migrations of the ledger: numbered, forward only, applied under a lock when a ledger is opened."""
