"""Every public error of cdc-ops, in one tree.

Each error answers four questions, in this order, and prints them: *what* failed, *why*, what happens to the *data*, and what to do *next*.
A class is either retryable (the same action may succeed later, nothing has to change) or fatal (someone has to act first); Airflow retries
the first kind and fails at once on the second.

    CdcError
    |-- ConfigError             a pipeline file, setting or connection is wrong
    |-- EnvironmentSetupError   Java, jars, a driver or a server binary is missing
    |-- RequestError            what a run was asked to do makes no sense (unknown table, naive datetime, since > until)
    |-- SourceError             the source database refuses or misbehaves
    |   |-- SourceUnreachableError (retryable)
    |   |-- SourceInterruptedError (retryable) the server, or somebody on it, ended a statement of ours
    |   |-- SourceBusyError        (retryable) above the load guard's limit
    |   |-- SourceAccessError      login or grant
    |   |-- SourceTableError       table, key or cursor column missing or unusable
    |   |-- SchemaChangedError     columns or keys changed in a way that the table's policy does not follow
    |   |-- CursorRegressionError  the source's clock or counter went back
    |   `-- ArchiveError             an archive of changes is not what it should be
    |       |-- ArchiveUnreachableError (retryable)
    |       |-- ArchiveGapError          positions that no file holds
    |       |-- ArchiveOrderError        newer events stand at smaller positions: another server counts them now
    |       |-- ArchiveFileError         a file whose name or end is not understood
    |       `-- ArchiveChangedError      (retryable) a file of a frozen batch is not what it was
    |-- DataError               rows that cannot be applied
    |   |-- NullKeyError
    |   |-- NullSequenceError      NULL in a column that orders changes
    |   |-- DuplicateKeyError
    |   |-- TiedEventsError        two change events at one place in the order differ
    |   |-- BadRecordsError        records of an archive that cannot be read exactly
    |   |-- UnknownTablesError     records of an archive are of tables that the pipeline file does not speak of
    |   |-- IncompleteRowError     an event changes a part of a row that the table does not have
    |   |-- UnstorableValueError   a value that no stored type holds, where the policy is to fail
    |   `-- DeletesRefusedError    a comparison would delete more than it may unasked
    |-- LakeError               the Delta table is not what it should be
    |   |-- TargetNotDeltaError
    |   |-- TargetForeignError     another pipeline's table
    |   |-- TargetSchemaError
    |   |-- LakeConflictError      (retryable) somebody else committed
    |   |-- ChangesUnavailableError  changes that a table did not record or does not hold any more
    |   `-- HistoryUnavailableError  a state from before its event history, or without one
    |-- StateError              ledger and lake do not agree
    |   |-- LedgerUnavailableError (retryable)
    |   |-- LedgerBehindError      the lake knows more: rebuild
    |   |-- LakeBehindError        the table was restored or replaced
    |   |-- LandedRowsLostError    (retryable) files of a landed window are gone
    |   |-- StaleStateError        (retryable) a newer holder moved on
    |   `-- LeaseHeldError         (retryable) another run works on the table
    `-- JobError                a Spark application ended without a usable result
        |-- JobLostError           (retryable) killed, out of memory, no result file
        |-- UnforeseenJobError     (retryable) Spark or a driver failed in a way that has no name here
        `-- TableRunError          some tables of a group failed
            `-- RetryableTableRunError (retryable) each in a way that a retry may heal
"""

from collections.abc import Iterator
from typing import ClassVar


class CdcError(Exception):
    """The root of all errors that cdc-ops raises on purpose.

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

    def __str__(self) -> str:
        parts = (self.what, self.why and f"  why:  {self.why}", self.data and f"  data: {self.data}", self.next and f"  next: {self.next}")
        return "\n".join(part for part in parts if part)

    def to_payload(self) -> dict[str, str]:
        """Returns the error as plain text fields, to cross a process border; `from_payload` is the way back."""
        return {"error": type(self).__name__, "what": self.what, "why": self.why, "data": self.data, "next": self.next}


class ConfigError(CdcError):
    """A pipeline file, a setting or a connection is wrong; somebody has to edit it."""


class EnvironmentSetupError(CdcError):
    """Something this machine needs (Java, jars, a driver, a server binary) is missing."""


class RequestError(CdcError):
    """A run was asked for something that cannot be meant."""


class SourceError(CdcError):
    """The source database refuses or misbehaves."""


class SourceUnreachableError(SourceError):
    """The source does not answer; it may later."""

    retryable = True


class SourceInterruptedError(SourceError):
    """The source ended one of our statements: it was killed, ran too long or lost a conflict. Later it may run through."""

    retryable = True


class SourceBusyError(SourceError):
    """The source has more to do than the pipeline wants to add to; later it may not."""

    retryable = True


class SourceAccessError(SourceError):
    """The source refuses the login or lacks a grant."""


class SourceTableError(SourceError):
    """A table, key column or cursor column is missing or cannot be used."""


class SchemaChangedError(SourceError):
    """Columns or keys changed at the source, and the table cannot or may not follow."""


class CursorRegressionError(SourceError):
    """The source's clock or counter is behind the watermark."""


class ArchiveError(SourceError):
    """An archive of change files is not what it should be."""


class ArchiveUnreachableError(ArchiveError):
    """The store of an archive does not answer; it may later."""

    retryable = True


class ArchiveGapError(ArchiveError):
    """Positions are missing between what a table has and what the archive holds."""


class ArchiveOrderError(ArchiveError):
    """Change events stand at smaller positions than older ones: another server counts them now."""


class ArchiveFileError(ArchiveError):
    """A file of an archive has a name that its layout does not know, or cannot be what it says."""


class ArchiveChangedError(ArchiveError):
    """A file that an operation had frozen is gone or has other contents; nothing of it was committed, and it is frozen anew."""

    retryable = True


class DataError(CdcError):
    """Rows that cannot be applied."""


class NullKeyError(DataError):
    """A row has NULL in a key column."""


class NullSequenceError(DataError):
    """A row has NULL in a column that orders the changes of its table."""


class DuplicateKeyError(DataError):
    """Two rows of one read have the same key."""


class TiedEventsError(DataError):
    """Two change events of one key stand at the same place in the order and say different things."""


class BadRecordsError(DataError):
    """Records of an archive cannot be read exactly, and the policy is to stop."""


class UnknownTablesError(DataError):
    """The files of an archive hold records of tables that the pipeline file does not speak of, and the policy is to stop."""


class IncompleteRowError(DataError):
    """An event changes some columns of a row that the table does not have."""


class UnstorableValueError(DataError):
    """A value that no stored type can hold, in a table whose policy for such values is to fail."""


class DeletesRefusedError(DataError):
    """A comparison would delete more rows than it may without being asked."""


class LakeError(CdcError):
    """The Delta table is not what it should be."""


class TargetNotDeltaError(LakeError):
    """The target folder holds files but no Delta table."""


class TargetForeignError(LakeError):
    """The target table is written by another pipeline or by hand."""


class TargetSchemaError(LakeError):
    """The target's columns cannot take the source's."""


class LakeConflictError(LakeError):
    """Somebody else committed to the table during our statement."""

    retryable = True


class ChangesUnavailableError(LakeError):
    """Changes of a table that it did not record, or does not hold any more."""


class HistoryUnavailableError(LakeError):
    """A state of a table from before its event history begins, or of a table that has none."""


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
    """Files of a landed window are gone or not what was written; the next try reads the same window again."""

    retryable = True


class StaleStateError(StateError):
    """A newer holder of the lease moved the table on; planning again is safe."""

    retryable = True


class LeaseHeldError(StateError):
    """Another run holds the table's lease."""

    retryable = True


class JobError(CdcError):
    """A Spark application ended without a usable result."""


class JobLostError(JobError):
    """The application was killed or died before it wrote its result."""

    retryable = True


class UnforeseenJobError(JobError):
    """Spark or a driver failed in a way that has no name here; a bounded number of retries is worth it."""

    retryable = True


class TableRunError(JobError):
    """Some tables of a group failed; the others are done and stay done."""


class RetryableTableRunError(TableRunError):
    """Some tables of a group failed, each in a way that a retry may heal."""

    retryable = True


def _tree(root: type[CdcError]) -> Iterator[type[CdcError]]:
    yield root
    for child in root.__subclasses__():
        yield from _tree(child)


def from_payload(payload: dict[str, str]) -> CdcError:
    """Rebuilds an error from `CdcError.to_payload`; an unknown class name becomes a `JobError` that keeps the text."""
    known = {cls.__name__: cls for cls in _tree(CdcError)}
    cls = known.get(payload.get("error", ""), JobError)
    return cls(payload.get("what", ""), why=payload.get("why", ""), data=payload.get("data", ""), next=payload.get("next", ""))
