"""The process that holds a lease: enough to find out on its machine that it ended. Pure; `cdc_ops.state.processes` asks the system."""

import re
from dataclasses import dataclass
from typing import Final

LOCAL: Final = "cli:"
"""How the holder of a lease begins that lives and dies with one process; a run of Airflow is many processes, and is never judged by one."""

_SIGNED: Final = re.compile(rf"({LOCAL}.*)@([0-9a-f]{{16}})\.(\d{{1,10}})\.(\d{{1,20}})", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessIdentity:
    """A process on a machine.

    Args:
        place: Names the machine, its boot and what of it can be seen: processes with the same place see each other under their pids.
        pid: Its number there.
        started: When it started, in clock ticks since the boot: a number that was given to another process since is not taken for it.
    """

    place: str
    pid: int
    started: int

    def sign(self, name: str) -> str:
        """Returns the text that identifies this process as the holder of a lease.

        >>> ProcessIdentity(place="0123456789abcdef", pid=42, started=7).sign("cli:host:42:1a2b")
        'cli:host:42:1a2b@0123456789abcdef.42.7'
        """
        return f"{name}@{self.place}.{self.pid}.{self.started}"


def process_of(holder: str) -> ProcessIdentity | None:
    """Returns the process of a lease holder, None if the holder is not tied to one process."""
    found = _SIGNED.fullmatch(holder)
    return ProcessIdentity(place=found[2], pid=int(found[3]), started=int(found[4])) if found else None


def holder_name(holder: str) -> str:
    """Returns the name of a holder for messages.

    >>> holder_name("cli:host:42:1a2b@0123456789abcdef.42.7")
    'cli:host:42:1a2b'
    """
    found = _SIGNED.fullmatch(holder)
    return found[1] if found else holder
