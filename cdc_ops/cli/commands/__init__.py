"""The commands of `cdc-ops`, a module for each group. A module of this folder is a part of the command line by being here."""
