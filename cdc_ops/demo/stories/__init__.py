"""What the demo tells, phase by phase."""
