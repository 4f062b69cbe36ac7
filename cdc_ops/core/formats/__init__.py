"""The declared properties of each format of change events: required settings and known losses. Pure."""
