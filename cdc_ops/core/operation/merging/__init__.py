"""How a landed batch enters its table: the plan, the statement, and what it says of the commit. Pure."""
