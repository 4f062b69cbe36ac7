"""Mistakes about a source, typed as commands at 80 and 120 columns: what the server answers is told, `next:` is followed, and it helps."""

import json
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from cdc_ops.core.pipeline.connections import ConnectionUrl
from cdc_ops.dev.servers import DatabaseServer, PostgresServer
from tests.mistakes import Desk, Mistake, edits, exports_next, ids, nothing

PASSWORD = "few-rights-9"
VARIABLE = "CDC_OPS_CONN_SHOP_DB"
FILE = """\
pipeline: shop
source: {{kind: {kind}, connection: shop_db}}
target: {{root: "${{DESK}}/lake", staging: "${{DESK}}/staging"}}
tables:
  {schema}.orders: {{cursor: updated_at}}
"""
TABLES = (
    "CREATE TABLE orders (id BIGINT PRIMARY KEY, customer VARCHAR(40), updated_at TIMESTAMP(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6),"
    " seen TIMESTAMP(6) NULL)",
    "CREATE INDEX moved ON orders (updated_at)",
    "CREATE TABLE visits (page INT, updated_at TIMESTAMP(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6))",
    "CREATE TABLE slow (id BIGINT PRIMARY KEY, updated_at TIMESTAMP(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6))",
    "CREATE VIEW latest AS SELECT * FROM orders",
)


class SourceDesk(Desk):
    """A desk whose pipeline reads a database of its own."""

    server: DatabaseServer
    database: str
    schema: str

    def connect(self, server: DatabaseServer) -> None:
        """Makes the database, and names it to the terminal."""
        self.server, self.database = server, f"typed_{uuid.uuid4().hex[:8]}"
        server.create_database(self.database)
        server.execute(*TABLES, database=self.database)
        self.schema = "public" if isinstance(server, PostgresServer) else self.database
        self.file.write_text(FILE.format(kind=server.name.lower(), schema=self.schema))
        self.set(VARIABLE, self.source())

    def source(self, **changes: object) -> str:
        """The URL of the source, with something wrong in it."""
        server = self.server
        parts = {"host": server.host, "port": server.port, "user": server.user, "password": server.password, "database": self.database}
        scheme = "postgresql" if isinstance(server, PostgresServer) else "mysql"
        return ConnectionUrl.from_parts(scheme, **{**parts, **changes}).render()  # type: ignore[arg-type]


@pytest.fixture(params=["mariadb", pytest.param("postgres", marks=pytest.mark.long)])
def desk(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SourceDesk:
    desk = SourceDesk(tmp_path, monkeypatch)
    desk.connect(request.getfixturevalue(request.param))
    return desk


def url(text: str = "", **changes: object) -> Callable[[SourceDesk], None]:
    """Sets the connection to a wrong URL."""
    return lambda desk: desk.set(VARIABLE, text or desk.source(**changes))


def right_url(desk: SourceDesk) -> None:
    desk.set(VARIABLE, desk.source())


def exported(desk: SourceDesk) -> None:
    exports_next(**{VARIABLE: desk.source()})(desk)


FORM = "Write it as scheme://user:password@host:port/database"
LOGIN = "Check user and password of the connection"
ADDRESS = "Check host, port and network"
CONNECTIONS = (
    Mistake(
        typed="plan",
        make=lambda desk: desk.patch.delenv(VARIABLE),
        says=(f"the environment variable {VARIABLE} is not set",),
        next=f"export {VARIABLE}=",
        follow=exported,
    ),
    Mistake(
        typed="plan", make=lambda desk: desk.set(VARIABLE, "  "), says=("is set, but empty",), next=f"export {VARIABLE}=", follow=exported
    ),
    Mistake(
        typed="plan",
        make=edits("shop_db", "shopdb"),
        says=("The connection 'shopdb' is missing", f"Did you mean '{VARIABLE}'?"),
        next="Correct 'connection' in the pipeline file",
        follow=edits("shopdb", "shop_db"),
    ),
    Mistake(typed="plan", make=url("127.0.0.1/shop"), says=(VARIABLE, "does not start with a scheme and ://"), next=FORM, follow=right_url),
    Mistake(
        typed="plan",
        make=url("oracle://cdc:secret@127.0.0.1/shop"),
        says=("unknown scheme 'oracle'", "mariadb, mysql, postgres"),
        next=FORM,
        follow=right_url,
    ),
    Mistake(typed="plan", make=url("mysql://cdc:pa#ss@127.0.0.1/shop"), says=("not percent-encoded",), next="# as %23", follow=right_url),
    Mistake(
        typed="plan",
        make=url("mysql://cdc:secret@127.0.0.1:99999/shop"),
        says=("port is not between 1 and 65535",),
        next=FORM,
        follow=right_url,
    ),
    Mistake(typed="plan", make=url(password=""), code=3, says=("refuses the login of user 'cdc'",), next=LOGIN, follow=right_url),
    Mistake(typed="plan", make=url(password="wrong"), code=3, says=("refuses the login of user 'cdc'",), next=LOGIN, follow=right_url),
    Mistake(typed="plan", make=url(user="nobody"), code=3, says=("refuses the login of user 'nobody'",), next=LOGIN, follow=right_url),
    Mistake(
        typed="run",
        make=url(port=1),
        code=6,
        says=("cannot reach the database server at 127.0.0.1:1.",),
        next=ADDRESS,
        follow=right_url,
        then="plan",
    ),
    Mistake(
        typed="plan",
        make=url(host="no-such-host.invalid"),
        code=6,
        says=("cannot reach the database server at no-such-host.invalid",),
        next=ADDRESS,
        follow=right_url,
    ),
    Mistake(
        typed="plan",
        make=url(database="shopp"),
        code=3,
        says=("does not have the database 'shopp'",),
        next="Correct the database in the URL of the connection",
        follow=right_url,
    ),
)


@pytest.mark.parametrize("mistake", CONNECTIONS, ids=ids(CONNECTIONS))
def test_a_connection_that_leads_nowhere(desk: SourceDesk, mistake: Mistake) -> None:
    mistake.check(desk)
    assert "secret" not in desk.told


def entry(old: str, new: str) -> tuple[Callable[[Desk], None], Callable[[Desk], None]]:
    """A mistake in the table's entry, and its correction."""
    return edits(old, new), edits(new, old)


def table_mistake(wrong: str, *says: str, next: str, old: str = "cursor: updated_at", code: int = 3, right: str = "") -> Mistake:
    return Mistake(typed="plan", code=code, make=edits(old, wrong), says=says, next=next, follow=edits(wrong, right or old))


IN_FILE = "in the pipeline file"
ENTRIES = (
    table_mistake(
        ".order:", "no such table at source connection 'shop_db'", ".orders'?", next=f"Correct the name {IN_FILE}", old=".orders:", code=2
    ),
    table_mistake(".ORDERS:", "no such table", ".orders'?", next=f"Correct the name {IN_FILE}", old=".orders:", code=2),
    table_mistake(".nothing_*:", "pattern matches no table", next=f"Correct the name {IN_FILE}", old=".orders:", code=2),
    table_mistake(".latest:", "no such table", next="A view is none: name the tables that it reads", old=".orders:", code=2),
    table_mistake(
        ".visits: {cursor: updated_at}",
        "visits has no primary key",
        next="Or set 'cursor: []'",
        old=".orders: {cursor: updated_at}",
        right=".visits: {cursor: []}",
    ),
    table_mistake("cursor: update_at", "no cursor column 'update_at'", "Did you mean 'updated_at'?", next="Correct 'cursor'"),
    table_mistake("cursor: customer", "Column 'customer'", "cannot be a cursor", next="Use one of:"),
    table_mistake("cursor: updated_at, keys: [idd]", "no key column 'idd'", "Did you mean 'id'?", next="Correct 'keys'"),
    table_mistake("cursor: updated_at, columns: [id, custmer, updated_at]", "no column 'custmer'", "'customer'?", next="Correct 'columns'"),
    table_mistake("cursor: updated_at, except_column_list: [sen]", "no column 'sen'", "'seen'?", next="Correct 'except_column_list'"),
    table_mistake("cursor: updated_at, partition_by: [day]", "no column 'day' to lay its files out by", next="Correct 'partition_by'"),
    table_mistake("cursor: updated_at, cluster_by: [day]", "no column 'day'", next="Correct 'cluster_by'"),
    table_mistake("cursor: updated_at, sequence_by: [versio]", "'sequence_by'", "versio", next="Correct 'sequence_by'"),
    table_mistake('cursor: updated_at, apply_as_deletes: "gone = 1"', "no column 'gone'", next="Correct 'apply_as_deletes'", code=2),
)


@pytest.mark.parametrize("mistake", ENTRIES, ids=ids(ENTRIES))
def test_an_entry_that_the_source_has_not(desk: SourceDesk, mistake: Mistake) -> None:
    mistake.check(desk)


def test_a_cursor_without_index_leads_to_the_statement_that_makes_one(desk: SourceDesk) -> None:
    desk.edit(".orders:", ".slow:")
    code, text = desk.type("check --json")
    [found] = [one for one in json.loads(text) if "No index" in one["seen"]]
    assert (code, found["verdict"]) == (0, "warning")
    for width in (80, 120):
        shown = desk.type("check", width)[1]
        assert found["next"] in " ".join(shown.split())
        assert [line for line in shown.splitlines() if len(line) > width and len(line.split()) > 1] == []
    desk.server.execute(found["next"].partition("Create one: ")[2].rstrip("."), database=desk.database)
    assert "No index" not in desk.type("check")[1]


def test_a_cursor_that_can_be_null_is_told_and_its_setting_helps(desk: SourceDesk) -> None:
    desk.edit("cursor: updated_at", "cursor: seen")
    told = " ".join(desk.type("plan", 80)[1].split())
    assert "can be NULL: only the snapshot reads such rows, unless 'null_cursor: checksum' is set" in told
    desk.edit("cursor: seen", "cursor: seen, null_cursor: checksum")
    code, told = desk.type("plan")
    assert (code, "only the snapshot reads such rows" in told) == (0, False)


def test_a_missing_grant_leads_to_the_statement_that_gives_it(desk: SourceDesk) -> None:
    user = f"few_{uuid.uuid4().hex[:6]}"
    postgres = isinstance(desk.server, PostgresServer)
    made = f"CREATE ROLE {user} LOGIN PASSWORD '{PASSWORD}'" if postgres else f"CREATE USER '{user}'@'%' IDENTIFIED BY '{PASSWORD}'"
    desk.server.execute(made, database=desk.database)
    desk.set(VARIABLE, desk.source(user=user, password=PASSWORD))
    code, told = desk.type("plan", 80)
    if postgres:
        assert (code, "grant the user SELECT on the table" in desk.part("next")) == (2, True), told
        statement = f"GRANT SELECT ON {desk.schema}.orders TO {user}"
    else:
        assert (code, f"refuses user '{user}' a privilege" in " ".join(told.split())) == (3, True), told
        statement = desk.part("next").partition("Grant it, e.g. ")[2]
        assert statement == f"GRANT SELECT ON `{desk.database}`.* TO '{user}'@'%'"
    desk.server.execute(statement, database=desk.database)
    code, told = desk.type("plan")
    assert code == 0, told


def place(root: str) -> Callable[[Desk], None]:
    return edits('root: "${DESK}/lake"', f'root: "${{DESK}}/{root}"')


def not_a_folder(desk: Desk) -> None:
    (desk.folder / "taken").write_text("a file")
    place("taken/lake")(desk)


def other_files(desk: SourceDesk) -> None:
    path = desk.folder / f"lake/{desk.schema}/orders/notes.txt"
    path.parent.mkdir(parents=True)
    path.write_text("mine")


def foreign_table(desk: SourceDesk) -> None:
    """A Delta table that another program has written."""
    log = desk.folder / f"lake/{desk.schema}/orders/_delta_log"
    log.mkdir(parents=True)
    schema = json.dumps({"type": "struct", "fields": [{"name": "id", "type": "long", "nullable": True, "metadata": {}}]})
    meta = {
        "id": "x",
        "format": {"provider": "parquet", "options": {}},
        "schemaString": schema,
        "partitionColumns": [],
        "configuration": {},
    }
    actions = ({"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}, {"metaData": meta}, {"commitInfo": {"timestamp": 1}})
    (log / f"{0:020}.json").write_text("".join(f"{json.dumps(action)}\n" for action in actions))


def moved_away(desk: SourceDesk) -> None:
    (desk.folder / f"lake/{desk.schema}/orders").rename(desk.folder / "moved")


LAKES = (
    Mistake(
        typed="check",
        code=4,
        make=not_a_folder,
        says=("cannot write to", "Check the path, the permissions of this process"),
        next="",
        follow=edits("taken/lake", "lake"),
    ),
    Mistake(
        typed="plan",
        code=4,
        make=other_files,
        says=("has 1 files or folders, but no Delta table", "'notes.txt'"),
        next="or move those files away",
        follow=moved_away,
    ),
    Mistake(typed="plan", code=4, make=foreign_table, says=("orders",), next="move the existing table away", follow=moved_away),
    Mistake(
        typed="check",
        make=lambda desk: desk.set("CDC_OPS_JARS", str(desk.folder)),
        says=("Jars are missing in", "python -m cdc_ops.lake.spark.jars"),
        next="",
        follow=nothing,
        end=(2, "python -m cdc_ops.lake.spark.jars"),
    ),
)


@pytest.mark.parametrize("mistake", LAKES, ids=ids(LAKES))
@pytest.mark.parametrize("desk", ["mariadb"], indirect=True)
def test_a_lake_or_machine_that_cannot_be_written_to_or_with(desk: SourceDesk, mistake: Mistake) -> None:
    mistake.check(desk)
