"""Tables that no server is asked about: their types, what a pipeline file may say of them, and what is refused without a database."""

import inspect
import json
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from cdc_ops.cli import app
from cdc_ops.config.loading import load_pipeline
from cdc_ops.core.events.column_drift import ColumnDrift
from cdc_ops.core.events.ddl_changes import DdlChange, TableChangeKind
from cdc_ops.core.events.format_spec import FormatOptions
from cdc_ops.core.formats.checks import check_format
from cdc_ops.core.operation.protocol.table_state import TableState
from cdc_ops.core.operation.run_request import ResyncMode, RunKind, RunRequest
from cdc_ops.core.pipeline.tables.table_matching import resolve_tables
from cdc_ops.core.schema.declared_tables import (
    START_NEW_PIPELINE,
    DeclaredTable,
    TypeDialect,
    declared_column,
    declared_schema,
    next_step,
)
from cdc_ops.core.schema.logical_types import LogicalType, fraction_digits, logical_type_of
from cdc_ops.core.schema.schema_evolution import Recorded, SchemaSettings, compare_columns, decide
from cdc_ops.core.schema.tables import TableName
from cdc_ops.core.schema.value_policies import OnOverflow, OnUnstorable, TypePolicies
from cdc_ops.errors import ConfigError, RequestError, SchemaChangedError, SourceTableError
from cdc_ops.events.registry import format_spec
from cdc_ops.jobs import connection_url
from cdc_ops.sources.base import open_source
from cdc_ops.sources.declared import DeclaredSource
from cdc_ops.state.sql import open_store
from cdc_ops.steps.context import Context
from cdc_ops.steps.discovery import discover
from cdc_ops.steps.plan import plan_table
from cdc_ops.steps.planning.draft import draft_operations
from cdc_ops.steps.planning.reconcile import method_summary, plan_verification
from cdc_ops.steps.planning.request import TableRequest
from cdc_ops.steps.table.source_table import read_source_table

FILE = """\
pipeline: shop
source:
  kind: none
  dialect: oracle
  tables:
    SHOP.ORDERS: {ID: number(19) primary key, NAME: varchar2(40), AMOUNT: "number(10,2) not null", NOTE: clob}
    SHOP.LINES:
      "NO": number(9) primary key
target: {root: /lake, staging: /staging}
archive:
  url: "/archive/{schema}.{table}"
  settings: {skipped.operations: none, converter.replace.null.with.default: "false", event.converting.failure.handling.mode: fail}
  format: debezium-oracle
defaults: {method: log, except_column_list: []}
tables:
  SHOP.ORDERS: {except_column_list: [NOTE]}
  SHOP.L*:
"""
DELTA, SQL_SERVER, ORACLE = TypeDialect.DELTA, TypeDialect.SQLSERVER, TypeDialect.ORACLE
MYSQL, POSTGRES, MONGODB = TypeDialect.MYSQL, TypeDialect.POSTGRES, TypeDialect.MONGODB

TYPES = [
    (DELTA, "bigint", "bigint", LogicalType.INTEGER),
    (DELTA, "decimal(10, 2)", "decimal(10,2)", LogicalType.DECIMAL),
    (DELTA, "timestamp", "timestamp", LogicalType.INSTANT),
    (DELTA, "timestamp_ntz", "timestamp_ntz", LogicalType.WALL_CLOCK),
    (DELTA, "string", "string", LogicalType.TEXT),
    (DELTA, "binary", "binary", LogicalType.BINARY),
    (SQL_SERVER, "TINYINT", "smallint", LogicalType.INTEGER),
    (SQL_SERVER, "bit", "boolean", LogicalType.BOOLEAN),
    (SQL_SERVER, "nvarchar(max)", "string", LogicalType.TEXT),
    (SQL_SERVER, "money", "decimal(19,4)", LogicalType.DECIMAL),
    (SQL_SERVER, "datetime2(3)", "timestamp_ntz", LogicalType.WALL_CLOCK),
    (SQL_SERVER, "datetimeoffset(7)", "timestamp", LogicalType.INSTANT),
    (SQL_SERVER, "time", "string", LogicalType.TIME),
    (SQL_SERVER, "timestamp", "binary", LogicalType.BINARY),
    (SQL_SERVER, "float(53)", "double", LogicalType.FLOAT),
    (ORACLE, "number", "string", LogicalType.DECIMAL_TEXT),
    (ORACLE, "NUMBER(9)", "int", LogicalType.INTEGER),
    (ORACLE, "number(18,0)", "bigint", LogicalType.INTEGER),
    (ORACLE, "number(19)", "decimal(19,0)", LogicalType.DECIMAL),
    (ORACLE, "integer", "decimal(38,0)", LogicalType.DECIMAL),
    (ORACLE, "number(9,1)", "decimal(9,1)", LogicalType.DECIMAL),
    (ORACLE, "varchar2(40 char)", "string", LogicalType.TEXT),
    (ORACLE, "clob", "string", LogicalType.TEXT),
    (ORACLE, "blob", "binary", LogicalType.BINARY),
    (ORACLE, "date", "timestamp_ntz", LogicalType.WALL_CLOCK),
    (ORACLE, "timestamp(9) with  time zone", "timestamp", LogicalType.INSTANT),
    (ORACLE, "double precision", "string", LogicalType.DECIMAL_TEXT),
    (MONGODB, "long", "bigint", LogicalType.INTEGER),
    (MONGODB, "decimal", "string", LogicalType.DECIMAL_TEXT),
    (MONGODB, "date", "timestamp", LogicalType.INSTANT),
    (MONGODB, "objectId", "string", LogicalType.OTHER),
    (MYSQL, "bigint(20) unsigned", "bigint", LogicalType.UNSIGNED_BIGINT),
    (MYSQL, "enum('a','x not null')", "string", LogicalType.ENUM),
    (POSTGRES, "timestamp(3) without time zone", "timestamp_ntz", LogicalType.WALL_CLOCK),
    (POSTGRES, "inet", "string", LogicalType.OTHER),
]


@pytest.mark.parametrize(("dialect", "text", "stored", "family"), TYPES, ids=str)
def test_a_declared_type_is_stored_and_read_as_its_source_means_it(
    dialect: TypeDialect, text: str, stored: str, family: LogicalType
) -> None:
    column, is_key = declared_column("c", f"{text} NOT NULL primary key", dialect)
    assert (column.delta_type, logical_type_of(column), column.nullable, is_key) == (stored, family, False, True)
    assert declared_column("c", text, dialect)[0].nullable


def test_fractions_of_seconds_are_those_that_the_connector_goes_by() -> None:
    declared = {"datetime": 3, "datetime2": 7, "datetime2(4)": 4, "time(2)": 2}
    assert {text: fraction_digits(declared_column("c", text, SQL_SERVER)[0]) for text in declared} == declared
    assert [fraction_digits(declared_column("c", text, ORACLE)[0]) for text in ("date", "timestamp", "timestamp(9)")] == [0, 6, 9]


@pytest.mark.parametrize(
    ("dialect", "text"),
    [
        *((DELTA, text) for text in ("varchar(3)", "decimal(39,0)", "decimal(2,3)", "string(3)", "", "bigint unsigned", "timestamp(3)")),
        *((SQL_SERVER, text) for text in ("hierarchyid", "datetime2(8)", "bit(1)", "sql_variant", "money(3,2)")),
        *((ORACLE, text) for text in ("number(10,-2)", "interval day to second", "long", "date(3)", "number(39)", "number(0)")),
        *((MYSQL, text) for text in ("varchr(3)", "")),
        *((MONGODB, text) for text in ("regex", "object primary key", "decimal(39,2)", "varchar")),
        *((POSTGRES, text) for text in ("bigin", "mood")),
    ],
)
def test_a_type_that_nobody_knows_is_not_guessed(dialect: TypeDialect, text: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        declared_column("c", text, dialect)


def test_a_number_without_digits_follows_the_policy_for_decimals() -> None:
    with pytest.raises(ValueError, match="38 digits"):
        declared_column("c", "number", ORACLE, TypePolicies(decimal_overflow=OnOverflow.FAIL))


def test_what_no_decimal_of_mongodb_holds_follows_the_policy() -> None:
    columns = {policy: declared_column("c", "decimal(10,2)", MONGODB, TypePolicies(nan_values=policy))[0] for policy in OnUnstorable}
    assert {policy: (column.delta_type, column.lossy) for policy, column in columns.items()} == {
        OnUnstorable.NULL: ("decimal(10,2)", True),
        OnUnstorable.FAIL: ("decimal(10,2)", False),
        OnUnstorable.STRING: ("string", False),
    }


def test_a_field_of_mongodb_with_a_dot_in_its_name_is_refused() -> None:
    with pytest.raises(ValueError, match="contains a dot"):
        declared_column("a.b", "int", MONGODB)


@pytest.mark.parametrize("kind", ["object", "array", "json"])
def test_flattened_documents_have_no_columns_whose_values_lose_their_types(kind: str) -> None:
    declared = DeclaredTable(name="shop.orders", columns=(("_id", "objectId primary key"), ("inner", kind)))
    spec = format_spec("debezium-mongodb-unwrapped")
    options = FormatOptions(name=spec.name, accept_losses=tuple(item.accepted_by(item.default) for item in spec.lossy))
    with pytest.raises(SourceTableError, match="cannot carry column 'inner'") as caught:
        check_format(spec, options, declared_schema(declared, MONGODB), ("_id",))
    assert "dates as numbers" in caught.value.why
    check_format(spec, options, declared_schema(replace(declared, columns=declared.columns[:1]), MONGODB), ("_id",))


def test_flattened_records_of_a_server_without_truncate_need_not_accept_that_it_is_left_out() -> None:
    lossy = {name: {item.name for item in format_spec(f"debezium-{name}-unwrapped").lossy} for name in ("sqlserver", "oracle")}
    assert [name for name, settings in lossy.items() if "truncate" in settings] == ["oracle"]


def test_formats_that_read_values_by_their_source_say_by_which() -> None:
    wanted = {"debezium-mysql-avro": MYSQL, "debezium-oracle": ORACLE, "dts-json": MYSQL, "canal": MYSQL, "ticdc-canal": MYSQL}
    wanted |= {"debezium-mongodb-unwrapped": MONGODB, "debezium-oracle-unwrapped-avro": ORACLE}
    assert {name: format_spec(name).dialect for name in wanted} == wanted
    assert [format_spec(name).dialect for name in ("goldengate-json", "aws-dms-csv", "mysql-binlog")] == [None, None, None]


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CDC_OPS_LEDGER", f"sqlite:///{tmp_path / 'ledger.db'}")
    monkeypatch.setenv("CDC_OPS_PIPELINES", str(tmp_path))
    path = tmp_path / "shop.yaml"
    path.write_text(FILE)
    return path


def test_a_file_says_columns_keys_and_order_of_its_tables(file: Path) -> None:
    pipeline = load_pipeline(file, {})
    source = open_source(pipeline.source, "")
    assert source.tables() == (TableName(schema="SHOP", name="LINES"), TableName(schema="SHOP", name="ORDERS"))
    schema = source.schema(source.tables()[1], except_columns=("note",))
    assert [(column.name, column.delta_type, column.nullable) for column in schema.columns] == [
        ("ID", "decimal(19,0)", False),
        ("NAME", "string", True),
        ("AMOUNT", "decimal(10,2)", False),
    ]
    assert schema.primary_key == ("ID",)
    assert abs(source.now() - datetime.now(UTC)) < timedelta(minutes=1)
    with pytest.raises(SourceTableError, match="no column 'NOPE'"):
        source.schema(source.tables()[1], columns=("NOPE",))
    with pytest.raises(SourceTableError, match=r"SHOP\.ORDER are not declared"):
        source.schema(TableName(schema="SHOP", name="ORDER"))
    configs = resolve_tables(pipeline, source.tables())
    assert [str(config.table) for config in configs] == ["SHOP.LINES", "SHOP.ORDERS"]


PROBLEMS = [
    ("  dialect: oracle\n", "  dialect: oracle\n  connection: shop_db\n", ["'connection' is for a database"]),
    (
        "  dialect: oracle\n",
        "",
        ["need the types of their source", "dialect: oracle", "'number(19)' is not a type of the dialect 'delta'"],
    ),
    ("  dialect: oracle\n", "  dialect: orcale\n", ["Did you mean 'oracle'?"]),
    ("number(19)", "nmber(19)", ["'nmber(19)' is not a type", "Did you mean 'number'?"]),
    ("NAME: varchar2(40)", "NAME: ", ["'NAME' is empty and needs"]),
    ("NAME: varchar2(40)", "id: varchar2(40)", ["'ID' and 'id' differ only in case"]),
    ("NAME: varchar2(40)", "__cdc_x: varchar2(40)", ["'__cdc_x' of 'SHOP.ORDERS'", "except_column_list: [__cdc_x]"]),
    ('      "NO": number(9) primary key\n', "      {}\n", ["'SHOP.LINES' has no columns"]),
    ("SHOP.LINES:", "SHOP.LI*:", ["is a pattern, and columns are declared of one table"]),
    ("  SHOP.L*:\n", "  SHOP.ORDER:\n", ["'SHOP.ORDER' is missing in 'tables' of the source", "Did you mean 'SHOP.ORDERS'?"]),
    ("method: log, ", "", ["'SHOP.ORDERS' is read by query", "method: log"]),
    ("format: debezium-oracle", "format: debezium-oracle\n  initial_load: snapshot", ["'initial_load' reads rows from the database"]),
    ("format: debezium-oracle", "format: debezium-oracle\n  on_gap: reconcile", ["'on_gap' compares tables with the database"]),
    ("pipeline: shop\n", 'pipeline: shop\nreconcile_schedule: "@daily"\n', ["'reconcile_schedule' compares tables with the database"]),
    (
        "settings: {",
        "settings: {document.column: all, ",
        ["'all', and 'SHOP.ORDERS' has no column"],
    ),
    ("kind: none", "kind: postgres\n  connection: c", ["'tables' is for sources of kind 'none'", "'dialect' is for"]),
]


@pytest.mark.parametrize(("old", "new", "said"), PROBLEMS, ids=[said[0] for _, _, said in PROBLEMS])
def test_what_a_declared_source_cannot_be_or_do_is_told_with_its_line(file: Path, old: str, new: str, said: list[str]) -> None:
    text = FILE.replace(old, new)
    assert text != FILE
    file.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load_pipeline(file, {})
    for part in said:
        assert part in str(caught.value)


REFUSED: list[dict[str, Any]] = [
    {"kind": RunKind.RECONCILE},
    {"kind": RunKind.BACKFILL, "since": datetime(2026, 1, 1, tzinfo=UTC), "until": datetime(2026, 1, 2, tzinfo=UTC)},
    {"kind": RunKind.BACKFILL, "columns": ("NAME",)},
    {"kind": RunKind.RESYNC, "mode": ResyncMode.FULL},
    {"kind": RunKind.RESYNC, "mode": ResyncMode.KEYS, "keys": (("1",),), "tables": ("SHOP.ORDERS",)},
]


@pytest.mark.parametrize("parts", REFUSED, ids=[f"{parts['kind']} {parts.get('mode', '')}" for parts in REFUSED])
def test_what_needs_a_database_is_refused_in_four_parts(file: Path, parts: dict[str, Any]) -> None:
    pipeline = load_pipeline(file, {})
    source = open_source(pipeline.source, "")
    config = resolve_tables(pipeline, source.tables())[1]
    source_table = read_source_table(pipeline, source, config)
    state = TableState(pipeline="shop", table=config.table)
    with closing(open_store(f"sqlite:///{file.parent / 'ledger.db'}")) as ledger:
        order = TableRequest(
            source=source,
            run=RunRequest(run_id="r", trigger="t", holder="h", **parts).checked(),
            source_table=source_table,
            state=state,
            ledger=ledger,
            tables=source.tables,
        )
        with pytest.raises(RequestError, match="the pipeline's source has no database") as caught:
            draft_operations(order)
    assert caught.value.why
    assert caught.value.data
    assert "kind: mysql" in caught.value.next
    with pytest.raises(RequestError, match="no database"):
        plan_verification(source, source_table, 2)  # cdc-ops verify
    assert "reconcile" not in method_summary(source, source_table)


def test_the_source_lists_its_tables_once_for_all_that_share_a_folder(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = tmp_path / "archive" / "t" / "partition=0"
    topic.mkdir(parents=True)
    (topic / "t+0+0000000000.json").write_text("{}\n")
    file.write_text(FILE.replace('"/archive/{schema}.{table}"', f"{tmp_path}/archive\n  min_file_age: 0 s"))
    pipeline = load_pipeline(file, {})
    asked: list[str] = []
    listed = DeclaredSource.tables
    with closing(open_store(f"sqlite:///{tmp_path / 'ledger.db'}")) as ledger, closing(open_source(pipeline.source, "")) as source:
        context = Context(pipeline=pipeline, store=ledger, connect=lambda config: open_source(config, ""))
        request = RunRequest(run_id="r", trigger="t", holder="h").checked()
        configs = discover(pipeline, source, request)
        monkeypatch.setattr(DeclaredSource, "tables", lambda self: (asked.append("tables"), listed(self))[1])
        plans = [plan_table(context, source, request, config) for config in configs]
    logs = [operation.read.batch for plan in plans for operation in plan.new.operations]
    assert [bool(log and log.unknown) for log in logs] == [True, False]  # each reads the folder, the first looks after strangers
    assert asked == ["tables"]


def test_the_command_line_plans_a_declared_table_without_any_connection(file: Path, tmp_path: Path) -> None:
    (tmp_path / "archive" / "SHOP.ORDERS").mkdir(parents=True)
    (tmp_path / "archive" / "SHOP.LINES").mkdir(parents=True)
    file.write_text(FILE.replace("/archive/", f"{tmp_path}/archive/"))
    result = CliRunner().invoke(app, ["plan", "--json"])
    assert result.exit_code == 0, result.output
    [document] = json.loads(result.output)
    assert [(one["table"], one["idle"].partition(" in ")[0]) for one in document["tables"]] == [
        ("SHOP.LINES", "no new file"),
        ("SHOP.ORDERS", "no new file"),
    ]
    assert connection_url("") == ""


def test_a_table_that_cannot_go_on_reads_its_rows_where_there_is_a_database_and_else_starts_again() -> None:
    command = ("resync --table s.t --mode full", "reads all rows")
    assert next_step(*command, declared=False, first="Wait.", then=", now") == "cdc-ops resync --table s.t --mode full   # reads all rows"
    assert next_step(*command, declared=True) == f"{START_NEW_PIPELINE}."
    assert next_step(*command, declared=True, first="Wait.", then=", now") == f"Wait. {START_NEW_PIPELINE}, now."


def test_what_events_have_besides_the_declared_columns_is_told() -> None:
    news = ColumnDrift.total([ColumnDrift(undeclared=("b",), declared=True), ColumnDrift(undeclared=("a", "b"), declared=True)])
    assert "does not declare: 'a', 'b'; declare them" in news.warning
    lacking = replace(news, lacking=("c",), rows=2, statements=("ALTER TABLE t ADD c int",)).warning
    assert "backfill" not in lacking
    assert "verify" not in lacking
    dropped = replace(news, changes=(DdlChange(kind=TableChangeKind.TRUNCATED),)).alert
    assert dropped.endswith(START_NEW_PIPELINE)
    assert "reconcile" not in dropped


def test_what_is_said_of_changed_declarations_needs_no_database() -> None:
    table = DeclaredTable(name="s.t", columns=(("id", "bigint primary key"), ("n", "string"), ("new", "int")))
    now = declared_schema(table, DELTA)
    asked = SchemaSettings(pipeline="p", declared=True)
    decision = decide(asked, now, compare_columns([("id", "bigint"), ("n", "string")], now), Recorded())
    assert decision.notes == ("column new (int) is new: it is added as int; existing rows have NULL in it",)
    with pytest.raises(SchemaChangedError) as caught:
        decide(asked, now, compare_columns([("id", "bigint"), ("n", "int")], now), Recorded())
    assert "resync" not in caught.value.next
    assert "another 'path'" in caught.value.next


def test_every_method_that_would_ask_refuses(file: Path) -> None:
    source: Any = open_source(load_pipeline(file, {}).source, "")
    asking = {name for name in vars(DeclaredSource) if not name.startswith("_")} - {"tables", "schema", "traits", "now", "close"}
    assert len(asking) > 15
    for name in asking:
        needed = [one for one in inspect.signature(getattr(source, name)).parameters.values() if one.default is one.empty]
        with pytest.raises(RequestError, match="no database"):
            getattr(source, name)(*(None for _ in needed))
