"""Who is told what is wrong: the ledger says what, `notify` in the pipeline file says whom. No source and no lake is asked."""
