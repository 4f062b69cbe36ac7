"""A pipeline file as data that knows its lines, and its problems in the file's own words."""
