"""The protocol of an archive: partial listings, with the clock of its store.

    open_archive(url) -> Archive: S3Archive (s3://), LocalArchive (a folder), FsspecArchive (anything else that fsspec knows)

Here files are listed and opened. What a listing means is decided in core.archive.files, what files hold in cdc_ops.events.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import BinaryIO, Final

from cdc_ops.core.archive.files import ListedFile, ListedRange

HASHED: Final = "blake2b:"
"""What an etag of our own making begins with, in place of one that a store does not give."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """Files of some ranges.

    Args:
        files: Sorted by path; paths are relative to the archive's root.
        clock: The store's clock when the listing began, UTC.
        calls: Requests or folders read: what it cost.
        entries: Names that the store returned for it.
    """

    files: tuple[ListedFile, ...]
    clock: datetime
    calls: int
    entries: int


class Archive(ABC):
    """A folder of change files. Paths go in and out relative to it, with `/`."""

    @abstractmethod
    def list(self, ranges: Iterable[ListedRange]) -> Listing:
        """Lists whole ranges.

        Raises:
            ArchiveUnreachableError: the store does not answer.
            ArchiveError: it refuses us, or there is no such archive.
        """

    @abstractmethod
    def folders(self, within: str) -> tuple[str, ...]:
        """Returns the folders right below one, each with a `/` at its end; "" is the root."""

    @abstractmethod
    def stat(self, paths: Iterable[str]) -> Mapping[str, ListedFile]:
        """Returns the current state of files, without missing ones."""

    @abstractmethod
    def head(self, path: str, size: int) -> bytes:
        """Returns the first bytes of a file, fewer if it is shorter."""

    @abstractmethod
    def tail(self, path: str, size: int) -> bytes:
        """Returns the last bytes of a file, fewer if it is shorter."""

    @abstractmethod
    def open(self, path: str) -> BinaryIO:
        """Opens a file for reading; the caller closes it."""

    def content_hash(self, path: str) -> str:
        """Returns a hash of a file's contents, beginning with `HASHED`; "" where the store's etag does that, or the file is gone."""
        return ""

    @abstractmethod
    def close(self) -> None:
        """Releases connections."""
