"""Archives in object stores, through fsspec: S3 with its own paging, others as a whole.

S3 lists in the order of names and starts after a name, and its answers carry its clock. Of the other stores fsspec says neither, so they
are listed in full each time and are taken to be settled by two listings, or by their own times against this machine's clock.
"""

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, BinaryIO, Final, TypeVar

from cdc_ops.archives.base import Archive, Listing
from cdc_ops.core.archive.files import ListedFile, ListedRange
from cdc_ops.errors import ArchiveError, ArchiveUnreachableError

T = TypeVar("T")

_TAKEN: Final = ("PreconditionFailed", "412", "ConditionalRequestConflict", "409")
_UNCONDITIONAL: Final = ("NotImplemented", "501")
"""What a store answers that cannot refuse a second file of the same name."""


class FsspecArchive(Archive):
    """Any store that fsspec has a package for."""

    def __init__(self, scheme: str, root: str, options: dict[str, Any]) -> None:
        import fsspec

        self._scheme = scheme
        self._root = root
        self._filesystem = fsspec.filesystem(scheme, use_listings_cache=False, skip_instance_cache=True, **options)

    def list(self, ranges: Iterable[ListedRange]) -> Listing:
        """See `Archive`. Everything below the root is listed, whatever is asked for."""
        wanted = tuple(ranges)
        clock = datetime.now(UTC)
        found = self._ask(lambda: self._filesystem.find(self._root, detail=True))
        files = (self._file(name, info) for name, info in found.items() if info.get("type", "file") == "file")
        kept = [file for file in files if any(part.holds(file.path) for part in wanted)]
        return Listing(files=tuple(sorted(kept, key=lambda file: file.path)), clock=clock, calls=1, entries=len(found))

    def folders(self, within: str) -> tuple[str, ...]:
        """See `Archive`."""
        try:
            found = self._ask(lambda: self._filesystem.ls(f"{self._root}/{within}".rstrip("/"), detail=True))
        except FileNotFoundError:
            return ()
        return tuple(sorted(f"{self._inner(info['name'])}/" for info in found if info["type"] == "directory"))

    def stat(self, paths: Iterable[str]) -> Mapping[str, ListedFile]:
        """See `Archive`. One request per file."""
        files = {}
        for path in paths:
            try:
                info = self._ask(lambda path=path: self._filesystem.info(f"{self._root}/{path}"))  # type: ignore[misc]
            except FileNotFoundError:
                continue
            files[path] = self._file(info["name"], info)
        return files

    def head(self, path: str, size: int) -> bytes:
        """See `Archive`."""
        content: bytes = self._ask(lambda: self._filesystem.head(f"{self._root}/{path}", size))
        return content

    def tail(self, path: str, size: int) -> bytes:
        """See `Archive`."""
        content: bytes = self._ask(lambda: self._filesystem.tail(f"{self._root}/{path}", size))
        return content

    def upload(self, file: str, path: str) -> bool:
        """Copies a finished file of this machine under a path, visible at once and whole.

        Returns:
            False if there is a file at that path already, which stays as it is.

        Raises:
            ArchiveUnreachableError, ArchiveError: as for `list`.
        """
        if self.stat([path]):
            return False
        self._ask(lambda: self._filesystem.put_file(file, f"{self._root}/{path}"))
        return True

    def open(self, path: str) -> BinaryIO:
        """See `Archive`."""
        opened: BinaryIO = self._ask(lambda: self._filesystem.open(f"{self._root}/{path}", "rb"))
        return opened

    def close(self) -> None:
        """See `Archive`."""

    def _inner(self, name: str) -> str:
        return str(name).strip("/").removeprefix(self._root.strip("/")).strip("/")

    def _file(self, name: str, info: Mapping[str, Any]) -> ListedFile:
        etag = info.get("ETag") or info.get("etag") or info.get("md5Hash") or info.get("content_md5") or ""
        times = (info.get(key) for key in ("LastModified", "last_modified", "updated", "mtime", "created"))
        return ListedFile(
            path=self._inner(name),
            size=int(info.get("size") or 0),
            etag=str(etag).strip('"'),
            modified=next((found for found in map(_instant, times) if found), None),
        )

    def _ask(self, request: Callable[[], T]) -> T:
        """Asks the store; what it or its package raises becomes an error of ours that shows no address of its own."""
        try:
            return request()
        except FileNotFoundError:
            raise
        except PermissionError as error:
            raise ArchiveError(
                f"The store refuses to show the archive {self._scheme}://{self._root}.",
                why=str(error),
                data="Nothing was read.",
                next="Grant the credentials of this process the permission to list and read it.",
            ) from None
        except Exception as error:
            raise ArchiveUnreachableError(
                f"The archive {self._scheme}://{self._root} does not answer.",
                why=f"{type(error).__name__}: {error}",
                data="Nothing was read.",
                next="Retry; if the error stays, check the endpoint and the credentials.",
            ) from error


class S3Archive(FsspecArchive):
    """S3 and stores that speak its API: a listing asks for what comes after a name, 1,000 names a request."""

    def list(self, ranges: Iterable[ListedRange]) -> Listing:
        """See `Archive`."""
        files: dict[str, ListedFile] = {}
        clock, calls, entries = None, 0, 0
        for wanted in ranges:
            for page in self._pages(wanted):
                calls += 1
                clock = clock or _clock(page)
                contents = page.get("Contents", ())
                entries += len(contents)
                drawn = (item for item in contents if not item["Key"].endswith("/"))  # a key with a slash at its end is a folder's picture
                found = (self._file(f"{self._bucket}/{item['Key']}", item | {"size": item["Size"]}) for item in drawn)
                files |= {file.path: file for file in found}
        kept = tuple(file for _, file in sorted(files.items()))
        return Listing(files=kept, clock=clock or datetime.now(UTC), calls=calls, entries=entries)

    def folders(self, within: str) -> tuple[str, ...]:
        """See `Archive`."""
        found: list[str] = []
        for page in self._pages(ListedRange(prefix=within), Delimiter="/"):
            found += [f"{self._inner(self._bucket + '/' + item['Prefix'])}/" for item in page.get("CommonPrefixes", ())]
        return tuple(sorted(found))

    def upload(self, file: str, path: str) -> bool:
        """See `FsspecArchive`. S3 itself refuses a second file of the same name; some stores that speak its API do not know how to."""
        from botocore.exceptions import ClientError

        def put() -> bool:
            try:
                self._filesystem.put_file(file, f"{self._root}/{path}", mode="create")
            except FileExistsError:
                return False
            except OSError as error:
                cause = error.__cause__
                code = cause.response.get("Error", {}).get("Code") if isinstance(cause, ClientError) else ""
                if code in _TAKEN:
                    return False
                if code not in _UNCONDITIONAL:
                    raise
                return super(S3Archive, self).upload(file, path)
            return True

        return self._ask(put)

    def abort_uploads(self, folder: str) -> int:
        """Ends uploads into a folder that no process goes on with, and returns their number; 0 if we may not list them."""
        try:
            found = self._ask(lambda: self._filesystem.call_s3("list_multipart_uploads", Bucket=self._bucket, Prefix=self._key(folder)))
        except (ArchiveError, FileNotFoundError):  # they cost a little, and hold no name: a lifecycle rule ends them too
            return 0
        uploads = found.get("Uploads", ())
        for item in uploads:
            self._ask(
                lambda item=item: self._filesystem.call_s3(  # type: ignore[misc]
                    "abort_multipart_upload", Bucket=self._bucket, Key=item["Key"], UploadId=item["UploadId"]
                )
            )
        return len(uploads)

    @property
    def _bucket(self) -> str:
        return self._root.partition("/")[0]

    def _key(self, path: str) -> str:
        base = self._root.partition("/")[2]
        return f"{base}/{path}" if base else path

    def _pages(self, wanted: ListedRange, **options: str) -> Iterable[dict[str, Any]]:
        more: dict[str, str] = {"StartAfter": self._key(wanted.after)} if wanted.after else {}
        while True:
            page = self._page(Prefix=self._key(wanted.prefix), **options, **more)
            yield page
            if not page.get("IsTruncated"):
                return
            more = {"ContinuationToken": page["NextContinuationToken"]}

    def _page(self, **request: str) -> dict[str, Any]:
        from botocore.exceptions import ClientError

        def ask() -> dict[str, Any]:
            try:
                answer: dict[str, Any] = self._filesystem.call_s3("list_objects_v2", Bucket=self._bucket, **request)
            except ClientError as error:
                if error.response.get("Error", {}).get("Code") in ("AccessDenied", "403"):
                    raise PermissionError(str(error)) from error
                raise
            return answer

        try:
            return self._ask(ask)
        except FileNotFoundError:
            raise ArchiveError(
                f"The bucket {self._bucket!r} does not exist.",
                why="The store returned this; it may also hide the bucket from these credentials.",
                data="Nothing was read.",
                next="Correct the archive's URL.",
            ) from None


def _clock(page: Mapping[str, Any]) -> datetime | None:
    date = page.get("ResponseMetadata", {}).get("HTTPHeaders", {}).get("date")
    return parsedate_to_datetime(date).astimezone(UTC) if date else None


def _instant(value: object) -> datetime | None:
    if isinstance(value, int | float):
        return datetime.fromtimestamp(value, UTC)
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            return None
    if not isinstance(value, datetime):
        return None
    return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
