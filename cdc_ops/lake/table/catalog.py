"""Tables in Spark's catalog: registered by SQL, by name and place. Nothing here writes a row, or is needed to read a table by its path."""

import re
import time
from collections.abc import Iterable
from typing import Final

from pyspark.errors import PySparkException
from pyspark.sql import Row, SparkSession

from cdc_ops.core.operation.catalog_entry import CatalogEntry, CatalogResult, same_place
from cdc_ops.core.operation.results import OperationResult, Outcome
from cdc_ops.errors import CatalogNameTakenError, CatalogUnavailableError, CdcError
from cdc_ops.lake.log.delta_log import DeltaLog
from cdc_ops.lake.spark.error_text import error_text
from cdc_ops.lake.spark.session import private_session
from cdc_ops.lake.sql_text import text_literal

SESSION_CATALOG: Final = "spark_catalog"
REGISTERED_AS: Final = "cdc_ops.registered"
"""Table property that is set again when columns have changed: a commit by the table's name is what makes Delta tell the metastore."""

_IN_LAKE: Final = (Outcome.APPLIED, Outcome.ALREADY_APPLIED)
_TELLS_COLUMNS: Final = {"spark.databricks.delta.catalog.update.enabled": "true"}
"""Delta leaves the metastore without columns unless it is told to write them."""
_PATIENCE: Final = 60.0
_PAUSE: Final = 0.1
"""Seconds."""

_ADDRESS: Final = "spark.hadoop.hive.metastore.uris"
_LOST: Final = r"Could not connect to meta store|SessionHiveMetaStoreClient|org\.apache\.thrift\.transport\.TTransportException"
_REASON: Final = (
    r"Could not connect to meta store[^\n]*?Most recent failure: (?:org\.apache\.thrift\.transport\.TTransportException: )?([^\n]+)"
)


def follow_catalog(spark: SparkSession, entry: CatalogEntry, operations: Iterable[OperationResult]) -> CatalogResult | None:
    """Registers a table after its operations, if it is not registered as it is now. It raises nothing: the rows are committed.

    Args:
        spark: Any session.
        entry: The table and its name.
        operations: What was done to it.

    Returns:
        How it ended; None if nothing had to be done, for which one file of the log is read.
    """
    done = [one for one in operations if one.outcome in _IN_LAKE]
    if not done:
        return None
    try:
        return register(spark, entry, version=done[-1].stats.delta_version if done[-1].stats else None)
    except CdcError as error:
        return CatalogResult(error=error.to_payload())
    except Exception as error:  # whatever a metastore's client raises: no commit is undone by it
        return CatalogResult(error=_unavailable(entry, error).to_payload())


def register(spark: SparkSession, entry: CatalogEntry, *, version: int | None = None, always: bool = False) -> CatalogResult | None:
    """Makes a table known by its name, and its columns, if it is not known like that yet.

    Args:
        spark: Any session.
        entry: The table and its name.
        version: Its newest version, as far as it is known.
        always: Ask the catalog also if it was told of the table as it is now: somebody may have dropped the name.

    Returns:
        What is registered now; None if it was already, or there is no table.

    Raises:
        CatalogNameTakenError: the name is that of another table, or of a view.
        CatalogUnavailableError: the catalog does not take it, or would forget it.
    """
    log = DeltaLog(entry.path)
    at = version if version is not None else log.newest()
    if at is None:
        return None
    print_now = entry.fingerprint(log.state(at).columns())
    changed = print_now != entry.registered
    if not changed and not always:
        return None
    with private_session(spark, _TELLS_COLUMNS) as session:
        try:
            _check_lasting(session, entry)
            if not _is_there(session, entry):
                _create(session, entry)
                if not _is_there(session, entry):
                    raise _unavailable(entry, "Spark does not find the table after CREATE TABLE.")
            elif changed and _catalog(session, entry) == SESSION_CATALOG:
                _publish_columns(session, entry, f"{'.'.join(entry.name)} {print_now}")
        except PySparkException as error:
            raise _unavailable(entry, error) from error
    return CatalogResult(registered=print_now)


def _create(spark: SparkSession, entry: CatalogEntry) -> None:
    """Makes the name, and its schema if it is missing: who may not create schemas can have them made by others."""
    create = f"CREATE TABLE IF NOT EXISTS {entry.sql_name} USING delta LOCATION {text_literal(entry.path)}"
    if not spark.catalog.databaseExists(entry.sql_schema):
        spark.sql(f"CREATE SCHEMA IF NOT EXISTS {entry.sql_schema}")
    spark.sql(create)


def _publish_columns(spark: SparkSession, entry: CatalogEntry, value: str) -> None:
    """Makes Delta tell the metastore of the columns, and waits until it has: Delta does so in the background, and a job may end first.

    Raises:
        CatalogUnavailableError: the metastore still has the old entry after `_PATIENCE`.
    """
    spark.sql(f"ALTER TABLE {entry.sql_name} SET TBLPROPERTIES ({text_literal(REGISTERED_AS)} = {text_literal(value)})")
    end = time.monotonic() + _PATIENCE
    while value not in _stored(spark, entry):
        if time.monotonic() > end:
            raise _unavailable(entry, f"The metastore did not have the columns {_PATIENCE:.0f} seconds after Delta was told to write them.")
        time.sleep(_PAUSE)


def _stored(spark: SparkSession, entry: CatalogEntry) -> str:
    """Returns what the metastore itself has, as text; other statements ask the Delta log."""
    name = text_literal(entry.name[-1])
    [row] = spark.sql(f"SHOW TABLE EXTENDED IN {entry.sql_schema} LIKE {name}").collect()
    return str(row["information"])


def _is_there(spark: SparkSession, entry: CatalogEntry) -> bool:
    """True if the name is that of the table.

    Raises:
        CatalogNameTakenError: it is that of something else.
    """
    if not spark.catalog.tableExists(entry.sql_name):
        return False
    rows = spark.sql(f"DESCRIBE TABLE EXTENDED {entry.sql_name}").collect()
    facts = {str(row["col_name"]): str(row["data_type"]) for row in rows[_details(rows) :]}
    place, name = facts.get("Location", ""), ".".join(entry.name)
    if place and same_place(place, entry.path):
        return True
    what = f"a table at {place}" if place else f"a {facts.get('Type', 'table without a location').lower()}"
    raise CatalogNameTakenError(
        f"The catalog has {name} already, and it is not {entry.table}.",
        why=f"It is {what}; the Delta table of {entry.table} is at {entry.path}.",
        data="The rows are in the Delta table; the catalog is unchanged.",
        next=f"DROP TABLE {entry.sql_name} if nobody needs it, or set another 'catalog_name' for the table; then 'cdc-ops register'.",
    )


def _details(rows: list[Row]) -> int:
    """Returns where the columns end and what is known of the table begins: a column may be called Location."""
    return next((number for number, row in enumerate(rows) if str(row["col_name"]).startswith("# Detailed")), 0)


def _catalog(spark: SparkSession, entry: CatalogEntry) -> str:
    return entry.name[0] if len(entry.name) > 2 else spark.conf.get("spark.sql.defaultCatalog", SESSION_CATALOG) or SESSION_CATALOG


def _check_lasting(spark: SparkSession, entry: CatalogEntry) -> None:
    """Refuses a catalog that is gone with the application.

    Raises:
        CatalogUnavailableError: it is Spark's own, in memory.
    """
    if _catalog(spark, entry) == SESSION_CATALOG and spark.conf.get("spark.sql.catalogImplementation", "in-memory") == "in-memory":
        raise CatalogUnavailableError(
            f"{entry.table} is not registered as {'.'.join(entry.name)}: Spark has no metastore.",
            why="spark.sql.catalogImplementation is in-memory, so the name would be gone when the job ends.",
            data="The rows are in the Delta table, at its path.",
            next="Set the metastore in 'spark: conf:' of the pipeline file (docs/catalog.md), then 'cdc-ops register'.",
        )


def lost_metastore(spark: SparkSession, what: str, error: BaseException) -> CatalogUnavailableError | None:
    """Returns the error for a metastore of Hive's that does not answer, None if an error says something else.

    Spark asks it for each statement, whatever it is about, and names a class of Hive's as what failed.

    Args:
        spark: Any session, which knows the address.
        what: What failed, such as "Table shop.orders".
        error: What Spark raised.
    """
    reason = _lost(error)
    if not reason:
        return None
    address = spark.conf.get(_ADDRESS, "") or ""
    return CatalogUnavailableError(
        f"{what} failed: Hive's metastore{f' {address}' if address else ''} does not answer.",
        why=reason,
        data="The operation is not committed, or the next try finds its commit; the watermark stays.",
        next="Start the metastore, or correct 'spark: conf:' of the pipeline file (docs/catalog.md). The next run reads the same window.",
    )


def _lost(error: BaseException) -> str:
    """Returns why a metastore does not answer, "" if an error says something else: the reason is deeper than what Spark says."""
    text = error_text(error)
    if not (found := re.search(_LOST, text)):
        return ""
    reason = re.search(_REASON, text)
    return (reason.group(1) if reason else found.group()).strip()


def _unavailable(entry: CatalogEntry, error: object) -> CatalogUnavailableError:
    lines = [line for line in str(error).splitlines() if line.strip()]
    lost = _lost(error) if isinstance(error, BaseException) else ""
    return CatalogUnavailableError(
        f"{entry.table} cannot be registered as {'.'.join(entry.name)}.",
        why=f"Hive's metastore does not answer: {lost}" if lost else lines[0] if lines else type(error).__name__,
        data="The rows are in the Delta table, at its path; the catalog may have the name without the newest columns.",
        next="Correct the catalog, its grants, or the name ('catalog', 'catalog_name'); the next run that writes the table tries again,"
        " and 'cdc-ops register' at once.",
    )
