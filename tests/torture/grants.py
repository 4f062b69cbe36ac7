"""A login that may not read everything: what a careful administrator gives to a copying program, less one column."""

from collections.abc import Sequence
from typing import Any, Final

from tests.torture.model import Table
from tests.torture.render import Dialect

USER: Final = "torture_less"
PASSWORD: Final = "less-7-than-all"


def grant_less(server: Any, database: str, tables: Sequence[Table], dialect: Dialect) -> None:
    """Makes the login, with all tables of a case; of those with a partial grant it may not read the last column.

    Args:
        server: The server.
        database: The database.
        tables: The tables that were made.
        dialect: How the server writes names.
    """
    if dialect.server == "postgres":
        if not server.execute(f"SELECT 1 FROM pg_roles WHERE rolname = '{USER}'"):
            server.execute(f"CREATE ROLE {USER} LOGIN PASSWORD '{PASSWORD}'", f"GRANT pg_monitor TO {USER}")
        server.execute(f"GRANT USAGE ON SCHEMA public TO {USER}", database=database)
    else:
        server.execute(
            f"CREATE USER IF NOT EXISTS '{USER}'@'%' IDENTIFIED BY '{PASSWORD}'",
            f"GRANT PROCESS, REPLICATION CLIENT, REPLICATION SLAVE ON *.* TO '{USER}'@'%'",
        )
    login = USER if dialect.server == "postgres" else f"'{USER}'@'%'"
    for table in tables:
        listed = ""
        if "partial grant" in table.features:
            shown = [
                *(one.name for one in table.columns[: max(len(table.keys), len(table.columns) - 1)]),
                *(["updated_at"] if table.cursor else []),
            ]
            listed = f" ({', '.join(map(dialect.quote, shown))})"
        server.execute(f"GRANT SELECT{listed} ON {dialect.quote(table.name)} TO {login}", database=database)
