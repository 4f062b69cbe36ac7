"""Binlogs as a script copies them: into the archive, by the server's own files, without a question about what is in them."""

import shutil
from pathlib import Path
from typing import Any

from tests.torture.model import Copy


class BinlogCopies:
    """The copies of one case, from the binlog on that the server began for it.

    Args:
        server: A MySQL or MariaDB that runs.
        folder: Where the copies go.
    """

    def __init__(self, server: Any, folder: Path) -> None:
        self._server, self._folder, self._over, self._early = server, folder, False, set[str]()
        folder.mkdir()
        server.execute("FLUSH BINARY LOGS")
        self._first = self._names()[-1]

    def copy(self) -> None:
        """Closes the newest and copies those that are not there; after a reset all, over those of the same names.

        Behind a file that was taken as it was another one is closed: an archive's newest file may still grow, one in the middle may not.
        """
        self._server.execute("FLUSH BINARY LOGS")
        if self._early & set(self._names()[-2:-1]):
            self._server.execute("FLUSH BINARY LOGS")
        for name in self._names()[:-1]:
            if name >= self._first and (self._over or not (self._folder / name).exists()):
                self._take(name)

    def script(self, step: Copy) -> None:
        """Does what some scripts do: it takes the newest as it is, or goes on over the old names after a reset."""
        self.copy()
        if step.early:
            self._early.add(self._names()[-1])
            self._take(self._names()[-1])
        if step.reset:
            self._server.execute("RESET MASTER" if self._server.name == "MariaDB" else "RESET BINARY LOGS AND GTIDS")
            self._over, self._first = True, self._names()[0]

    def _take(self, name: str) -> None:
        shutil.copyfile(self._server.data / name, self._folder / name)

    def _names(self) -> list[str]:
        return [str(row[0]) for row in self._server.execute("SHOW BINARY LOGS")]
