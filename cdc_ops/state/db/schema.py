"""The ledger's tables, the same on SQLite, Postgres, MySQL and MariaDB; migrations/ creates them, a test holds the two together.

One row of `cdc_tables` is all that the ledger believes of one source table: its state, the numbers of its Delta table, its lease. So there
is one row to lock, one to compare, and one query for the status page. Values are kept as the canonical JSON text of core.json_codec; a
column of
its own has only what is searched or sorted by. All names start with `cdc_`: a ledger may share its database with Airflow's own tables.
"""

from datetime import UTC, datetime
from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    Column,
    DateTime,
    Dialect,
    Double,
    ForeignKeyConstraint,
    Index,
    Integer,
    MetaData,
    PrimaryKeyConstraint,
    String,
    Table,
    Text,
    TypeDecorator,
)
from sqlalchemy.dialects import mysql
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.types import TypeEngine

VERSION: Final = "0010"
"""The newest migration. Opening a ledger compares this with the ledger's own version and needs Alembic only if they differ."""
VERSION_TABLE: Final = "cdc_ops_version"

NAME_LENGTH: Final = 128
RUN_ID_LENGTH: Final = 250
"""Airflow's own limit; with three names it stays below the 3,072 bytes that InnoDB allows a key in utf8mb4."""
HOLDER_LENGTH: Final = 600

MYSQL: Final[dict[str, Any]] = {
    "mysql_engine": "InnoDB",
    "mysql_charset": "utf8mb4",
    "mysql_collate": "utf8mb4_bin",  # others hold Orders and orders for one table
}


class UtcDateTime(TypeDecorator[datetime]):
    """An instant with microseconds: aware in Python, without zone and in UTC in the database."""

    impl = DateTime
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        """Returns the database's type; MySQL's plain DATETIME would round to seconds."""
        return dialect.type_descriptor(mysql.DATETIME(fsp=6) if dialect.name == "mysql" else DateTime())

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Returns the instant in UTC without its zone."""
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError(f"datetime without time zone {value!r} cannot cross a border")
        return value.astimezone(UTC).replace(tzinfo=None)

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Returns the instant with its zone."""
        return None if value is None else value.replace(tzinfo=UTC)


class LongText(TypeDecorator[str]):
    """Text of any length; MySQL's TEXT ends at 64 KB."""

    impl = Text
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        """Returns the database's type."""
        return dialect.type_descriptor(mysql.LONGTEXT() if dialect.name == "mysql" else Text())


class utc_now(FunctionElement[datetime]):
    """The database's clock at this moment, UTC; not the start of the transaction, which may have waited for a lock."""

    type = UtcDateTime()
    inherit_cache = True


@compiles(utc_now, "sqlite")
def _sqlite_now(*_: Any, **__: Any) -> str:
    return "(strftime('%Y-%m-%d %H:%M:%f', 'now') || '000')"  # as long as the text of a stored instant: they compare as text


@compiles(utc_now, "postgresql")
def _postgres_now(*_: Any, **__: Any) -> str:
    return "timezone('utc', clock_timestamp())"


@compiles(utc_now, "mysql")
def _mysql_now(*_: Any, **__: Any) -> str:
    return "UTC_TIMESTAMP(6)"


metadata = MetaData()


def _key() -> tuple[Column[str], Column[str], Column[str]]:
    return (
        Column("pipeline", String(NAME_LENGTH), nullable=False),
        Column("table_schema", String(NAME_LENGTH), nullable=False),
        Column("table_name", String(NAME_LENGTH), nullable=False),
    )


KEY: Final = ("pipeline", "table_schema", "table_name")
TOTALS: Final = (
    *("committed_runs", "idle_runs", "failed_runs"),
    *("read_rows", "inserted_rows", "updated_rows", "deleted_rows", "late_rows", "quarantined_records", "written_bytes"),
    *("asked", "granted", "refused", "timed_out", "withdrawn"),
)
"""What is counted of a table (`state.totals.Totals`)."""
_TABLES_KEY: Final = [f"cdc_tables.{name}" for name in KEY]

tables = Table(
    "cdc_tables",
    metadata,
    *_key(),
    Column("state", LongText),  # TableState; NULL = never written
    Column("stats", LongText),  # TableStats
    Column("token", BigInteger, nullable=False),  # of the newest lease, which may be over: it never goes back
    Column("holder", String(HOLDER_LENGTH), nullable=False),  # '' = nobody
    Column("purpose", Text, nullable=False),
    Column("expires_at", UtcDateTime),
    PrimaryKeyConstraint(*KEY, name="pk_cdc_tables"),
    **MYSQL,
)

waiters = Table(
    "cdc_lease_waiters",  # live runs that were refused a lease: others stand back until `until`
    metadata,
    *_key(),
    Column("waiter", String(64), nullable=False),  # hash of the holder, which would be too long for a key
    Column("holder", String(HOLDER_LENGTH), nullable=False),
    Column("until", UtcDateTime, nullable=False),
    PrimaryKeyConstraint(*KEY, "waiter", name="pk_cdc_lease_waiters"),
    ForeignKeyConstraint(KEY, _TABLES_KEY, name="fk_cdc_lease_waiters_table"),
    **MYSQL,
)

operations = Table(
    "cdc_operations",
    metadata,
    Column("operation_id", String(64), nullable=False),
    *_key(),
    Column("op_seq", BigInteger, nullable=False),  # not unique: after a lost ledger a number can be drawn twice
    Column("status", String(16), nullable=False),  # OperationStatus
    Column("attempts", Integer, nullable=False),
    Column("spec", LongText, nullable=False),  # Operation
    Column("result", LongText),  # OperationResult
    Column("frozen_at", UtcDateTime, nullable=False),
    Column("settled_at", UtcDateTime),
    PrimaryKeyConstraint("operation_id", name="pk_cdc_operations"),
    ForeignKeyConstraint(KEY, _TABLES_KEY, name="fk_cdc_operations_table"),
    Index("ix_cdc_operations_status", *KEY, "status", "op_seq"),
    **MYSQL,
)

runs = Table(
    "cdc_table_runs",
    metadata,
    *_key(),
    Column("run_id", String(RUN_ID_LENGTH), nullable=False),
    Column("status", String(16), nullable=False),  # TableRunStatus
    Column("started_at", UtcDateTime, nullable=False),
    Column("body", LongText, nullable=False),  # TableRun
    Column("late_rows", BigInteger, nullable=False, server_default="0"),
    Column("max_commit_lag", Double),  # seconds
    Column("alert", LongText),  # NULL = none
    Column("rows_written", BigInteger, nullable=False, server_default="0"),  # inserted, updated and deleted by a run that has committed
    PrimaryKeyConstraint(*KEY, "run_id", name="pk_cdc_table_runs"),
    ForeignKeyConstraint(KEY, _TABLES_KEY, name="fk_cdc_table_runs_table"),
    Index("ix_cdc_table_runs_table", *KEY, "started_at"),
    Index("ix_cdc_table_runs_written", "pipeline", "started_at", "rows_written"),  # a sum of many lines reads the index alone
    Index("ix_cdc_table_runs_run", "run_id", "started_at"),
    Index("ix_cdc_table_runs_started", "started_at"),
    **MYSQL,
)

archive_files = Table(
    "cdc_archive_files",
    metadata,
    *_key(),
    Column("path_hash", String(64), nullable=False),  # SHA-256 of the path, which would be too long for a key
    Column("status", String(16), nullable=False),  # FileStatus
    Column("operation_id", String(64), nullable=False),  # '' = none
    Column("body", LongText, nullable=False),  # FileRecord
    PrimaryKeyConstraint(*KEY, "path_hash", name="pk_cdc_archive_files"),
    ForeignKeyConstraint(KEY, _TABLES_KEY, name="fk_cdc_archive_files_table"),
    Index("ix_cdc_archive_files_status", *KEY, "status"),
    Index("ix_cdc_archive_files_operation", "operation_id"),
    **MYSQL,
)

archive_marks = Table(
    "cdc_archive_marks",
    metadata,
    *_key(),
    Column("body", LongText, nullable=False),  # ListingMark
    PrimaryKeyConstraint(*KEY, name="pk_cdc_archive_marks"),
    ForeignKeyConstraint(KEY, _TABLES_KEY, name="fk_cdc_archive_marks_table"),
    **MYSQL,
)

archive_gaps = Table(
    "cdc_archive_gaps",
    metadata,
    *_key(),
    Column("gap_id", String(64), nullable=False),  # of stream and range: the same gap has one row however often it is found
    Column("status", String(16), nullable=False),  # GapStatus
    Column("found_at", UtcDateTime, nullable=False),
    Column("body", LongText, nullable=False),  # GapRecord
    PrimaryKeyConstraint(*KEY, "gap_id", name="pk_cdc_archive_gaps"),
    ForeignKeyConstraint(KEY, _TABLES_KEY, name="fk_cdc_archive_gaps_table"),
    Index("ix_cdc_archive_gaps_status", "pipeline", "status"),
    **MYSQL,
)

findings = Table(
    "cdc_findings",
    metadata,
    *_key(),  # without schema and name: of the pipeline as a whole, which has no row of its own to refer to
    Column("kind", String(32), nullable=False),  # AlertKind
    Column("detail", String(32), nullable=False),  # of a change of columns its hash, else ''
    Column("found_at", UtcDateTime, nullable=False),
    Column("body", LongText, nullable=False),  # Finding
    PrimaryKeyConstraint(*KEY, "kind", "detail", name="pk_cdc_findings"),
    **MYSQL,
)

notified_alerts = Table(
    "cdc_notified_alerts",
    metadata,
    *_key(),
    Column("kind", String(32), nullable=False),
    Column("detail", String(32), nullable=False),
    Column("receiver", String(64), nullable=False),
    Column("body", LongText, nullable=False),  # Told
    PrimaryKeyConstraint(*KEY, "kind", "detail", "receiver", name="pk_cdc_notified_alerts"),
    **MYSQL,
)

approvals = Table(
    "cdc_approvals",
    metadata,
    Column("approval_id", String(64), nullable=False),
    *_key(),  # without schema and name: of the pipeline as a whole
    Column("run_id", String(RUN_ID_LENGTH), nullable=False),
    Column("status", String(16), nullable=False),  # ApprovalStatus
    Column("asked_at", UtcDateTime, nullable=False),
    Column("body", LongText, nullable=False),  # ApprovalRecord
    PrimaryKeyConstraint("approval_id", name="pk_cdc_approvals"),
    Index("ix_cdc_approvals_table", *KEY, "asked_at"),
    Index("ix_cdc_approvals_asked", "asked_at"),
    **MYSQL,
)

totals = Table(
    "cdc_totals",
    metadata,
    *_key(),  # without schema and name: of the pipeline as a whole
    *(Column(name, BigInteger, nullable=False, server_default="0") for name in TOTALS),
    Column("run_seconds", Double, nullable=False, server_default="0"),
    Column("succeeded_at", UtcDateTime),
    PrimaryKeyConstraint(*KEY, name="pk_cdc_totals"),
    **MYSQL,
)

notified_files = Table(
    "cdc_notified_files",
    metadata,
    Column("pipeline", String(NAME_LENGTH), nullable=False),
    Column("path_hash", String(64), nullable=False),  # SHA-256 of the full path; '' is the row that writers of the pipeline lock
    Column("batch", String(32), nullable=False),
    Column("status", String(16), nullable=False),  # NotificationStatus
    Column("until", UtcDateTime, nullable=False),
    Column("body", LongText, nullable=False),  # path, ListedFile, when it was claimed
    PrimaryKeyConstraint("pipeline", "path_hash", name="pk_cdc_notified_files"),
    **MYSQL,
)

pipeline_files = Table(
    "cdc_pipeline_files",
    metadata,
    Column("pipeline", String(NAME_LENGTH), nullable=False),
    Column("number", Integer, nullable=False, autoincrement=False),  # of the version, from 1 on
    Column("digest", String(64), nullable=False),  # SHA-256 of the text
    Column("text", LongText, nullable=False),  # without comments and secrets
    Column("run_id", String(RUN_ID_LENGTH), nullable=False),  # the first run that worked by it
    Column("since", UtcDateTime, nullable=False),
    PrimaryKeyConstraint("pipeline", "number", name="pk_cdc_pipeline_files"),
    **MYSQL,
)
