"""What all SQL servers share: sessions, catalogs, cursors, the text of predicates."""
