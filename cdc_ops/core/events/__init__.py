"""Change events of the log method: what they may say, in which order, and what is kept of them. Pure."""
