"""The commit protocol: how far a table is, its state in the ledger, the record in the Delta commit, and both beside each other. Pure."""
