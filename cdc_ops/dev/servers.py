"""Real database servers, each started in a folder of its own; outside the data path, for tests, the demo and authors of sources.

    with MariaDBServer(folder) as server:
        server.create_database("shop")
        server.execute("CREATE TABLE shop.orders (id INT PRIMARY KEY)")
        engine = sqlalchemy.create_engine(server.url("shop"))

A server listens on the loopback address only, on a free port, and knows two logins with generated passwords: an administrator,
which `execute` uses, and `cdc`, which everything under test should use.

Run as `python -m cdc_ops.dev.servers` it brings the servers' programs onto this machine and starts nothing.
"""

import sys

from cdc_ops.dev.database_server import DatabaseServer
from cdc_ops.dev.mariadb import MariaDBServer
from cdc_ops.dev.mysql import MySQLServer
from cdc_ops.dev.postgres import PostgresServer
from cdc_ops.dev.processes import stop_from_pidfile
from cdc_ops.errors import EnvironmentSetupError

__all__ = ["DatabaseServer", "MariaDBServer", "MySQLServer", "PostgresServer", "stop_from_pidfile"]


NEEDED: tuple[type[DatabaseServer], ...] = (MariaDBServer, PostgresServer)
OPTIONAL: tuple[type[DatabaseServer], ...] = (MySQLServer,)
"""Not to be had on every machine; tests that need one are skipped there, and say so."""


def main() -> int:
    """Makes sure that every kind of server can be started here; one that is optional may be missing."""
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
