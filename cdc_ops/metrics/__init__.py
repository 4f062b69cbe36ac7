"""What monitoring reads of each table: its lag, its last run and its size, from the ledger. No source and no lake is asked."""
