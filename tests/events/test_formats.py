"""Every format passes the public suite, with its golden files."""

import json
from decimal import Decimal

from cdc_ops.core.events.format_spec import FormatOptions
from cdc_ops.core.schema.declared_tables import TypeDialect, declared_column
from cdc_ops.core.schema.tables import TableName, TableSchema
from cdc_ops.events.parse import envelopes_of
from cdc_ops.events.record import Record
from cdc_ops.events.registry import FORMAT_SPECS, open_format
from cdc_ops.events.table import TableReader
from cdc_ops.testing.format_suite import FormatSuite
from tests.conftest import GOLDEN


class TestDebeziumMySQL(FormatSuite):
    name = "debezium-mysql"
    folder = GOLDEN / "debezium-mysql"


class TestDts(FormatSuite):
    name = "dts-json"
    folder = GOLDEN / "dts-json"


class TestDtsAvro(FormatSuite):
    name = "dts-avro"
    folder = GOLDEN / "dts-avro"


class TestMaxwell(FormatSuite):
    name = "maxwell"
    folder = GOLDEN / "maxwell"


class TestDebeziumPostgres(FormatSuite):
    name = "debezium-postgres"
    folder = GOLDEN / "debezium-postgres"


class TestDebeziumSQLServer(FormatSuite):
    name = "debezium-sqlserver"
    folder = GOLDEN / "debezium-sqlserver"


class TestDebeziumOracle(FormatSuite):
    name = "debezium-oracle"
    folder = GOLDEN / "debezium-oracle"


class TestDebeziumMongoDb(FormatSuite):
    name = "debezium-mongodb"
    folder = GOLDEN / "debezium-mongodb"


class TestDebeziumMySQLUnwrapped(FormatSuite):
    name = "debezium-mysql-unwrapped"
    folder = GOLDEN / "debezium-mysql-unwrapped"


class TestDebeziumPostgresUnwrapped(FormatSuite):
    name = "debezium-postgres-unwrapped"
    folder = GOLDEN / "debezium-postgres-unwrapped"


class TestDebeziumSQLServerUnwrapped(FormatSuite):
    name = "debezium-sqlserver-unwrapped"
    folder = GOLDEN / "debezium-sqlserver-unwrapped"


class TestDebeziumOracleUnwrapped(FormatSuite):
    name = "debezium-oracle-unwrapped"
    folder = GOLDEN / "debezium-oracle-unwrapped"


class TestDebeziumMongoDbUnwrapped(FormatSuite):
    name = "debezium-mongodb-unwrapped"
    folder = GOLDEN / "debezium-mongodb-unwrapped"


class TestDebeziumMySQLAvro(FormatSuite):
    name = "debezium-mysql-avro"
    folder = GOLDEN / "debezium-mysql-avro"


class TestDebeziumPostgresAvro(FormatSuite):
    name = "debezium-postgres-avro"
    folder = GOLDEN / "debezium-postgres-avro"


class TestDebeziumSQLServerAvro(FormatSuite):
    name = "debezium-sqlserver-avro"
    folder = GOLDEN / "debezium-sqlserver-avro"


class TestDebeziumOracleAvro(FormatSuite):
    name = "debezium-oracle-avro"
    folder = GOLDEN / "debezium-oracle-avro"


class TestDebeziumMongoDbAvro(FormatSuite):
    name = "debezium-mongodb-avro"
    folder = GOLDEN / "debezium-mongodb-avro"


class TestDebeziumMySQLUnwrappedAvro(FormatSuite):
    name = "debezium-mysql-unwrapped-avro"
    folder = GOLDEN / "debezium-mysql-unwrapped-avro"


class TestDebeziumPostgresUnwrappedAvro(FormatSuite):
    name = "debezium-postgres-unwrapped-avro"
    folder = GOLDEN / "debezium-postgres-unwrapped-avro"


class TestDebeziumSQLServerUnwrappedAvro(FormatSuite):
    name = "debezium-sqlserver-unwrapped-avro"
    folder = GOLDEN / "debezium-sqlserver-unwrapped-avro"


class TestDebeziumOracleUnwrappedAvro(FormatSuite):
    name = "debezium-oracle-unwrapped-avro"
    folder = GOLDEN / "debezium-oracle-unwrapped-avro"


class TestCanal(FormatSuite):
    name = "canal"
    folder = GOLDEN / "canal"


class TestTiCDC(FormatSuite):
    name = "ticdc-canal"
    folder = GOLDEN / "ticdc-canal"


class TestDmsCsv(FormatSuite):
    name = "aws-dms-csv"
    folder = GOLDEN / "aws-dms-csv"


class TestDmsParquet(FormatSuite):
    name = "aws-dms-parquet"
    folder = GOLDEN / "aws-dms-parquet"


class TestGoldenGate(FormatSuite):
    name = "goldengate-json"
    folder = GOLDEN / "goldengate-json"


class TestHudi(FormatSuite):
    name = "hudi-cdc"
    folder = GOLDEN / "hudi-cdc"


class TestMySqlBinlog(FormatSuite):
    """Its files are decoded elsewhere: the golden files have the records that are decoded of them."""

    name = "mysql-binlog"
    folder = GOLDEN / "mysql-binlog"


def test_a_document_that_was_gone_when_it_was_looked_up_changes_nothing_and_a_column_may_have_all_of_one() -> None:
    table = TableName(schema="shop", name="orders")
    columns = (declared_column("_id", "string", TypeDialect.MONGODB)[0], declared_column("all", "json", TypeDialect.MONGODB)[0])
    schema = TableSchema(table=table, columns=columns, primary_key=("_id",))

    def fed(lookup: str, mode: str = "change_streams_update_full") -> list[tuple[object, ...]]:
        settings = {"capture.mode": mode, "capture.mode.full.update.type": lookup, "document.column": "all"}
        options = FormatOptions(name="debezium-mongodb", settings=settings, accept_losses=("capture.mode=change_streams_update_full",))
        form = open_format(options)
        found = [(one, envelope) for one in records for envelope in envelopes_of(form, one)]
        batch = TableReader(form, schema, ("_id",)).read([one for one, _ in found], [envelope for _, envelope in found])
        return [(row["kind"], row["op"], (row["after"] or {}).get("all"), row["reason"]) for row in batch.feed().to_pylist()]

    def record(op: str, **parts: object) -> str:
        return json.dumps({"key": {"id": '"a"'}, "value": {"op": op, "source": {"db": "shop", "collection": "orders"}, **parts}})

    document = '{"_id": "a",  "n": {"$numberInt": "1"}}'
    changed = record("u", updateDescription={"updatedFields": '{"n": 2}'})
    lines = [(record("c", after=document), 0), (changed, 1), (record("d"), 2)]
    records = [Record(text.encode(), "f", line, 0, line) for text, line in lines]
    inserted, deleted = ("change", "c", document, None), ("change", "d", None, None)
    assert fed("lookup") == [inserted, ("control", None, None, None), deleted]
    part = "column 'all' of the after image: changed in part: all cannot be read as json"
    assert fed("post_image") == [inserted, ("bad", None, None, part), deleted]


def test_flattened_documents_without_schemas_are_read_by_their_columns_where_that_is_accepted() -> None:
    texts = {
        "int": ("7", 7),
        "date": ("1709283600123", 1709283600123000),
        "decimal(10,2)": ('"12.50', Decimal("12.50")),
        "binData": ('"AP8=', b"\x00\xff"),
    }
    form = open_format(FormatOptions(name="debezium-mongodb-unwrapped", settings={"schemas.enable": "false"}))
    for kind, (text, value) in texts.items():
        assert form.reader(declared_column("c", kind, TypeDialect.MONGODB)[0], None).read(text) == value


def test_every_registered_format_is_proved_here() -> None:
    proved = {suite.name for suite in FormatSuite.__subclasses__()}
    assert proved == set(FORMAT_SPECS)
