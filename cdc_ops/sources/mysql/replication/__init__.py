"""What a server is a part of: its position, its primary, and how far behind that it is."""
