"""Canal, and TiCDC, which writes the same messages."""
