"""Archives in folders of this machine, or of one that is mounted. Its clock is the machine's."""

import hashlib
import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

from cdc_ops.archives.base import HASHED, Archive, Listing
from cdc_ops.core.archive.files import ListedFile, ListedRange
from cdc_ops.errors import ArchiveError, ArchiveUnreachableError


class LocalArchive(Archive):
    """A folder. A listing reads the names of the folders that its ranges reach into, and asks for sizes only of the files in them."""

    def __init__(self, root: str) -> None:
        self._root = Path(root)

    @property
    def root(self) -> Path:
        """The folder."""
        return self._root

    def list(self, ranges: Iterable[ListedRange]) -> Listing:
        """See `Archive`."""
        clock = datetime.now(UTC)
        if not self._root.is_dir():
            raise ArchiveError(
                f"No archive exists at {self._root}.",
                why="It is not a folder, or this process lacks the permission to see it.",
                data="Nothing was read.",
                next="Correct the archive's URL, or create the folder.",
            )
        files: dict[str, ListedFile] = {}
        calls = entries = 0
        with self._readable():
            for wanted in ranges:
                folder = wanted.prefix.rpartition("/")[0]
                for found, names in self._walk(folder, wanted):
                    calls, entries = calls + 1, entries + names
                    files |= found
        return Listing(files=tuple(file for _, file in sorted(files.items())), clock=clock, calls=calls, entries=entries)

    def folders(self, within: str) -> tuple[str, ...]:
        """See `Archive`."""
        try:
            with self._readable(), os.scandir(self._root / within) as found:
                return tuple(sorted(f"{within}{entry.name}/" for entry in found if entry.is_dir()))
        except FileNotFoundError:
            return ()

    def stat(self, paths: Iterable[str]) -> Mapping[str, ListedFile]:
        """See `Archive`."""
        with self._readable():
            files = [self._file(path) for path in paths]
        return {file.path: file for file in files if file is not None}

    def head(self, path: str, size: int) -> bytes:
        """See `Archive`."""
        with self._readable(), open(self._root / path, "rb") as file:
            return file.read(size)

    def tail(self, path: str, size: int) -> bytes:
        """See `Archive`."""
        with self._readable(), open(self._root / path, "rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - size))
            return file.read()

    def open(self, path: str) -> BinaryIO:
        """See `Archive`."""
        with self._readable():
            return open(self._root / path, "rb")

    def content_hash(self, path: str) -> str:
        """See `Archive`."""
        try:
            with self._readable(), open(self._root / path, "rb") as file:
                return f"{HASHED}{hashlib.file_digest(file, hashlib.blake2b).hexdigest()[:32]}"
        except FileNotFoundError:
            return ""

    def close(self) -> None:
        """See `Archive`."""

    @contextmanager
    def _readable(self) -> Iterator[None]:
        """Makes errors of the file system errors of ours; that a file is not there stays what it is."""
        try:
            yield
        except (FileNotFoundError, NotADirectoryError):
            raise
        except PermissionError as error:
            raise ArchiveError(
                f"A part of the archive in {self._root} cannot be read.",
                why=str(error),
                data="Nothing was read.",
                next="Let the user of this process read the archive's folders and files.",
            ) from error
        except OSError as error:
            raise ArchiveUnreachableError(
                f"The archive in {self._root} does not answer.",
                why=str(error),
                data="Nothing was read.",
                next="Retry; if the error stays, check the disk, or the share that is mounted there.",
            ) from error

    def _walk(self, folder: str, wanted: ListedRange) -> Iterator[tuple[dict[str, ListedFile], int]]:
        """Yields per folder the wanted files and how many names it has."""
        try:
            with os.scandir(self._root / folder) as found:
                entries = [(f"{folder}/{entry.name}" if folder else entry.name, entry.is_dir()) for entry in found]
        except FileNotFoundError:
            return
        files = (self._file(path) for path, is_folder in entries if not is_folder and wanted.holds(path))
        yield {file.path: file for file in files if file is not None}, len(entries)
        for path, is_folder in sorted(entries):
            if is_folder and _reaches(f"{path}/", wanted):
                yield from self._walk(path, wanted)

    def _file(self, path: str) -> ListedFile | None:
        try:
            known = os.stat(self._root / path)
        except FileNotFoundError:  # removed between the listing and now
            return None
        if not stat.S_ISREG(known.st_mode):
            return None
        return ListedFile(path=path, size=known.st_size, modified=datetime.fromtimestamp(known.st_mtime, UTC))


def _reaches(folder: str, wanted: ListedRange) -> bool:
    """True if a file in or below a folder may be in the range."""
    near = folder.startswith(wanted.prefix) or wanted.prefix.startswith(folder)
    return near and (folder > wanted.after or wanted.after.startswith(folder))
