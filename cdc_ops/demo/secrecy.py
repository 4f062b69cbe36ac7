"""Is the source's password anywhere it should not be? Looks at command lines while the demo runs, and into what it has written."""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from cdc_ops.demo.layout import Layout
from cdc_ops.demo.services import command_lines

_PART: Final = re.compile(r"[A-Za-z0-9_-]{8,}")
_CHUNK: Final = 1 << 20


def telling_parts(password: str) -> tuple[bytes, ...]:
    """Returns the parts of a password that no encoding changes, percent-encoding and JSON included; finding one is finding the password."""
    return tuple(part.encode() for part in _PART.findall(password)) or (password.encode(),)


class PasswordWatch:
    """Looks for a password, and remembers where it was seen.

    Args:
        password: What must not be seen.
    """

    def __init__(self, password: str) -> None:
        self._parts = telling_parts(password)
        self.looks = 0
        self.seen: set[str] = set()

    def look_at_processes(self) -> None:
        """Looks at the command lines of all processes as they are now."""
        self.looks += 1
        for pid, line in command_lines():
            if any(part in line for part in self._parts):
                self.seen.add(f"command line of process {pid}")

    def look_at_files(self, files: Iterable[Path]) -> int:
        """Looks into files and returns how many there were."""
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
    """Returns everything that the runs have written: logs, Airflow's database (rendered fields, XCom), staging, Delta logs, the ledger."""
    folders = (layout.logs, layout.airflow, layout.staging, layout.lake, layout.ledger.parent)
    return (path for folder in folders if folder.exists() for path in sorted(folder.rglob("*")) if path.is_file())
