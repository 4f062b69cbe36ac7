"""Tables whose key, log or place does not promise what a copy needs: refused by name, or told, by every plan and check."""

import uuid
from typing import Any

import pytest

from cdc_ops.core.pipeline.connections import ConnectionUrl
from cdc_ops.core.pipeline.pipeline import Pipeline, SourceConfig, SourceKind, TableConfig, TargetConfig
from cdc_ops.core.pipeline.table_settings import Method, TableSettings
from cdc_ops.core.schema.tables import TableName
from cdc_ops.dev.servers import DatabaseServer, MariaDBServer, MySQLServer, PostgresServer
from cdc_ops.errors import SourceTableError
from cdc_ops.sources.base import open_source
from cdc_ops.steps.table.source_table import read_source_table


class Tables:
    """A database of one test."""

    def __init__(self, server: DatabaseServer, *statements: str) -> None:
        self.server, self.database = server, f"traits_{uuid.uuid4().hex[:8]}"
        server.create_database(self.database)
        server.execute(*statements, database=self.database)
        postgres = isinstance(server, PostgresServer)
        self.schema = "public" if postgres else self.database
        login = (server.host, server.port, server.user, server.password, self.database)
        self.url = ConnectionUrl.from_parts("postgresql" if postgres else "mysql", *login).render()

    def warnings(self, table: str, **settings: Any) -> tuple[str, ...]:
        config = SourceConfig(kind=SourceKind(self.server.name.lower()), connection="shop_db")
        pipeline = Pipeline.of(name="shop", source=config, target=TargetConfig(root="/lake", staging="/staging"), tables=())
        source = open_source(config, self.url)
        try:
            name = TableName(schema=self.schema, name=table)
            return read_source_table(
                pipeline, source, TableConfig(pipeline="shop", table=name, path="/lake/t", settings=TableSettings.of(**settings))
            ).warnings
        finally:
            source.close()

    def refusal(self, table: str, **settings: Any) -> str:
        with pytest.raises(SourceTableError) as caught:
            self.warnings(table, **settings)
        return str(caught.value)


LOG: dict[str, Any] = {"method": Method.LOG, "cursor": ()}
WHOLE: dict[str, Any] = {"cursor": ()}


def test_a_table_with_children_is_refused_because_its_key_does_not_bind_their_rows(postgres: PostgresServer) -> None:
    tables = Tables(
        postgres,
        "CREATE TABLE p (id int PRIMARY KEY, name text, updated_at timestamptz NOT NULL DEFAULT now())",
        "CREATE TABLE c (breed text, PRIMARY KEY (id)) INHERITS (p)",
        "INSERT INTO p (id, name) VALUES (1, 'a')",
        "INSERT INTO c (id, name) VALUES (2, 'x'), (1, 'same id')",
        "CREATE TABLE parted (id int PRIMARY KEY) PARTITION BY RANGE (id)",
        "CREATE TABLE parted_1 PARTITION OF parted FOR VALUES FROM (0) TO (10)",
    )
    refused = tables.refusal("p", cursor=("updated_at",))
    assert "Other tables inherit from public.p: c." in refused
    assert "'keys: [...]'" in refused
    assert tables.refusal("p", **WHOLE) == refused
    [told] = [text for text in tables.warnings("p", cursor=("updated_at",), keys=("id", "name")) if "inherit" in text]
    assert "'keys' (id, name) have to be unique over all of them" in told
    assert "under the child's name" in tables.refusal("p", keys=("id", "name"), **LOG)
    assert tables.warnings("c", **WHOLE) == tables.warnings("parted", **WHOLE) == ()


def test_changes_that_no_log_has_are_refused_where_the_log_is_followed(postgres: PostgresServer) -> None:
    tables = Tables(
        postgres,
        "CREATE UNLOGGED TABLE quick (id int PRIMARY KEY)",
        "CREATE TABLE parted (id int PRIMARY KEY) PARTITION BY RANGE (id)",
        "CREATE UNLOGGED TABLE parted_1 PARTITION OF parted FOR VALUES FROM (0) TO (10)",
    )
    assert "SET LOGGED" in tables.refusal("quick", **LOG)
    assert "UNLOGGED" in tables.refusal("parted", **LOG)
    assert tables.warnings("quick", **WHOLE) == ()


def test_columns_that_postgres_computes_are_refused_where_its_log_is_followed(postgres: PostgresServer) -> None:
    tables = Tables(postgres, "CREATE TABLE computed (id int PRIMARY KEY, half int GENERATED ALWAYS AS (id / 2) STORED)")
    refused = tables.refusal("computed", **LOG)
    assert "column 'half'" in refused
    assert "except_column_list: [half]" in refused
    assert tables.warnings("computed", except_column_list=("half",), **LOG) == ()
    assert tables.warnings("computed", **WHOLE) == ()


def test_a_partitioned_table_is_refused_where_the_log_names_its_partitions(postgres: PostgresServer) -> None:
    tables = Tables(
        postgres,
        "CREATE TABLE parted (id int PRIMARY KEY) PARTITION BY HASH (id)",
        "CREATE TABLE parted_1 PARTITION OF parted FOR VALUES WITH (MODULUS 1, REMAINDER 0)",
    )
    for publication in ("", "CREATE PUBLICATION shop FOR TABLE parted"):
        if publication:
            postgres.execute(publication, database=tables.database)
        refused = tables.refusal("parted", **LOG)
        assert "The log names the partitions of public.parted" in refused
        assert "publish_via_partition_root = true" in refused
    assert tables.warnings("parted", **WHOLE) == ()
    postgres.execute("ALTER PUBLICATION shop SET (publish_via_partition_root = true)", database=tables.database)
    [told] = tables.warnings("parted", **LOG)
    assert "truncated, dropped, attached or detached" in told
    postgres.execute("CREATE PUBLICATION other FOR TABLE parted", database=tables.database)
    assert "other (leaves out the name of the table)" in tables.warnings("parted", **LOG)[1]


def test_a_publication_that_leaves_changes_out_is_told(postgres: PostgresServer) -> None:
    tables = Tables(
        postgres,
        "CREATE TABLE whole (id int PRIMARY KEY, name text)",
        "CREATE TABLE part (id int PRIMARY KEY, name text)",
        "CREATE PUBLICATION all_of_it FOR TABLE whole, part",
        "CREATE PUBLICATION narrow FOR TABLE part (id) WHERE (id > 0) WITH (publish = 'insert, update')",
    )
    assert tables.warnings("whole", **LOG) == ()
    [told] = tables.warnings("part", **LOG)
    assert "narrow (leaves out deletes, TRUNCATE, rows (WHERE), columns)" in told
    assert "all_of_it" not in told
    assert tables.warnings("part", **WHOLE) == ()
    postgres.execute("CREATE PUBLICATION everything FOR ALL TABLES WITH (publish = 'insert, update, truncate')", database=tables.database)
    [told] = tables.warnings("whole", **LOG)
    assert "everything (leaves out deletes)" in told


def test_rows_that_another_server_or_table_keeps_are_followed_by_no_bound(postgres: PostgresServer, mariadb: MariaDBServer) -> None:
    foreign = Tables(
        postgres,
        "CREATE FOREIGN DATA WRAPPER dummy",
        "CREATE SERVER far FOREIGN DATA WRAPPER dummy",
        "CREATE TABLE parted (id int, updated_at timestamptz NOT NULL) PARTITION BY RANGE (id)",
        "CREATE FOREIGN TABLE parted_1 PARTITION OF parted FOR VALUES FROM (0) TO (10) SERVER far",
        "CREATE FOREIGN TABLE lone (id int) SERVER far",
    )
    assert "lone is a foreign table" in foreign.refusal("lone")
    assert "Copy it from the server that has its rows." in foreign.refusal("lone")
    refused = foreign.refusal("parted", cursor=("updated_at",), keys=("id",))
    assert "another server (foreign tables among its partitions: parted_1)" in refused
    union = Tables(
        mariadb,
        "CREATE TABLE one (id INT PRIMARY KEY) ENGINE=MyISAM",
        "CREATE TABLE two (id INT PRIMARY KEY) ENGINE=MyISAM",
        "CREATE TABLE both_of (id INT PRIMARY KEY) ENGINE=MERGE UNION=(one, two)",
        "INSERT INTO one VALUES (1)",
        "INSERT INTO two VALUES (1)",
    )
    assert "the tables of its UNION (ENGINE=MRG_MyISAM)" in union.refusal("both_of", **WHOLE)
    assert "ENGINE=MRG_MyISAM" in union.refusal("both_of", keys=("id",), **LOG)
    assert union.warnings("both_of", keys=("id",), **WHOLE) == union.warnings("one", **WHOLE) == ()


def test_a_system_versioned_table_is_refused_where_its_log_is_followed_and_read_as_it_is_now(mariadb: MariaDBServer) -> None:
    tables = Tables(
        mariadb,
        "CREATE TABLE implied (id INT PRIMARY KEY, t VARCHAR(20)) WITH SYSTEM VERSIONING",
        "CREATE TABLE declared (id INT PRIMARY KEY, a TIMESTAMP(6) GENERATED ALWAYS AS ROW START,"
        " b TIMESTAMP(6) GENERATED ALWAYS AS ROW END, PERIOD FOR SYSTEM_TIME (a, b)) WITH SYSTEM VERSIONING",
        "CREATE TABLE plain (id INT PRIMARY KEY)",
    )
    for table in ("implied", "declared"):
        assert f"{table} is system-versioned" in tables.refusal(table, **LOG)
        assert tables.warnings(table, **WHOLE) == ()
    assert tables.warnings("plain", **LOG) == ()


FAMILY = (
    "CREATE TABLE parent (id INT PRIMARY KEY)",
    "CREATE TABLE child (id INT PRIMARY KEY, p INT, updated_at TIMESTAMP(6) NOT NULL DEFAULT NOW(6) ON UPDATE NOW(6), KEY (updated_at),"
    " CONSTRAINT goes FOREIGN KEY (p) REFERENCES parent (id) ON DELETE CASCADE)",
    "CREATE TABLE ward (id INT PRIMARY KEY, p INT, updated_at TIMESTAMP(6) NOT NULL DEFAULT NOW(6) ON UPDATE NOW(6), KEY (updated_at),"
    " CONSTRAINT moves FOREIGN KEY (p) REFERENCES parent (id) ON DELETE SET NULL ON UPDATE CASCADE)",
    "CREATE TABLE free (id INT PRIMARY KEY, p INT, updated_at TIMESTAMP(6) NOT NULL DEFAULT NOW(6) ON UPDATE NOW(6), KEY (updated_at),"
    " CONSTRAINT stays FOREIGN KEY (p) REFERENCES parent (id))",
)
CURSOR: dict[str, Any] = {"cursor": ("updated_at",)}


def test_rows_that_foreign_keys_change_beneath_the_binlog_are_told(mariadb: MariaDBServer) -> None:
    tables = Tables(mariadb, *FAMILY)
    [told] = tables.warnings("child", **LOG)
    assert "foreign key goes of parent (ON DELETE CASCADE), and its binlog does not have that" in told
    [told] = tables.warnings("ward", **LOG)
    assert "moves of parent (ON DELETE SET NULL, ON UPDATE CASCADE)" in told
    assert tables.warnings("free", **LOG) == tables.warnings("parent", **LOG) == ()


def test_a_mysql_whose_binlog_has_what_foreign_keys_change_is_not_accused(mysql: MySQLServer) -> None:
    tables = Tables(mysql, *FAMILY)
    for table in ("child", "ward", "free", "parent"):
        assert tables.warnings(table, **LOG) == ()
    # The premise, by the binlog itself: a delete of the child's row stands in it, although nobody wrote it.
    mysql.execute("INSERT INTO parent VALUES (1)", "INSERT INTO child (id, p) VALUES (7, 1)", database=tables.database)
    mysql.execute("DELETE FROM parent WHERE id = 1", database=tables.database)
    log = mysql.execute("SHOW BINARY LOGS")[-1][0]
    events = [str(row[2]) for row in mysql.execute(f"SHOW BINLOG EVENTS IN '{log}'")]
    assert events[-4:].count("Delete_rows") == 2


@pytest.mark.parametrize("kind", ["mariadb", "mysql"])
def test_changes_by_foreign_keys_that_move_no_cursor_are_told(kind: str, request: pytest.FixtureRequest) -> None:
    server: DatabaseServer = request.getfixturevalue(kind)
    tables = Tables(server, *FAMILY, "INSERT INTO parent VALUES (1)", "INSERT INTO ward (id, p) VALUES (1, 1)")
    before = server.execute("SELECT updated_at FROM ward", database=tables.database)
    [told] = [text for text in tables.warnings("ward", **CURSOR) if "foreign key" in text]
    assert "moves of parent (ON DELETE SET NULL, ON UPDATE CASCADE), which moves no cursor" in told
    assert [text for text in tables.warnings("child", **CURSOR) if "foreign" in text] == [], "no cursor sees a delete anyway"
    assert tables.warnings("ward", **WHOLE) == (), "all rows are compared"
    server.execute("DELETE FROM parent", database=tables.database)
    assert server.execute("SELECT p, updated_at FROM ward", database=tables.database) == [(None, *before[0])], "the premise"
