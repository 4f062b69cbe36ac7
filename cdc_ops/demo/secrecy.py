"""Searches for the source's password: in command lines while the demo runs, and in all files that the demo wrote."""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from cdc_ops.demo.layout import Layout
from cdc_ops.demo.services import command_lines

_PART: Final = re.compile(r"[A-Za-z0-9_-]{8,}")
_CHUNK: Final = 1 << 20


def telling_parts(password: str) -> tuple[bytes, ...]:
    """Returns the parts of a password that percent-encoding and JSON do not change: the password is found if one of them is."""
    return tuple(part.encode() for part in _PART.findall(password)) or (password.encode(),)


class PasswordWatch:
    """Searches for a password, and records where it was found.

    Args:
        password: The password.
    """

    def __init__(self, password: str) -> None:
        self._parts = telling_parts(password)
        self.looks = 0
        self.seen: set[str] = set()

    def look_at_processes(self) -> None:
        """Searches the command lines of all running processes."""
        self.looks += 1
        for pid, line in command_lines():
            if any(part in line for part in self._parts):
                self.seen.add(f"command line of process {pid}")

    def look_at_files(self, files: Iterable[Path]) -> int:
        """Searches files, and returns their number."""
        count = 0
        for path in files:
            count += 1
            if self._holds(path):
                self.seen.add(str(path))
        return count

    def _holds(self, path: Path) -> bool:
        longest = max(len(part) for part in self._parts)
        tail = b""
        with path.open("rb") as file:
            while block := file.read(_CHUNK):
                if any(part in tail + block for part in self._parts):
                    return True
                tail = block[-longest:]
        return False


def written_files(layout: Layout) -> Iterable[Path]:
    """Returns all files that the runs wrote: logs, Airflow's database (rendered fields, XCom), staging, Delta logs, the ledger."""
    folders = (layout.logs, layout.airflow, layout.staging, layout.lake, layout.ledger.parent)
    return (path for folder in folders if folder.exists() for path in sorted(folder.rglob("*")) if path.is_file())
