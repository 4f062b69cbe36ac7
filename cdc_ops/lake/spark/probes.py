"""Checks without Spark: writable folders, the Java version, complete jars, a server that listens. For `cdc-ops check`."""

import re
import socket
import subprocess
import uuid
import zipfile
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import Any

from cdc_ops.core.pipeline.connect_address import ConnectAddress
from cdc_ops.errors import EnvironmentSetupError, LakeError, SparkServerLostError
from cdc_ops.lake.file_io import is_local, open_filesystem, write_text
from cdc_ops.lake.spark.jars import Coordinate, java

SUPPORTED_JAVA = (17, 21)
_ANSWER_TIME = 5.0


def probe_folder(path: str, options: Mapping[str, Any] | None = None) -> None:
    """Writes a small file into a folder, reads it and removes it again, with the folders that it had to make.

    Args:
        path: The folder.
        options: For fsspec's file system.

    Raises:
        LakeError: the folder cannot be written, read or cleared.
        EnvironmentSetupError: there is no package for this kind of store.
    """
    name, text = f".cdc-ops-check-{uuid.uuid4().hex}", uuid.uuid4().hex
    probe = f"{path.rstrip('/')}/{name}"
    try:
        filesystem, inner = open_filesystem(probe, options)
        made = _missing_parents(filesystem, inner)
        try:
            if is_local(filesystem):
                write_text(probe, text)
            else:
                filesystem.pipe_file(inner, text.encode())  # making folders first could make a bucket that was only misspelled
            if filesystem.cat_file(inner).decode() != text:
                raise OSError("the text read differs from the text written")
            filesystem.rm_file(inner)
        finally:
            for folder in made:
                with suppress(Exception):  # an object store has no folders; one that is not empty stays
                    filesystem.rmdir(folder)
    except EnvironmentSetupError:
        raise
    except Exception as error:  # each kind of store has errors of its own
        raise LakeError(
            f"cdc-ops cannot write to {path}.",
            why=f"{type(error).__name__}: {error}",
            data="Nothing was written.",
            next="Check the path, the permissions of this process, and for an object store its endpoint and login.",
        ) from None


def probe_server(connect: str) -> None:
    """Opens a connection to a Spark Connect server and closes it.

    Raises:
        SparkServerLostError: it does not listen.
    """
    address = ConnectAddress.parse(connect)
    try:
        socket.create_connection((address.host, address.port), timeout=_ANSWER_TIME).close()
    except OSError as error:
        raise SparkServerLostError(
            f"The Spark server at {connect} does not answer.",
            why=str(error),
            data="Nothing was read or written.",
            next="Start the server, or correct 'spark.connect' in the pipeline file.",
        ) from None


def _missing_parents(filesystem: Any, inner: str) -> list[str]:
    """Returns the folders above a local file that are not there, the deepest first; an object store has none."""
    if not is_local(filesystem):
        return []
    return [str(parent) for parent in PurePosixPath(inner).parents if not Path(parent).exists()]


def java_version() -> tuple[str, int]:
    """Returns the version of the Java that Spark would use: its text, and its first number.

    Raises:
        EnvironmentSetupError: there is no Java, or it does not start.
    """
    command = java()
    try:
        done = subprocess.run([command, "-version"], capture_output=True, text=True, check=False, timeout=60)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise _broken_java(command, str(error)) from None
    found = re.search(r'version "((\d+)[^"]*)"', done.stderr)
    if done.returncode or not found:
        raise _broken_java(command, (done.stderr or done.stdout).strip()[:200])
    return found[1], int(found[2]) if found[2] != "1" else 8


def _broken_java(command: str, why: str) -> EnvironmentSetupError:
    return EnvironmentSetupError(
        f"{command} does not print its version.",
        why=why,
        data="Nothing was read or written.",
        next="Install Java 17 or 21, or set JAVA_HOME to one.",
    )


def broken_jars(folder: Path, wanted: Iterable[Coordinate]) -> tuple[str, ...]:
    """Returns the file names of jars that are not in a folder, or are no whole archives there."""
    files = (folder / one.file_name for one in wanted)
    return tuple(file.name for file in files if not file.is_file() or not zipfile.is_zipfile(file))
