"""Folders that nobody else can put anything into: what is executed from them is what this user wrote there.

A name that others can foresee, below a folder that all can write (`/tmp`), may be taken: by a folder of somebody else, or by a link to one
of this user's own, in which old files would then be removed. So each folder on the way is looked at, and not only the last one.
"""

import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import Final

_OTHERS: Final = stat.S_IWGRP | stat.S_IWOTH


def private_folder(folder: Path, *, make: bool, named: bool = True) -> Path | None:
    """Returns a folder by its true name, without links; None if it is not there, or others could have made it or can write it.

    Below a folder that all can write, each folder has to be this user's or root's, and none may be a link, or let others put something in
    the place of what it has. Elsewhere a link has to be this user's or root's; the owner of a folder above decides about it, as always.

    Args:
        folder: An absolute path.
        make: Whether folders that are not there are made, for this user alone.
        named: Whether somebody chose it, who answers for what is above it: a volume of a container may let all its users write, and move
            what is there. Of a name that nobody chose, the folders above must not.
    """
    walked, shared, mine = Path(folder.anchor), False, {0, os.getuid()}
    found = walked.lstat()
    for place, name in enumerate(folder.parts[1:], 2):
        walked /= name
        try:
            found = _made(walked) if make else walked.lstat()
        except OSError:
            return None
        is_link, foreign = stat.S_ISLNK(found.st_mode), found.st_uid not in mine
        if is_link and not shared and not foreign:
            return private_folder(Path(os.path.realpath(walked), *folder.parts[place:]), make=make, named=named)
        if not stat.S_ISDIR(found.st_mode) or (shared and foreign):
            return None
        if found.st_mode & (_OTHERS if shared else stat.S_IWOTH):
            if not found.st_mode & stat.S_ISVTX and (shared or not named):  # others can put their own in the place of what is there
                return None
            shared = True
    return walked if found.st_uid in mine and not found.st_mode & _OTHERS else None


def _made(folder: Path) -> os.stat_result:
    """Returns what is there now; made if nothing was."""
    try:
        return folder.lstat()
    except FileNotFoundError:
        with suppress(FileExistsError):  # by another process meanwhile, whoever's
            folder.mkdir(mode=0o700)
        return folder.lstat()
