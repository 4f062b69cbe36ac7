"""Real database servers, each in a separate folder; outside the data path, for tests, the demo and authors of sources.

    with MariaDBServer(folder) as server:
        server.create_database("shop")
        server.execute("CREATE TABLE shop.orders (id INT PRIMARY KEY)")
        engine = sqlalchemy.create_engine(server.url("shop"))

A server listens on the loopback address only, on a free port. It has two logins with generated passwords: an administrator for `execute`,
and `cdc` for the code under test.

`python -m cdc_ops.dev.servers` only installs or downloads the servers' programs.
"""

import sys

from cdc_ops.dev.databases.database_server import DatabaseServer
from cdc_ops.dev.databases.mariadb import MariaDBServer
from cdc_ops.dev.databases.mysql import MySQLServer
from cdc_ops.dev.databases.postgres import PostgresServer
from cdc_ops.dev.processes import stop_from_pidfile
from cdc_ops.errors import EnvironmentSetupError

__all__ = ["DatabaseServer", "MariaDBServer", "MySQLServer", "PostgresServer", "stop_from_pidfile"]


NEEDED: tuple[type[DatabaseServer], ...] = (MariaDBServer, PostgresServer)
OPTIONAL: tuple[type[DatabaseServer], ...] = (MySQLServer,)
"""Servers that not every machine can run; tests that need one are skipped there, with a message."""


def main() -> int:
    """Installs or downloads every kind of server; optional ones may be missing."""
    for kind in NEEDED + OPTIONAL:
        try:
            print(f"{kind.name}: {kind.ensure_installed()}", file=sys.stderr, flush=True)
        except EnvironmentSetupError as error:
            print(error, file=sys.stderr)
            if kind in NEEDED:
                return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
