"""New files in an archive: written beside it first, and visible under their name at once and whole, or never.

    with ArchiveWriter(archive).new_file(path) as file: file.write(...); file.publish()

Local folders: a hidden file in the same folder, synced to the disk, then linked under its name. S3: a temporary file of this machine, then
one upload that counts when it is complete. Neither replaces a file that exists.
"""

import errno
import os
import secrets
import tempfile
from abc import ABC, abstractmethod
from pathlib import Path
from types import TracebackType
from typing import IO, Final, Self

from cdc_ops.archives.base import Archive
from cdc_ops.archives.local import LocalArchive
from cdc_ops.archives.remote import FsspecArchive, S3Archive
from cdc_ops.errors import ArchiveError

_TEMPORARY: Final = ".tmp"
_NO_LINKS: Final = (errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK)


class NewFile(ABC):
    """A file that is being written; it is gone after the `with` block unless it was published."""

    size: int = 0
    """Bytes that were written."""

    @abstractmethod
    def write(self, data: bytes | bytearray | memoryview) -> int:
        """Adds bytes at the end.

        Raises:
            ArchiveError: there is no room for them.
        """

    @abstractmethod
    def publish(self) -> bool:
        """Makes the file visible under its name.

        Returns:
            False if there is a file of that name already, which stays as it is.

        Raises:
            ArchiveUnreachableError: the store does not answer; the file may be there or not.
            ArchiveError: the store refuses it.
        """

    @abstractmethod
    def discard(self) -> None:
        """Removes what was written and not published."""

    @property
    def closed(self) -> bool:
        """False: a compressing stream in front of the file asks."""
        return False

    def close(self) -> None:  # noqa: B027  no subclass needs another one
        """Does nothing: that a compressing stream ends does not make the file whole."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.discard()


class ArchiveWriter:
    """Writes new files into an archive.

    Args:
        archive: Open archive.
    """

    def __init__(self, archive: Archive) -> None:
        self.archive = archive

    def new_file(self, path: str) -> NewFile:
        """Begins a file.

        Args:
            path: Relative to the archive's root, with `/`; its folder is created where a store has folders.
        """
        match self.archive:
            case LocalArchive() as local:
                return _LocalFile(local.root / path)
            case FsspecArchive() as remote:
                return _RemoteFile(remote, path)
            case unknown:
                raise TypeError(f"archives of type {type(unknown).__name__} cannot be written")

    def clear(self, folder: str) -> int:
        """Removes what killed processes have left in a folder; nobody else may be writing there.

        Returns:
            How many files or uploads that were.
        """
        match self.archive:
            case LocalArchive() as local:
                left = [path for path in (local.root / folder).glob(f".*{_TEMPORARY}") if path.is_file()]
                for path in left:
                    path.unlink(missing_ok=True)
                return len(left)
            case S3Archive() as s3:
                return s3.abort_uploads(folder)
            case _:
                return 0


class _LocalFile(NewFile):
    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._scratch = path.with_name(f".{path.name}.{secrets.token_hex(8)}{_TEMPORARY}")
            self._file: IO[bytes] = open(self._scratch, "xb")  # noqa: SIM115  closed by `publish` or `discard`
        except OSError as error:
            raise _refused(path, error) from None

    def write(self, data: bytes | bytearray | memoryview) -> int:
        try:
            self.size += self._file.write(data)
        except OSError as error:
            raise _refused(self._path, error) from None
        return len(data)

    def publish(self) -> bool:
        try:
            self._file.flush()
            os.fsync(self._file.fileno())
            self._file.close()
            published = _link(self._scratch, self._path)
            _sync_folder(self._path.parent)
        except OSError as error:
            raise _refused(self._path, error) from None
        return published

    def discard(self) -> None:
        self._file.close()
        self._scratch.unlink(missing_ok=True)


class _RemoteFile(NewFile):
    """A file that waits on this machine, without a name, so that it ends with the process."""

    def __init__(self, archive: FsspecArchive, path: str) -> None:
        self._archive, self._path = archive, path
        self._file: IO[bytes] = tempfile.TemporaryFile(prefix="cdc-ops-")  # noqa: SIM115  closed by `discard`

    def write(self, data: bytes | bytearray | memoryview) -> int:
        try:
            self.size += self._file.write(data)
        except OSError as error:
            raise _refused(Path(tempfile.gettempdir()), error) from None
        return len(data)

    def publish(self) -> bool:
        self._file.flush()
        self._file.seek(0)
        return self._archive.upload(f"/dev/fd/{self._file.fileno()}", self._path)

    def discard(self) -> None:
        self._file.close()


def _link(scratch: Path, path: Path) -> bool:
    """Gives a file its name unless that is taken; where a file system knows no links, by renaming it after a look."""
    try:
        os.link(scratch, path)
    except FileExistsError:
        return False
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        if path.exists():
            return False
        os.replace(scratch, path)
    return True


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _refused(path: Path, error: OSError) -> ArchiveError:
    return ArchiveError(
        f"A file cannot be written at {path}.",
        why=error.strerror or str(error),
        data="Nothing half-written is visible in the archive.",
        next="Make room, or grant the permission; then run the archiver again.",
    )
