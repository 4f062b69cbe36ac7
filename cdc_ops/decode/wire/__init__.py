"""Rows as a server sends them, made columns of Arrow: what the wire looks like is here, how it is reached is the sources'."""
