"""Real database servers, each started in a folder of its own; outside the data path, for tests, the demo and authors of sources.

    with MariaDBServer(folder) as server:
        server.create_database("shop")
        server.execute("CREATE TABLE shop.orders (id INT PRIMARY KEY)")
        engine = sqlalchemy.create_engine(server.url("shop"))

A server listens on the loopback address only, on a free port, and knows two logins with generated passwords: an administrator,
which `execute` uses, and `cdc`, which everything under test should use.
"""

from cdc_ops.testing.database_server import DatabaseServer
from cdc_ops.testing.mariadb import MariaDBServer
from cdc_ops.testing.postgres import PostgresServer
from cdc_ops.testing.processes import stop_from_pidfile

__all__ = ["DatabaseServer", "MariaDBServer", "PostgresServer", "stop_from_pidfile"]
