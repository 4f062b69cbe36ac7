"""Records of tables that the pipeline file does not name, in files that its tables read.

One table of a folder looks after them, the first by name: it counts them or sets them aside, in the operation that passes them, so that
each counts once. Only with `unknown_tables: fail` each table looks for itself: they all stop. A replay of the quarantine leaves those that
are unknown still, and lets go of those whose table is known by now: that table reads the archive, or is not wanted.
"""

from collections import Counter
from collections.abc import Iterable

from cdc_ops.core.operation.log_batch import LogBatch
from cdc_ops.core.pipeline.archive_config import OnUnknownTable
from cdc_ops.core.pipeline.tables.unknown_tables import NONE_UNKNOWN, KnownTables, UnknownTables, unknown_tables_error
from cdc_ops.core.schema.tables import TableName
from cdc_ops.events.registry import spec_of
from cdc_ops.events.scan.facts import TableFacts


def watches(log: LogBatch, known: KnownTables | None) -> bool:
    """True for an operation that looks after records of unknown tables, False for one that leaves them to another.

    Args:
        log: What it reads.
        known: The tables that the pipeline file names; None = that was not said.
    """
    if known is None or not spec_of(log.archive.format_options).names_table:
        return False
    return log.again or bool(log.unknown) or known.policy is OnUnknownTable.FAIL


def keeps_raw(log: LogBatch, known: KnownTables | None) -> bool:
    """True if an operation that looks after them sets such records aside."""
    return watches(log, known) and known is not None and known.policy is OnUnknownTable.QUARANTINE and not log.again


def check_unknown(facts: Iterable[TableFacts], log: LogBatch, known: KnownTables | None, table: TableName) -> UnknownTables:
    """Returns the unknown tables in the files of an operation, or raises an error if the policy is to fail.

    Raises:
        UnknownTablesError: there are some, and the policy is to fail.
    """
    counts: Counter[str] = Counter()
    for one in facts:
        counts.update(dict(one.unknown))
    if known is None or not counts or log.again:
        return NONE_UNKNOWN
    unknown = UnknownTables.of(counts.items(), known)
    if known.policy is OnUnknownTable.FAIL:
        raise unknown_tables_error(str(table), log.url, unknown)
    return unknown
