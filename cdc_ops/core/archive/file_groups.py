"""Files that several operations of one job read, grouped by their readers. Pure.

Tables of one folder stand at different places of it, so that their frozen lists differ: one is behind, another was added yesterday. A file
is read once for all that want it, and what is in it goes to these and to no others.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class FileGroup:
    """Files that the same operations read.

    Args:
        files: Their paths, ascending.
        takers: Numbers of the operations, ascending.
    """

    files: tuple[str, ...]
    takers: tuple[int, ...]


def group_by_readers(wanted: Sequence[Collection[str]]) -> tuple[FileGroup, ...]:
    """Returns the files of several lists, each once, grouped by the operations that read them.

    Args:
        wanted: The paths that each operation wants; an operation's number is its place here.
    """
    takers: dict[str, list[int]] = {}
    for number, paths in enumerate(wanted):
        for path in paths:
            takers.setdefault(path, []).append(number)
    together: dict[tuple[int, ...], list[str]] = {}
    for path in sorted(takers):
        together.setdefault(tuple(takers[path]), []).append(path)
    return tuple(FileGroup(files=tuple(files), takers=numbers) for numbers, files in together.items())
