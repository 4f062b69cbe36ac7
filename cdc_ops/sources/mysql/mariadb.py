"""The MariaDB source: MySQL's, with the same protocol and SQL.

What the two servers do differently (replica status, the read-only setting, milliseconds in the process list, how old
`information_schema` is) is decided by what the server itself reports, so that a `mysql` source that leads to a MariaDB works as well.
"""

from cdc_ops.sources.mysql.source import MySQLSource


class MariaDBSource(MySQLSource):
    """A MariaDB server; see `Source` for what each method promises."""
