"""Archived binlogs: what a copy says of itself, and which file comes behind which."""
