"""Types of the servers and what they become."""
