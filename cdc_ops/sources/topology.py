"""Which servers can write the rows of a source: what a server tells about itself, made one value.

A bound is safe only if it knows every transaction that is open anywhere. A server shows its own; so it has to be known whether there
are others, and whether rows arrive here that were stamped elsewhere. Each kind of source asks for the facts; what they mean is here.
"""

import enum
from dataclasses import dataclass

from cdc_ops.core.schema.table_identity import OF_A_NUMBER
from cdc_ops.errors import SourceError

NOTHING = "Nothing was read; the watermark stays."


class Writes(enum.StrEnum):
    """Where rows are written."""

    HERE = "here"
    """On this server alone, as far as it tells; replicas say themselves how far behind they are."""
    ALL_NODES = "all nodes"
    """On any node of a cluster whose nodes can be asked one by one."""
    ELSEWHERE = "elsewhere"
    """On a server that does not show here what is open there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Topology:
    """What a source's server is a part of.

    Args:
        name: What it is, in words.
        writes: Where its rows are written.
        nodes: How many nodes can write; 0 if that is unknown.
        view: Identity of the node and of the cluster's members now: as long as it stays, nobody has joined or left.
        why: Why its own listing is no safe bound; "" if it is.
        instead: What to connect to, or to grant, for a safe bound.
        origin: Who stamps its rows, as the same one says it of itself at any time: the server, the primary, the cluster; "" = not known.
    """

    name: str = "one server"
    writes: Writes = Writes.HERE
    nodes: int = 1
    view: str = ""
    why: str = ""
    instead: str = ""
    origin: str = ""

    def refusal(self, place: str) -> SourceError:
        """Returns the error for a bound that cannot be taken."""
        return SourceError(
            f"The source at {place} is {self.name}: who still writes its rows is not known.",
            why=self.why,
            data=NOTHING,
            next=f"{self.instead}. Or set 'replication_lag' of the source to the longest time after which a row that was stamped anywhere"
            " can be read here: windows then stay that far behind the clock.",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMember:
    """A line of `performance_schema.replication_group_members`."""

    identity: str
    state: str
    role: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MySQLFacts:
    """What a MySQL or MariaDB server tells.

    Args:
        variables: Global variables, names in lower case.
        wsrep: Status of Galera, names in lower case; {} where it is off.
        members: Members of the replication group, None if the user may not see them.
        view: The group's view.
        is_relayed: True if the connection's number is another one than the server greeted with: something stands in between.
    """

    variables: dict[str, str]
    wsrep: dict[str, str]
    members: tuple[GroupMember, ...] | None = ()
    view: str = ""
    is_relayed: bool = False


_SHOWS_ITSELF = "It shows only the transactions of the node that happens to answer."
_DIRECTLY = "Connect directly to the server that writes"


def mysql_topology(facts: MySQLFacts) -> Topology:
    """Returns what the facts of a MySQL or MariaDB server mean."""
    get = facts.variables.get
    version, comment = get("version", ""), get("version_comment", "")
    for mark, name in (("TiDB", "TiDB"), ("Vitess", "Vitess"), ("ProxySQL", "ProxySQL")):
        if mark.lower() in f"{version} {comment}".lower():
            return Topology(name=name, writes=Writes.ELSEWHERE, nodes=0, why=_SHOWS_ITSELF, instead=_DIRECTLY)
    if facts.is_relayed:
        return Topology(name="behind a proxy", writes=Writes.ELSEWHERE, nodes=0, why=_SHOWS_ITSELF, instead=_DIRECTLY)
    if "aurora_version" in facts.variables:
        if get("innodb_read_only") != "ON":
            return Topology(name="the writer of an Aurora cluster")  # its instances have one storage: a failover loses no commit
        why = "A reader of Aurora does not show what is open on the writer, and no replication status tells its lag."
        return Topology(name="a reader of Aurora", writes=Writes.ELSEWHERE, nodes=0, why=why, instead="Connect to the cluster's writer")
    if get("wsrep_on") == "ON" and facts.wsrep:
        return _galera(facts, "mariadb" in version.lower())
    if get("group_replication_group_name"):
        return _group(facts)
    return Topology(origin=_itself(facts))


def _itself(facts: MySQLFacts) -> str:
    """Returns a server's own identity: a MariaDB has only its number, by which replicas know it, too."""
    number = facts.variables.get("server_id", "")
    return facts.variables.get("server_uuid", "") or (f"{OF_A_NUMBER}{number}" if number else "")


def _galera(facts: MySQLFacts, is_mariadb: bool) -> Topology:
    name, status = "a node of a Galera cluster", facts.wsrep
    origin = f"Galera cluster {status['wsrep_cluster_state_uuid']}" if status.get("wsrep_cluster_state_uuid") else ""
    ready = status.get("wsrep_ready") == "ON" and status.get("wsrep_cluster_status") == "Primary" and status.get("wsrep_local_state") == "4"
    if not is_mariadb or not status.get("wsrep_provider_version", "").startswith(("4.", "26.4.")):
        why = "Only with Galera 4 of MariaDB is it known that a read sees all that was committed on other nodes."
    elif not ready:
        why = f"The node is not in step with its cluster ({status.get('wsrep_local_state_comment', 'no state')})."
    else:
        view = " ".join(status.get(f"wsrep_{part}", "") for part in ("gcomm_uuid", "cluster_state_uuid", "cluster_conf_id"))
        return Topology(
            name=name,
            writes=Writes.ALL_NODES,
            nodes=int(status.get("wsrep_cluster_size", "0")),
            view=view,
            why="Every node can write, and each shows only its own transactions.",
            instead="Name the connections of all other nodes in 'writers' of the source",
            origin=origin,
        )
    return Topology(name=name, writes=Writes.ELSEWHERE, nodes=0, why=why, instead="Connect to a node of which that is true", origin=origin)


def _group(facts: MySQLFacts) -> Topology:
    get = facts.variables.get
    is_read_only, is_single = get("super_read_only") == "ON", get("group_replication_single_primary_mode") == "ON"
    if facts.members is None:
        if is_single and not is_read_only:
            return Topology(name="the primary of a replication group", origin=_itself(facts))
        why = "The user may not see the members of the group."
        grant = "GRANT SELECT ON performance_schema.* TO the user of the connection"
        return Topology(name="a member of a replication group", writes=Writes.ELSEWHERE, nodes=0, why=why, instead=grant)
    mine = next((one for one in facts.members if one.identity == get("server_uuid")), None)
    if mine is None or mine.state == "OFFLINE":
        return Topology(origin=_itself(facts))  # its group was left, or is not started: it is a server of its own
    primary = next((one.identity for one in facts.members if one.role == "PRIMARY"), "")
    origin = primary if is_single else f"replication group {get('group_replication_group_name')}"
    if mine.state != "ONLINE" or (is_single and mine.role != "PRIMARY"):
        role = "a secondary" if mine.state == "ONLINE" else f"a member in state {mine.state}"
        why = "It shows nothing of what is open on the group's primary, and no replication status tells its lag."
        return Topology(
            name=f"{role} of a replication group",
            writes=Writes.ELSEWHERE,
            nodes=0,
            why=why,
            instead="Connect to the group's primary",
            origin=origin,
        )
    if is_single:
        return Topology(name="the primary of a replication group", view=f"{mine.identity} {facts.view}", origin=origin)
    return Topology(
        name="a member of a replication group in which every member writes",
        writes=Writes.ALL_NODES,
        nodes=len([one for one in facts.members if one.state != "OFFLINE"]),
        view=f"{mine.identity} {facts.view} {sorted((one.identity, one.state) for one in facts.members)}",
        why="Every member can write, and each shows only its own transactions.",
        instead="Name the connections of all other members in 'writers' of the source",
        origin=origin,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PostgresFacts:
    """What a Postgres server tells.

    Args:
        version: Its version, in its own words.
        extensions: Extensions of the database.
        subscriptions: Subscriptions of the database that are switched on.
        is_aurora: True if it has functions of Aurora.
        is_standby: True if it is in recovery.
    """

    version: str
    extensions: tuple[str, ...] = ()
    subscriptions: tuple[str, ...] = ()
    is_aurora: bool = False
    is_standby: bool = False


def postgres_topology(facts: PostgresFacts) -> Topology:
    """Returns what the facts of a Postgres server mean."""
    for mark, name in (("CockroachDB", "CockroachDB"), ("-YB-", "YugabyteDB")):
        if mark in facts.version:
            return Topology(name=name, writes=Writes.ELSEWHERE, nodes=0, why=_SHOWS_ITSELF, instead="Use the log method")
    for extension, name in (("citus", "a node of Citus"), ("bdr", "a node of PGD"), ("spock", "a node of pgEdge")):
        if extension in facts.extensions:
            return Topology(name=name, writes=Writes.ELSEWHERE, nodes=0, why=_SHOWS_ITSELF, instead="Use the log method")
    if facts.is_aurora and facts.is_standby:
        why = "A reader of Aurora does not show what is open on the writer."
        return Topology(name="a reader of Aurora", writes=Writes.ELSEWHERE, nodes=0, why=why, instead="Connect to the cluster's writer")
    if facts.subscriptions:
        return Topology(
            name=f"a subscriber of logical replication ({', '.join(facts.subscriptions)})",
            writes=Writes.ELSEWHERE,
            nodes=0,
            why="Rows that a subscription applies have the time at which they were written at its publisher.",
            instead="Connect to the publisher",
        )
    return Topology(name="the writer of an Aurora cluster") if facts.is_aurora else Topology()
