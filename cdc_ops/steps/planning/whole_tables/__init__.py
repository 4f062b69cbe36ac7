"""Plans that read a table whole."""
