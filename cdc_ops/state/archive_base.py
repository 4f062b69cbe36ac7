"""What the ledger keeps of archives, as two types: a reader, and a store for the steps that write. Mixed into those of state.base.

All of it is a cache, save for decisions on gaps that no commit carries yet: which files are consumed follows from the watermark in the
Delta commit (core.archive.files.below).
"""

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING

from cdc_ops.core.archive.completeness import GapRecord
from cdc_ops.core.archive.files import FileRecord
from cdc_ops.core.archive.listing import ListingMark
from cdc_ops.core.archive.watermarks import Gap
from cdc_ops.core.schema.tables import TableName

if TYPE_CHECKING:
    from cdc_ops.state.lease import Lease


class ArchiveReader(ABC):
    """Reads what is known of the archives that tables are fed from."""

    @abstractmethod
    def archive_files(self, pipeline: str, table: TableName, paths: Iterable[str] | None = None) -> Mapping[str, FileRecord]:
        """Returns known files of a table by path: all of them, or those of the paths."""

    @abstractmethod
    def pending_files(self, pipeline: str, table: TableName) -> Mapping[str, FileRecord]:
        """Returns the files that wait or are in an operation's list, by path."""

    @abstractmethod
    def frozen_files(self, pipeline: str, table: TableName, operation_id: str) -> tuple[FileRecord, ...]:
        """Returns the files of an operation, sorted by path."""

    @abstractmethod
    def listing_mark(self, pipeline: str, table: TableName) -> ListingMark | None:
        """Returns what the last listings left, None if there was none."""

    @abstractmethod
    def archive_gaps(self, pipeline: str | None = None, table: TableName | None = None) -> tuple[GapRecord, ...]:
        """Returns gaps that are open or accepted, by pipeline, table and when they were found."""


class ArchiveStore(ArchiveReader):
    """Writes it, under the table's lease."""

    @abstractmethod
    def put_files(self, lease: "Lease", records: Iterable[FileRecord], gone: Iterable[str] = ()) -> None:
        """Writes or replaces what is known of files, and forgets paths, all in one transaction.

        Raises:
            StaleStateError: the lease is lost.
        """

    @abstractmethod
    def put_listing_mark(self, lease: "Lease", mark: ListingMark) -> None:
        """Stores what a listing leaves for the next one.

        Raises:
            StaleStateError: the lease is lost.
        """

    @abstractmethod
    def report_gaps(self, lease: "Lease", gaps: Iterable[Gap]) -> tuple[GapRecord, ...]:
        """Makes what is open the gaps that a proof has just found: new ones are added, those that it did not find are closed.

        One that is found again after it was passed, because the lake was set back, is still accepted if it was.

        Returns:
            What is open or accepted now.

        Raises:
            StaleStateError: the lease is lost.
        """

    @abstractmethod
    def close_gaps(self, lease: "Lease", gaps: Iterable[GapRecord]) -> None:
        """Closes gaps of a table, open or accepted, that its watermark has passed.

        Raises:
            StaleStateError: the lease is lost.
        """

    @abstractmethod
    def accept_gap(self, pipeline: str, gap_id: str, *, who: str, why: str, tables: Collection[TableName] = ()) -> tuple[GapRecord, ...]:
        """Signs off an open gap; accepting it again changes nothing. Needs no lease: it is read by the next plan.

        Args:
            pipeline: Whose archive.
            gap_id: The range. Tables whose events come in one stream have the same gap each.
            who, why: Kept with the decision.
            tables: For which of its tables; empty = for all that have it.

        Returns:
            The accepted gaps, one for each table, by table.

        Raises:
            RequestError: there is no such open gap, or no reason is given.
        """
