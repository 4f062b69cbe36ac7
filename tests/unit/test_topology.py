"""What a source's server is a part of, by what it tells: only a server that shows all who write its rows is taken for one."""

from typing import Any

import pytest

from cdc_ops.sources.topology import GroupMember, MySQLFacts, PostgresFacts, Writes, mysql_topology, postgres_topology

ME, OTHER = "00000000-0000-0000-0000-00000000000a", "00000000-0000-0000-0000-00000000000b"
SYNCED = {
    "wsrep_ready": "ON",
    "wsrep_cluster_status": "Primary",
    "wsrep_local_state": "4",
    "wsrep_provider_version": "4.23(rXXXX)",
    "wsrep_cluster_size": "3",
    "wsrep_gcomm_uuid": "n",
    "wsrep_cluster_state_uuid": "c",
    "wsrep_cluster_conf_id": "7",
}
MARIADB = {"version": "11.4.5-MariaDB-log", "wsrep_on": "ON"}
GROUP = {"version": "9.7.4", "server_uuid": ME, "group_replication_group_name": "g", "super_read_only": "OFF"}
SINGLE = GROUP | {"group_replication_single_primary_mode": "ON"}
MULTI = GROUP | {"group_replication_single_primary_mode": "OFF"}
PRIMARY, SECONDARY = ("ONLINE", "PRIMARY"), ("ONLINE", "SECONDARY")


def group(variables: dict[str, str], *members: tuple[str, str]) -> MySQLFacts:
    found = tuple(GroupMember(identity=one, state=state, role=role) for one, (state, role) in zip((ME, OTHER), members, strict=False))
    return MySQLFacts(variables=variables, wsrep={}, members=found, view="v")


def mysql(variables: dict[str, str], **facts: Any) -> MySQLFacts:
    return MySQLFacts(**{"variables": variables, "wsrep": {}} | facts)


HERE, ALL, ELSEWHERE = Writes.HERE, Writes.ALL_NODES, Writes.ELSEWHERE


@pytest.mark.parametrize(
    ("facts", "writes", "nodes", "said"),
    [
        (mysql({"version": "9.7.4"}), HERE, 1, "one server"),
        (mysql({"version": "11.4.5-MariaDB", "wsrep_on": "OFF"}), HERE, 1, "one server"),
        (mysql({"version": "8.0.11-TiDB-v8.5.1"}), ELSEWHERE, 0, "TiDB"),
        (mysql({"version": "8.0.30-Vitess"}), ELSEWHERE, 0, "Vitess"),
        (mysql({"version": "8.0.36", "version_comment": "(ProxySQL)"}), ELSEWHERE, 0, "ProxySQL"),
        (mysql({"version": "9.7.4"}, is_relayed=True), ELSEWHERE, 0, "behind a proxy"),
        (mysql({"version": "8.0.39", "aurora_version": "3.8", "innodb_read_only": "OFF"}), HERE, 1, "the writer of an Aurora"),
        (mysql({"version": "8.0.39", "aurora_version": "3.8", "innodb_read_only": "ON"}), ELSEWHERE, 0, "a reader of Aurora"),
        (mysql(MARIADB, wsrep=SYNCED), ALL, 3, "a node of a Galera cluster"),
        (mysql(MARIADB, wsrep=SYNCED | {"wsrep_local_state": "2"}), ELSEWHERE, 0, "not in step"),
        (mysql(MARIADB, wsrep=SYNCED | {"wsrep_cluster_status": "non-Primary"}), ELSEWHERE, 0, "not in step"),
        (mysql(MARIADB, wsrep=SYNCED | {"wsrep_provider_version": "3.37(r)"}), ELSEWHERE, 0, "Only with Galera 4"),
        (mysql({"version": "8.0.36-28.1", "wsrep_on": "ON"}, wsrep=SYNCED), ELSEWHERE, 0, "Only with Galera 4 of MariaDB"),
        (group(SINGLE, PRIMARY, SECONDARY), HERE, 1, "the primary of a replication group"),
        (group(SINGLE | {"super_read_only": "ON"}, SECONDARY, PRIMARY), ELSEWHERE, 0, "a secondary of a replication group"),
        (group(SINGLE, ("RECOVERING", "SECONDARY"), PRIMARY), ELSEWHERE, 0, "in state RECOVERING"),
        (group(SINGLE, ("ERROR", "")), ELSEWHERE, 0, "in state ERROR"),
        (group(SINGLE, ("OFFLINE", "")), HERE, 1, "one server"),
        (group(SINGLE), HERE, 1, "one server"),
        (group(MULTI, PRIMARY, PRIMARY), ALL, 2, "every member writes"),
        (group(MULTI, PRIMARY, ("RECOVERING", "PRIMARY")), ALL, 2, "every member writes"),
        (mysql(SINGLE, members=None), HERE, 1, "the primary of a replication group"),
        (mysql(SINGLE | {"super_read_only": "ON"}, members=None), ELSEWHERE, 0, "may not see the members"),
        (mysql(MULTI, members=None), ELSEWHERE, 0, "GRANT SELECT ON performance_schema"),
    ],
)
def test_a_server_of_mysql_is_what_it_tells(facts: MySQLFacts, writes: Writes, nodes: int, said: str) -> None:
    found = mysql_topology(facts)
    assert (found.writes, found.nodes) == (writes, nodes)
    assert said in f"{found.name} {found.why} {found.instead}"
    assert bool(found.why) is (writes is not HERE)


@pytest.mark.parametrize(
    ("facts", "writes", "said"),
    [
        (PostgresFacts(version="PostgreSQL 15.14"), HERE, "one server"),
        (PostgresFacts(version="PostgreSQL 15.14", is_standby=True), HERE, "one server"),  # its lag is known
        (PostgresFacts(version="PostgreSQL 15.14", subscriptions=("orders",)), ELSEWHERE, "logical replication (orders)"),
        (PostgresFacts(version="PostgreSQL 15.14", extensions=("plpgsql", "citus")), ELSEWHERE, "Citus"),
        (PostgresFacts(version="PostgreSQL 15.14", extensions=("spock",)), ELSEWHERE, "pgEdge"),
        (PostgresFacts(version="PostgreSQL 15.14", extensions=("bdr",)), ELSEWHERE, "PGD"),
        (PostgresFacts(version="PostgreSQL 15.2-YB-2025.1"), ELSEWHERE, "YugabyteDB"),
        (PostgresFacts(version="CockroachDB CCL v25.4"), ELSEWHERE, "CockroachDB"),
        (PostgresFacts(version="PostgreSQL 16.4", is_aurora=True), HERE, "the writer of an Aurora"),
        (PostgresFacts(version="PostgreSQL 16.4", is_aurora=True, is_standby=True), ELSEWHERE, "a reader of Aurora"),
    ],
)
def test_a_server_of_postgres_is_what_it_tells(facts: PostgresFacts, writes: Writes, said: str) -> None:
    found = postgres_topology(facts)
    assert (found.writes, bool(found.why)) == (writes, writes is not HERE)
    assert said in found.name


def test_a_view_changes_with_every_member_that_comes_goes_or_changes_its_state() -> None:
    views = [
        mysql_topology(group(MULTI, PRIMARY, PRIMARY)).view,
        mysql_topology(group(MULTI, PRIMARY)).view,
        mysql_topology(group(MULTI, PRIMARY, ("UNREACHABLE", "PRIMARY"))).view,
        *(mysql_topology(mysql(MARIADB, wsrep=SYNCED | {"wsrep_cluster_conf_id": text})).view for text in "78"),
    ]
    assert len(set(views)) == len(views)


def test_a_refusal_names_the_server_what_it_is_and_both_ways_out() -> None:
    error = mysql_topology(mysql(MARIADB, wsrep=SYNCED)).refusal("db:3306")
    assert "db:3306 is a node of a Galera cluster" in str(error)
    assert "'writers'" in error.next
    assert "'replication_lag'" in error.next


SERVER = {"version": "9.7.4", "server_uuid": ME}


@pytest.mark.parametrize(
    ("facts", "origin"),
    [
        (mysql(SERVER), ME),
        (mysql({"version": "11.4.5-MariaDB", "server_id": "3"}), "server_id 3"),
        (mysql(SERVER | {"aurora_version": "3.8", "innodb_read_only": "OFF"}), ""),
        (mysql(SERVER, is_relayed=True), ""),
        (mysql(MARIADB, wsrep=SYNCED), "Galera cluster c"),
        (mysql(MARIADB, wsrep=SYNCED | {"wsrep_local_state": "2"}), "Galera cluster c"),
        (group(SINGLE, PRIMARY, SECONDARY), ME),
        (group(SINGLE | {"super_read_only": "ON"}, SECONDARY, PRIMARY), OTHER),
        (group(SINGLE, ("OFFLINE", "")), ME),
        (group(MULTI, PRIMARY, PRIMARY), "replication group g"),
        (mysql(SINGLE, members=None), ME),
    ],
)
def test_nodes_that_write_together_are_one_origin_and_a_primary_that_takes_over_is_another(facts: MySQLFacts, origin: str) -> None:
    assert mysql_topology(facts).origin == origin
