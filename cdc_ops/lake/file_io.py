"""Small files beside the data, on local disks and object stores alike: job specs, results, manifests. Spark-free."""

import os
import uuid
from collections.abc import Mapping
from typing import Any, Final

from fsspec.core import url_to_fs

from cdc_ops.core.pipeline.extras import missing_package
from cdc_ops.errors import ConfigError

CALENDAR: Final = {"org.apache.spark.version": "4.2.0"}
"""Of Parquet files: dates before 1582 are those of the calendar that Spark has used since 3.0; without it, Spark refuses to read them.

Any version from 3.0 on says so; executors may have a Spark of which Python knows no version.
"""


def open_filesystem(path: str, options: Mapping[str, Any] | None = None) -> tuple[Any, str]:
    """Returns the file system of a path or URI and the path in it.

    Listings are not cached: a worker lives long, and other processes write what it looks for.

    Args:
        path: A local path, or the URI of a store.
        options: For fsspec's file system.

    Raises:
        ConfigError: the URL cannot be meant.
        EnvironmentSetupError: the package for this kind of store is not installed.
    """
    plain = path.removeprefix("file:") if path.startswith("file:/") and not path.startswith("file://") else path
    try:
        filesystem, inner = url_to_fs(plain, use_listings_cache=False, **(options or {}))
    except ImportError as error:
        raise missing_package(path, str(error)) from None
    except (ValueError, TypeError) as error:  # a scheme that is unknown, or a file system that wants more than the URL
        raise ConfigError(
            f"{path!r} is not a folder or the URL of one.", why=str(error), data="Nothing was read or written.", next="Correct the URL."
        ) from None
    return filesystem, inner.rstrip("/")


def read_text(path: str) -> str:
    """Returns a file's text.

    Raises:
        FileNotFoundError: there is no such file.
    """
    filesystem, inner = open_filesystem(path)
    content: bytes = filesystem.cat_file(inner)
    return content.decode()


def make_folder(path: str) -> None:
    """Makes a folder of the local file system, if it is one: object stores have keys."""
    filesystem, inner = open_filesystem(path)
    if is_local(filesystem):
        filesystem.makedirs(inner, exist_ok=True)


def remove_folder(path: str) -> None:
    """Removes a folder with all that is in it; one that is not there is fine."""
    filesystem, inner = open_filesystem(path)
    if filesystem.exists(inner):
        filesystem.rm(inner, recursive=True)


def is_local(filesystem: Any) -> bool:
    """True if a file system is that of this machine's disks."""
    return "file" in (filesystem.protocol if isinstance(filesystem.protocol, tuple) else (filesystem.protocol,))


def write_text(path: str, text: str) -> None:
    """Writes a file atomically: it appears with all its text, or not at all.

    On a local disk it is written under another name, flushed and renamed; an object store makes a single put visible only as a whole.

    Raises:
        FileNotFoundError: the bucket does not exist. It is not made: its name may be misspelled, and a new one belongs to this login.
    """
    filesystem, inner = open_filesystem(path)
    if not is_local(filesystem):
        filesystem.pipe_file(inner, text.encode())  # keys need no folders, and to make folders could make the bucket
        return
    filesystem.makedirs(inner.rpartition("/")[0], exist_ok=True)
    hidden = f"{inner.rpartition('/')[0]}/.{uuid.uuid4().hex}.tmp"
    with open(hidden, "wb") as file:
        file.write(text.encode())
        file.flush()
        os.fsync(file.fileno())
    os.replace(hidden, inner)
