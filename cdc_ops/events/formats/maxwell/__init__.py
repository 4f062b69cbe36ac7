"""Maxwell."""
