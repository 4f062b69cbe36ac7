"""What people were told and asked, as the ledger keeps it."""
