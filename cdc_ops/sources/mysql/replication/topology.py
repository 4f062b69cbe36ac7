"""Asks a MySQL or MariaDB server what it is a part of; what the answers mean is in sources/topology.py."""

from typing import Final

from cdc_ops.sources.mysql.session import MySQLSession
from cdc_ops.sources.topology import GroupMember, MySQLFacts, Topology, mysql_topology

_NAMES: Final = (
    *("version", "version_comment", "server_uuid", "server_id", "super_read_only", "innodb_read_only", "aurora_version"),
    *("wsrep_on", "group_replication_group_name", "group_replication_single_primary_mode"),
)
_VARIABLES: Final = f"SHOW GLOBAL VARIABLES WHERE Variable_name IN ({', '.join(repr(name) for name in _NAMES)})"
_MEMBERS: Final = (
    "SELECT m.MEMBER_ID AS identity, m.MEMBER_STATE AS state, m.MEMBER_ROLE AS role, s.VIEW_ID AS view"
    " FROM performance_schema.replication_group_members AS m"
    " LEFT JOIN performance_schema.replication_group_member_stats AS s ON s.MEMBER_ID = m.MEMBER_ID"
)


def read_topology(session: MySQLSession) -> Topology:
    """Returns what the server is a part of, as of now."""
    variables = {str(row["variable_name"]).lower(): str(row["value"]) for row in session.rows(_VARIABLES)}
    wsrep: dict[str, str] = {}
    if variables.get("wsrep_on") == "ON":
        wsrep = {str(row["variable_name"]).lower(): str(row["value"]) for row in session.rows("SHOW GLOBAL STATUS LIKE 'wsrep_%'")}
    rows = session.rows_if_allowed(_MEMBERS) if variables.get("group_replication_group_name") else []
    members = None if rows is None else tuple(_member(row) for row in rows if row["identity"])
    view = next((str(row["view"]) for row in rows or [] if row["view"]), "")
    return mysql_topology(
        MySQLFacts(variables=variables, wsrep=wsrep, members=members, view=view, is_relayed=session.is_relayed),
    )


def _member(row: dict[str, object]) -> GroupMember:
    return GroupMember(identity=str(row["identity"]), state=str(row["state"]), role=str(row["role"]))


def wait_for_group(session: MySQLSession) -> None:
    """Waits until the server has applied what its group had ordered: a new primary may still be at what the old one has written.

    Raises:
        SourceError: it does not get there.
    """
    patience = int(session.row("SELECT @@session.wait_timeout AS patience")["patience"])
    session.execute("SET SESSION group_replication_consistency = 'BEFORE', wait_timeout = 30")
    try:
        session.rows("SELECT COUNT(*) AS n FROM information_schema.innodb_metrics WHERE name = 'cdc-ops'")
    finally:
        session.execute(f"SET SESSION group_replication_consistency = DEFAULT, wait_timeout = {patience}")
