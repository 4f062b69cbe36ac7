"""Pipeline files: YAML in, core values out."""
