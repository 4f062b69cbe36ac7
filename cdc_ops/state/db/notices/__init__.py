"""What people were told and asked, in tables of the ledger."""
