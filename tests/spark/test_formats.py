"""Every format passes the public suite, with its golden files."""

from pathlib import Path

from cdc_ops.formats.base import format_names
from cdc_ops.testing.format_suite import FormatSuite

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "formats"


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


class TestDebeziumMySQLUnwrapped(FormatSuite):
    name = "debezium-mysql-unwrapped"
    folder = GOLDEN / "debezium-mysql-unwrapped"


class TestDebeziumPostgresUnwrapped(FormatSuite):
    name = "debezium-postgres-unwrapped"
    folder = GOLDEN / "debezium-postgres-unwrapped"


class TestDebeziumMySQLAvro(FormatSuite):
    name = "debezium-mysql-avro"
    folder = GOLDEN / "debezium-mysql-avro"


class TestDebeziumPostgresAvro(FormatSuite):
    name = "debezium-postgres-avro"
    folder = GOLDEN / "debezium-postgres-avro"


class TestDebeziumMySQLUnwrappedAvro(FormatSuite):
    name = "debezium-mysql-unwrapped-avro"
    folder = GOLDEN / "debezium-mysql-unwrapped-avro"


class TestDebeziumPostgresUnwrappedAvro(FormatSuite):
    name = "debezium-postgres-unwrapped-avro"
    folder = GOLDEN / "debezium-postgres-unwrapped-avro"


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


def test_every_registered_format_is_proved_here() -> None:
    proved = {suite.name for suite in FormatSuite.__subclasses__()}
    assert proved == set(format_names())
