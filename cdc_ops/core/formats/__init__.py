"""What each format of change events declares of itself: settings that it needs, and losses that are known. Pure."""
