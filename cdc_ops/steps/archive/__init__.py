"""An archive at the plan: what is new, whether anything is missing, what the ledger keeps of it. No Spark here."""
