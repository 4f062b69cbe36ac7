"""Real clusters in which several nodes write: no row that is committed late on another node is passed, or the table is refused by name."""

import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pymysql
import pymysql.cursors
import pytest

from cdc_ops.core.cursor.windows import SafeBound
from cdc_ops.core.pipeline.connections import ConnectionUrl
from cdc_ops.core.pipeline.pipeline import SourceConfig, SourceKind
from cdc_ops.core.schema.tables import TableName
from cdc_ops.dev.clusters import GaleraCluster, ReplicationGroup
from cdc_ops.dev.servers import DatabaseServer, MySQLServer
from cdc_ops.errors import SourceError, SourceInterruptedError, SourceTableError, SourceUnreachableError
from cdc_ops.sources.base import Source, open_source
from cdc_ops.sources.bounds.clock import METHOD_REPLICA, METHOD_WRITERS
from cdc_ops.sources.mysql import session as mysql_session
from cdc_ops.sources.mysql.session import CAUSAL_PATIENCE_SECONDS, CAUSAL_WAIT, Address

DB = "nodes"
TABLE = "CREATE TABLE {}.t (id BIGINT AUTO_INCREMENT PRIMARY KEY, v INT, u DATETIME(6) NOT NULL DEFAULT NOW(6) ON UPDATE NOW(6), KEY (u))"


@pytest.fixture(scope="module")
def galera(server_folder: Path) -> Iterator[GaleraCluster]:
    with GaleraCluster(server_folder / "galera", size=3) as cluster:
        cluster.nodes[0].create_database(DB)
        cluster.nodes[0].execute(TABLE.format(DB), f"INSERT INTO {DB}.t (v) VALUES (1), (2), (3)")
        yield cluster


@pytest.fixture(scope="module")
def group(mysql: MySQLServer, server_folder: Path) -> Iterator[ReplicationGroup]:
    with ReplicationGroup(server_folder / "group", all_write=True) as found:
        found.members[0].create_database(DB)
        found.members[0].execute(TABLE.format(DB), f"INSERT INTO {DB}.t (v) VALUES (1), (2), (3)")
        yield found


def url(server: DatabaseServer) -> str:
    return ConnectionUrl.from_parts("mysql", server.host, server.port, server.user, server.password, DB).render()


@contextmanager
def opened(server: DatabaseServer, *others: DatabaseServer, lag: timedelta = timedelta(0)) -> Iterator[Source]:
    kind = SourceKind(server.name.lower())
    config = SourceConfig(kind=kind, connection="a", writers=tuple(f"node_{one.port}" for one in others), replication_lag=lag)
    with closing(open_source(config, url(server), tuple(url(one) for one in others))) as source:
        yield source


def bound(source: Source, column: str = "u") -> SafeBound:
    schema = source.schema(TableName(schema=DB, name="t"))
    cursor, _ = source.cursor(schema, (column,))
    return source.safe_bound(schema, cursor, timedelta(0), None)


def window(source: Source, where: str) -> int:
    """What a plan does: the bound first, then the rows."""
    bound(source)
    return source.count(TableName(schema=DB, name="t"), where, 10)


@contextmanager
def session(server: DatabaseServer) -> Iterator[Callable[[str], Any]]:
    password = server.password.encode()
    login: Any = {"host": server.host, "port": server.port, "user": server.user, "password": password, "database": DB, "autocommit": True}
    with closing(pymysql.connect(**login)) as connection, connection.cursor() as cursor:

        def run(statement: str) -> Any:
            cursor.execute(statement)
            return cursor.fetchall()

        yield run


def passes(source: Source, stamp: str) -> SafeBound:
    end = time.monotonic() + 30
    while (found := bound(source)).value.parts[0] <= stamp:
        assert time.monotonic() < end, f"the bound stays at {found}"
        time.sleep(0.2)
    return found


def a_late_commit_is_read(first: DatabaseServer, second: DatabaseServer, *rest: DatabaseServer) -> None:
    """The second node holds a transaction open while the first one is asked; then it commits."""
    with opened(first, second, *rest) as source, session(second) as writer:
        writer("BEGIN")
        writer("INSERT INTO t (v) VALUES (77)")
        writer("UPDATE t SET v = 78 WHERE v = 3")
        [[stamp]] = writer("SELECT CAST(MIN(u) AS CHAR) FROM t WHERE v IN (77, 78)")
        time.sleep(3)  # longer than clocks may be apart, so that only the open transaction holds the bound
        held = bound(source)
        assert held.value.parts[0] < stamp
        assert f"of the node {second.host}:{second.port}" in held.held_by
        assert f"On {second.host}:{second.port}: " in held.held_hint
        writer("COMMIT")
        assert not passes(source, stamp).held_by
        assert source.count(TableName(schema=DB, name="t"), f"u >= '{stamp}'", 10) == 2


# ------------------------------------------------------------------------------------------------------------------------- Galera


def test_a_cluster_is_refused_by_name_until_all_of_its_nodes_are_named(galera: GaleraCluster) -> None:
    first, second, third = galera.nodes
    with opened(first) as source, pytest.raises(SourceError, match="is a node of a Galera cluster") as alone:
        bound(source)
    assert "'writers'" in alone.value.next
    with opened(first, second) as source, pytest.raises(SourceError) as few:
        bound(source)
    assert "3 nodes can write" in few.value.why
    with opened(first, second, second) as source, pytest.raises(SourceError, match="is not another writing node"):
        bound(source)
    with opened(first, second, third) as source:
        assert bound(source).method == METHOD_WRITERS
        assert "all 3 nodes asked" in source.access(timedelta(0)).version
        with pytest.raises(SourceTableError, match="cannot be read by the counter 'id'"):
            bound(source, "id")
        with opened(second, first, third) as other:
            assert source.origin() == other.origin() != "", "a failover to a node that is asked all the time is no change"


def test_a_declared_lag_reads_a_single_node_that_far_behind_and_says_so(galera: GaleraCluster) -> None:
    with opened(galera.nodes[0], lag=timedelta(minutes=5)) as source:
        found = bound(source)
        assert found.method == METHOD_REPLICA
        assert "'replication_lag'" in " ".join(found.warnings)
        assert found.value.parts[0] < found.clock.parts[0]
        with pytest.raises(SourceTableError):
            bound(source, "id")


def test_a_commit_that_comes_late_on_another_node_of_galera_is_read(galera: GaleraCluster) -> None:
    a_late_commit_is_read(*galera.nodes)


def test_a_node_that_does_not_apply_what_others_commit_is_refused_or_waited_for(galera: GaleraCluster) -> None:
    first, second, third = galera.nodes
    with opened(first, second, third) as source, session(first) as backup, session(second) as writer:
        before = bound(source)
        backup("FLUSH TABLES WITH READ LOCK")
        try:
            writer("INSERT INTO t (v) VALUES (90)")
            [[stamp]] = writer("SELECT CAST(MAX(u) AS CHAR) FROM t WHERE v = 90")
            with pytest.raises(SourceError):
                window(source, "v = 90")
        finally:
            backup("UNLOCK TABLES")
        assert before.value.parts[0] <= stamp
        passes(source, stamp)
        assert source.count(TableName(schema=DB, name="t"), "v = 90", 10) == 1


def test_every_session_that_reads_waits_for_what_other_nodes_have_committed(galera: GaleraCluster) -> None:
    first, second, third = galera.nodes
    with opened(first, second, third) as source:
        read = source.jdbc_read(source.schema(TableName(schema=DB, name="t")), ())
        with session(first) as reader:
            reader(read.session_init)
            assert reader("SELECT @@wsrep_sync_wait") == ((1,),)
        config = SourceConfig(kind=SourceKind.MARIADB, connection="a", writers=("b",))
        native = replace(config, reader=type(config.reader).NATIVE)
        with closing(open_source(native, url(first))) as task:
            found = task.jdbc_read(source.schema(TableName(schema=DB, name="t")), ()).native
            assert found is not None
            assert "wsrep_sync_wait" in Address(found.url).session_settings


def test_a_node_that_cannot_be_reached_stops_the_table_until_it_is_named_no_more(galera: GaleraCluster) -> None:
    first, second, third = galera.nodes
    third.stop()
    with opened(first, second, third) as source, pytest.raises(SourceUnreachableError, match=f":{third.port}"):
        bound(source)
    with opened(first, second) as source:
        assert bound(source).method == METHOD_WRITERS


# -------------------------------------------------------------------------------------------------------------- Group Replication


def test_a_commit_that_comes_late_on_another_member_of_a_group_is_read(group: ReplicationGroup) -> None:
    first, second = group.members
    with opened(first) as source, pytest.raises(SourceError, match="in which every member writes"):
        bound(source)
    a_late_commit_is_read(first, second)


def test_a_member_whose_applier_stands_still_is_refused_or_waited_for(group: ReplicationGroup, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mysql_session, "CAUSAL_WAIT", CAUSAL_WAIT.replace(f"wait_timeout = {CAUSAL_PATIENCE_SECONDS}", "wait_timeout = 4"))
    first, second = group.members
    with session(first) as backup:
        backup("FLUSH TABLES WITH READ LOCK")  # its applier cannot commit
        try:
            second.execute(f"INSERT INTO {DB}.t (v) VALUES (91)")
            with opened(first, second) as source, pytest.raises(SourceInterruptedError):
                window(source, "v = 91")
        finally:
            backup("UNLOCK TABLES")
    with opened(first, second) as source:
        assert source.count(TableName(schema=DB, name="t"), "v = 91", 10) == 1


def test_the_bound_of_an_idle_primary_moves_and_its_secondary_is_no_source(group: ReplicationGroup) -> None:
    first, second = group.members
    [[identity]] = first.execute("SELECT @@server_uuid")
    first.execute(f"SELECT group_replication_switch_to_single_primary_mode('{identity}')")
    with opened(first) as source:
        earlier = bound(source)
        assert not earlier.held_by
        passes(source, earlier.clock.parts[0])
    with opened(second) as source, pytest.raises(SourceError, match="a secondary of a replication group"):
        bound(source)
    with opened(second, lag=timedelta(minutes=1)) as source:
        assert bound(source).method == METHOD_REPLICA
        assert source.origin() == identity, "a secondary's rows are stamped by its primary"
    [[other]] = second.execute("SELECT @@server_uuid")
    second.execute(f"SELECT group_replication_set_as_primary('{other}')")
    with opened(second) as source:
        assert source.origin() == other, "a primary that takes over is another server"
