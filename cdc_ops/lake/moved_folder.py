"""Folders with Delta tables that get another place below the same root: renamed on a disk, copied on an object store. Spark-free.

Delta's log names files relative to the table, so a table may be moved as a whole while nobody writes it.
"""

import errno
import os
from typing import Any

from cdc_ops.errors import TargetNotDeltaError
from cdc_ops.lake.file_io import is_local, open_filesystem, write_text

_MARK = "_cdc_moving"
"""File in a new folder while it is being filled: what is there is the move's own."""
_LOG = "/_delta_log/"


def move_folder(old: str, new: str) -> bool:
    """Moves a folder to a place where nothing is; repeating a move that was broken off completes it.

    On an object store files are copied, those of Delta's logs last, and the old ones are removed when all are there.

    Args:
        old, new: The folders, as paths or URIs of one store.

    Returns:
        False if there is nothing to move.

    Raises:
        TargetNotDeltaError: the new place has other files.
    """
    filesystem, source = open_filesystem(old)
    target = open_filesystem(new)[1]
    files = _files(filesystem, source)
    moving = filesystem.exists(f"{target}/{_MARK}")
    if not files and not moving:
        return False
    if not moving and _files(filesystem, target):
        raise _taken(old, new)
    if is_local(filesystem) and not moving and _rename(source, target):
        return True
    write_text(f"{new}/{_MARK}", old)
    _copy(filesystem, files, source, target)
    if files:
        filesystem.rm(source, recursive=True)
    filesystem.rm_file(f"{target}/{_MARK}")
    return True


def _files(filesystem: Any, folder: str) -> dict[str, int]:
    """Returns the sizes of the files below a folder, by their path in it."""
    found = filesystem.find(folder, detail=True) if filesystem.exists(folder) else {}
    return {str(name)[len(folder) + 1 :]: int(entry["size"] or 0) for name, entry in found.items()}


def _rename(source: str, target: str) -> bool:
    """Renames a folder of a disk; returns False if its new place is on another one."""
    os.makedirs(os.path.dirname(target), exist_ok=True)
    if os.path.isdir(target):
        os.rmdir(target)  # empty, as nothing was found in it
    try:
        os.rename(source, target)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        return False
    return True


def _copy(filesystem: Any, files: dict[str, int], source: str, target: str) -> None:
    done = _files(filesystem, target)
    for name in sorted(files, key=lambda one: (_LOG in f"/{one}", one)):
        if done.get(name) != files[name]:
            if is_local(filesystem):
                os.makedirs(os.path.dirname(f"{target}/{name}"), exist_ok=True)
            filesystem.cp_file(f"{source}/{name}", f"{target}/{name}")


def _taken(old: str, new: str) -> TargetNotDeltaError:
    return TargetNotDeltaError(
        f"{old} cannot be moved to {new}.",
        why="Files are there already, perhaps of an earlier pipeline of this name.",
        data="Nothing was moved; both folders are unchanged.",
        next=f"Move {new} away if it is needed, or remove it, and repeat the command.",
    )
