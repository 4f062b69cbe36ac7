"""All public errors of cdc-ops, as one class tree.

Each error answers four questions, in this order, and prints them: *what* failed, *why*, what happens to the *data*, and what to do *next*.
A class is either retryable (the same action may succeed later without a change) or fatal (someone has to act first); Airflow retries
the first kind and fails at once on the second.

    CdcError
    |-- ConfigError             a pipeline file, setting or connection is wrong
    |-- EnvironmentSetupError   Java, jars, a driver or a server binary is missing
    |-- RequestError            the request of a run is invalid (unknown table, datetime without time zone, since > until)
    |   `-- CostRefusedError         the run would cost more than `max_cost`
    |-- SourceError             the source database refuses or misbehaves
    |   |-- SourceUnreachableError (retryable)
    |   |-- SourceInterruptedError (retryable) the server, or a person, ended a statement of cdc-ops
    |   |-- SourceBusyError        (retryable) above the load guard's limit
    |   |-- CountMismatchError     (retryable) a read has brought fewer rows than the source has
    |   |-- SourceAccessError      login or grant
    |   |-- SourceTableError       table, key or cursor column missing or unusable
    |   |-- SchemaChangedError     columns or keys changed in a way that the table's policy does not follow
    |   |-- TableReplacedError     another table has taken the name of the one that was copied
    |   |-- SourceServerChangedError another server answers than the one that the watermark comes from
    |   |-- CursorRegressionError  the source's clock or counter went back
    |   `-- ArchiveError             an archive of change files is incomplete or unreadable
    |       |-- ArchiveUnreachableError (retryable)
    |       |-- ArchiveGapError          no file holds some positions
    |       |-- ArchiveOrderError        event positions went backwards, usually after a failover
    |       |-- ArchiveFileError         a file has an unknown name or an invalid end
    |       |   `-- BinlogError              a binlog cannot be read
    |       |       |-- BinlogKindError          the file is no binlog, or one that no program but the server reads
    |       |       |-- BinlogEncryptedError     only the server can read it
    |       |       |-- BinlogDamagedError       bytes do not fit the format, or not their checksum
    |       |       |-- BinlogCutError           it ends within an event or a transaction
    |       |       |-- BinlogEventError         an event may change rows in a way that cannot be followed
    |       |       |-- BinlogStatementError     changes were logged as statements
    |       |       `-- BinlogMetadataError      rows without names, signs or character sets of their columns
    |       |-- BinlogCopyError          a server sends a binlog whose events or length are wrong
    |       |-- BinlogsReplacedError     a server's binlogs are not those that the archive has copies of
    |       `-- ArchiveChangedError      (retryable) a file of a frozen batch changed or is gone
    |-- DataError               rows that cannot be applied
    |   |-- NullKeyError
    |   |-- NullSequenceError      NULL in a column that orders changes
    |   |-- DuplicateKeyError
    |   |-- TiedEventsError        two different change events of a key have the same position
    |   |-- BadRecordsError        records of an archive that cannot be read exactly
    |   |-- UnknownTablesError     an archive has records of tables that the pipeline file does not name
    |   |-- IncompleteRowError     an event updates some columns of a row that the table does not have
    |   |-- UnstorableValueError   no stored type holds a value, and the policy is to fail
    |   |-- TooLargeValueError     (retryable) a value does not fit the BIGINT of its column
    |   `-- DeletesRefusedError    a comparison would delete more rows than the limit
    |-- LakeError               the Delta table does not fit the operation
    |   |-- TargetNotDeltaError
    |   |-- TargetForeignError     another pipeline's table
    |   |-- TargetSchemaError
    |   |-- LakeConflictError      (retryable) another writer committed at the same time
    |   |-- CatalogNameTakenError    the catalog has another table under the name
    |   |-- CatalogUnavailableError  (retryable) the catalog does not take a table
    |   |-- ChangesUnavailableError  the table did not record the changes, or no longer holds them
    |   `-- HistoryUnavailableError  the table has no event history of the requested time
    |-- StateError              ledger and lake do not agree
    |   |-- LedgerUnavailableError (retryable)
    |   |-- LedgerBehindError      the lake has commits that the ledger lacks: rebuild the ledger
    |   |-- LakeBehindError        the table was restored or replaced
    |   |-- LandedRowsLostError    (retryable) files of a landed window are gone
    |   |-- StaleStateError        (retryable) another run changed the table's state
    |   `-- LeaseHeldError         (retryable) another run works on the table
    |-- NotDeliveredError      (retryable) an alert did not reach its receiver
    `-- JobError                a Spark application ended without a usable result
        |-- JobLostError           (retryable) killed, out of memory, no result file
        |-- RunStoppedError        (retryable) a person or a supervisor has ended the command: Ctrl-C, SIGTERM
        |-- SparkServerLostError   (retryable) the Spark Connect server does not answer, or ended during the work
        |-- UnforeseenJobError     (retryable) Spark or a driver failed with an unknown error
        `-- TableRunError          some tables of a group failed
"""

from collections.abc import Iterator
from datetime import datetime
from typing import ClassVar, Self


class Stopped(KeyboardInterrupt):
    """The process was told to end, by Ctrl-C or SIGTERM. No `CdcError`: nothing handles it as a failure and goes on.

    Args:
        by: What told it, e.g. "Ctrl-C".
        may_commit: Whether Spark may still commit what it was working on; then its leases are not given back.
    """

    def __init__(self, by: str = "Ctrl-C", *, may_commit: bool = False) -> None:
        super().__init__(by)
        self.by = by
        self.may_commit = may_commit

    @classmethod
    def of(cls, error: KeyboardInterrupt) -> "Stopped":
        """Returns an interruption as one of ours: Python's own handler, and Spark's, raise a plain one for Ctrl-C."""
        return error if isinstance(error, Stopped) else Stopped()


class CdcError(Exception):
    """The base class of all public errors of cdc-ops.

    Args:
        what: What failed, with the names of the things involved.
        why: The cause as far as it is known.
        data: What happens to the data: what was written, whether the watermark moved.
        next: The next command or action.
    """

    retryable: ClassVar[bool] = False

    def __init__(self, what: str, *, why: str = "", data: str = "", next: str = "") -> None:
        super().__init__(what)  # the rest travels as attributes: pickle calls the class with these arguments alone
        self.what = what
        self.why = why
        self.data = data
        self.next = next
        self.asks = ""

    def asking(self, asks: str) -> Self:
        """Adds what a person may decide so that the table goes on (`cdc_ops.core.approvals`), and returns the error itself."""
        self.asks = asks
        return self

    def __str__(self) -> str:
        parts = (self.what, self.why and f"  why:  {self.why}", self.data and f"  data: {self.data}", self.next and f"  next: {self.next}")
        return "\n".join(part for part in parts if part)

    def to_payload(self) -> dict[str, str]:
        """Returns the error as text fields for another process; `from_payload` is the inverse."""
        asks = {"asks": self.asks} if self.asks else {}
        return {"error": type(self).__name__, "what": self.what, "why": self.why, "data": self.data, "next": self.next, **asks}


class ConfigError(CdcError):
    """A pipeline file, a setting or a connection is wrong; someone has to edit it."""


class EnvironmentSetupError(CdcError):
    """This machine lacks Java, jars, a driver or a server binary."""


class RequestError(CdcError):
    """The request of a run is invalid."""


class CostRefusedError(RequestError):
    """A run would cost more than the pipeline allows without somebody who accepts it."""


class SourceError(CdcError):
    """The source database refuses a statement or returns an unusable result."""


class SourceUnreachableError(SourceError):
    """The source does not answer; a retry may succeed."""

    retryable = True


class SourceInterruptedError(SourceError):
    """The source ended a statement of cdc-ops: it was killed, ran too long or lost a conflict. A retry may succeed."""

    retryable = True


class SourceBusyError(SourceError):
    """The load of the source is above the pipeline's limit; a retry may succeed."""

    retryable = True


class CountMismatchError(SourceError):
    """A read has brought fewer rows than the source has; the next try reads the same rows again."""

    retryable = True


class SourceAccessError(SourceError):
    """The source refuses the login or lacks a grant."""


class SourceTableError(SourceError):
    """A table, key column or cursor column is missing or cannot be used."""


class SchemaChangedError(SourceError):
    """Columns or keys changed at the source, and the table's policy does not follow the change."""


class TableReplacedError(SourceError):
    """The table at the source is another one than the one that was copied under its name."""


class SourceServerChangedError(SourceError):
    """Another server answers than the one that the watermark comes from: after a failover, or behind another name."""


class CursorRegressionError(SourceError):
    """The source's clock or counter is behind the watermark."""


class ArchiveError(SourceError):
    """An archive of change files is incomplete or unreadable."""


class ArchiveUnreachableError(ArchiveError):
    """The store of an archive does not answer; a retry may succeed."""

    retryable = True


class ArchiveGapError(ArchiveError):
    """Positions are missing between the watermark of a table and the files of the archive."""


class ArchiveOrderError(ArchiveError):
    """Event positions went backwards, usually after a failover to another server."""


class ArchiveFileError(ArchiveError):
    """The layout does not know the name of a file, or the file does not fit its name."""


class BinlogError(ArchiveFileError):
    """A binlog cannot be read further; the message says file and position."""


class BinlogKindError(BinlogError):
    """A file is no binlog, or one in a form that only its server reads."""


class BinlogEncryptedError(BinlogError):
    """A binlog is encrypted with a key that only its server has."""


class BinlogDamagedError(BinlogError):
    """Bytes of a binlog do not fit the format, or not their checksum."""


class BinlogCutError(BinlogError):
    """A binlog ends within an event or a transaction."""


class BinlogEventError(BinlogError):
    """An event of a binlog may change rows in a way that cannot be followed."""


class BinlogStatementError(BinlogError):
    """A binlog has changes as statements, and not as rows."""


class BinlogMetadataError(BinlogError):
    """A binlog has rows without the names, signs or character sets of their columns."""


class BinlogCopyError(ArchiveError):
    """A binlog as its server sends it fails a check: a checksum, the chain of its events, or its length. No copy was made."""


class BinlogsReplacedError(ArchiveError):
    """A server's binlogs are not those that the archive has copies of: they were reset, or it is another server."""


class ArchiveChangedError(ArchiveError):
    """A file of a frozen operation is gone or changed. Nothing was committed; the next run freezes the files again."""

    retryable = True


class DataError(CdcError):
    """Rows that cannot be applied."""


class NullKeyError(DataError):
    """A row has NULL in a key column."""


class NullSequenceError(DataError):
    """A row has NULL in a column that orders the changes of its table."""


class DuplicateKeyError(DataError):
    """Two rows of a batch have the same key."""


class TiedEventsError(DataError):
    """Two change events of one key have the same position and different contents."""


class BadRecordsError(DataError):
    """Records of an archive cannot be read exactly, and the policy is to stop."""


class UnknownTablesError(DataError):
    """The files of an archive hold records of tables that the pipeline file does not name, and the policy is to stop."""


class IncompleteRowError(DataError):
    """An event updates some columns of a row that the table does not have."""


class UnstorableValueError(DataError):
    """No stored type can hold a value, and the table's policy is to fail; or no partition can hold it."""


class TooLargeValueError(DataError):
    """A value of a BIGINT UNSIGNED does not fit the BIGINT in which its column is stored so far.

    Args:
        column: The column, which is widened before the rows are read again.
    """

    retryable = True

    def __init__(self, what: str, *, column: str = "", why: str = "", data: str = "", next: str = "") -> None:
        super().__init__(what, why=why, data=data, next=next)
        self.column = column


class DeletesRefusedError(DataError):
    """A comparison would delete more rows than the pipeline allows without confirmation."""


class LakeError(CdcError):
    """The Delta table does not fit the operation."""


class TargetNotDeltaError(LakeError):
    """The target folder has files but no Delta table."""


class TargetForeignError(LakeError):
    """The target table is written by another pipeline or by hand."""


class TargetSchemaError(LakeError):
    """The columns of the Delta table cannot store the rows of the source."""


class LakeConflictError(LakeError):
    """Another writer committed to the table during a statement of cdc-ops."""

    retryable = True


class CatalogNameTakenError(LakeError):
    """The catalog has another table, or a view, under the name that a table is to have."""


class CatalogUnavailableError(LakeError):
    """The catalog does not take a table, or would forget it; no row depends on that."""

    retryable = True


class ChangesUnavailableError(LakeError):
    """A table did not record the requested changes, or no longer holds them."""


class HistoryUnavailableError(LakeError):
    """The event history of a table begins later than the requested time, or does not exist."""


class StateError(CdcError):
    """Ledger and lake do not agree."""


class LedgerUnavailableError(StateError):
    """The ledger's database does not answer."""

    retryable = True


class LedgerBehindError(StateError):
    """The lake holds commits that the ledger does not know."""


class LakeBehindError(StateError):
    """The lake lacks commits that the ledger knows: the table was restored, replaced or dropped."""


class LandedRowsLostError(StateError):
    """Files of a landed window are gone or changed; the next try reads the same window again."""

    retryable = True


class StaleStateError(StateError):
    """Another run with a newer lease changed the table's state; planning again is safe."""

    retryable = True


class LeaseHeldError(StateError):
    """Another run holds the table's lease."""

    retryable = True


class NotDeliveredError(CdcError):
    """An alert did not reach its receiver, and the next look at the ledger sends it again; or it did not reach all addresses of a mail."""

    retryable = True


class JobError(CdcError):
    """A Spark application ended without a usable result."""


class JobLostError(JobError):
    """The application, or another task of the run, was killed or died before it told its result."""

    retryable = True


class RunStoppedError(JobError):
    """A person or a supervisor has ended the command: Ctrl-C, SIGTERM.

    Args:
        held_until: When the table's lease runs out (UTC), None if it was given back.
    """

    retryable = True

    def __init__(self, what: str, *, held_until: datetime | None = None, why: str = "", data: str = "", next: str = "") -> None:
        super().__init__(what, why=why, data=data, next=next)
        self.held_until = held_until


class SparkServerLostError(JobError):
    """The Spark Connect server does not answer, or ended while it worked; a retry may succeed."""

    retryable = True


class UnforeseenJobError(JobError):
    """Spark or a driver failed with an unknown error; a limited number of retries may help."""

    retryable = True


class TableRunError(JobError):
    """Some tables of a group failed; the others succeeded and keep their commits."""


def _tree(root: type[CdcError]) -> Iterator[type[CdcError]]:
    yield root
    for child in root.__subclasses__():
        yield from _tree(child)


def from_payload(payload: dict[str, str]) -> CdcError:
    """Rebuilds an error from `CdcError.to_payload`; an unknown class name becomes a `JobError` that keeps the text."""
    known = {cls.__name__: cls for cls in _tree(CdcError)}
    cls = known.get(payload.get("error", ""), JobError)
    error = cls(payload.get("what", ""), why=payload.get("why", ""), data=payload.get("data", ""), next=payload.get("next", ""))
    return error.asking(payload.get("asks", ""))
