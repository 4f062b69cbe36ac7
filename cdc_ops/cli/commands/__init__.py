"""The commands of `cdc-ops`, a module for each group."""
