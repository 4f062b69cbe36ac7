"""Records of tables that the pipeline file does not speak of, in files that its tables read. Runs in Spark.

One table of a folder looks after them, the first by name: it counts them or sets them aside, in the operation that passes them, so that
each counts once. Only with `unknown_tables: fail` each table looks for itself: they all stop. A replay of the quarantine leaves those that
are unknown still, and lets go of those whose table is known by now: that table reads the archive, or is not wanted.
"""

from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from cdc_ops.core.events.format_spec import RecordKind
from cdc_ops.core.operation.log_batch import LogBatch
from cdc_ops.core.pipeline.archive_config import OnUnknownTable
from cdc_ops.core.pipeline.unknown_tables import NONE_UNKNOWN, KnownTables, UnknownTables, unknown_tables_error
from cdc_ops.core.schema.tables import TableName
from cdc_ops.formats.feed.canonical import is_of, is_tableless
from cdc_ops.formats.registry import open_format

_STRANGE = "__cdc_strange"


@dataclass(frozen=True, slots=True, kw_only=True)
class UnknownTableFilter:
    """What an operation does about records of unknown tables.

    Args:
        known: The tables that are known.
        log: What the operation reads.
    """

    known: KnownTables
    log: LogBatch

    @property
    def keeps_raw(self) -> bool:
        """True if the records are to be set aside."""
        return self.known.policy is OnUnknownTable.QUARANTINE and not self.log.again

    def is_unknown(self) -> Column:
        """True for a record of a table that is not known, or not to be in this folder."""
        table = F.col("table")
        name = _name(table)
        known = name.isin(*self.known.names)
        if expression := self.known.expression:
            known = known | name.rlike(expression)
        pattern = self.log.archive.url.rstrip("/")
        if "{schema}" in pattern or "{table}" in pattern:
            schema = F.coalesce(table["schema"], F.lit(""))
            there = F.replace(F.replace(F.lit(pattern), F.lit("{schema}"), schema), F.lit("{table}"), table["name"])
            known = known & (there == self.log.url)
        return ~is_tableless() & ~known

    def marked(self, envelopes: DataFrame, table: TableName) -> DataFrame:
        """Returns what concerns a table, and what is of no known one, as such records; of a replay all else too, which is let go."""
        mine = is_tableless() | is_of(table)
        strange = F.when(mine, 0).when(self.is_unknown(), 1).otherwise(2)
        found = envelopes.withColumn(_STRANGE, strange).where(F.lit(self.log.again) | (F.col(_STRANGE) < 2))
        kind = F.when(F.col(_STRANGE) == 1, RecordKind.UNKNOWN.value).when(F.col(_STRANGE) == 2, RecordKind.CONTROL.value)
        reason = F.concat(F.lit("the record is of table "), _name(F.col("table")), F.lit(", which the pipeline file does not name"))
        told = {"kind": F.coalesce(kind, F.col("kind")), "reason": F.when(F.col(_STRANGE) == 1, reason).otherwise(F.col("reason"))}
        return found.withColumns(told).drop(_STRANGE)

    def check_unknown(self, feed: DataFrame, records: int, table: TableName) -> UnknownTables:
        """Returns the unknown tables in a landed feed, or raises an error if the policy is to fail.

        Args:
            feed: The feed, with `table`.
            records: The number of their records in the feed; the feed is not read if it is 0.
            table: The table of the feed.

        Raises:
            UnknownTablesError: there are some, and the policy is to fail.
        """
        if not records or self.log.again:
            return NONE_UNKNOWN
        rows = feed.where(F.col("kind") == RecordKind.UNKNOWN).groupBy(_name(F.col("table")).alias("name")).count().collect()
        unknown = UnknownTables.of(((row["name"], row["count"]) for row in rows), self.known)
        if self.known.policy is OnUnknownTable.FAIL:
            raise unknown_tables_error(str(table), self.log.url, unknown)
        return unknown


def watch_of(log: LogBatch, known: KnownTables | None) -> UnknownTableFilter | None:
    """Returns what an operation does about records of unknown tables, None if it leaves them to another one.

    Args:
        log: What it reads.
        known: The tables that are known; None = that was not said.
    """
    if known is None or not open_format(log.archive.events.format).spec.names_table:
        return None
    looks = log.again or bool(log.unknown) or known.policy is OnUnknownTable.FAIL
    return UnknownTableFilter(known=known, log=log) if looks else None


def _name(table: Column) -> Column:
    """Returns the name of a record's table as pipeline files spell it."""
    return F.concat_ws(".", F.when(table["schema"] != "", table["schema"]), table["name"])
