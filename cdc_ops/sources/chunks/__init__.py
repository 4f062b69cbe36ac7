"""How a table is split for snapshots and for several connections. Pure."""
