"""Whether a process of this machine is gone, asked of the system. In doubt it is not: then its lease ends by the clock.

Two containers may have one host name and one kernel, so the place of a process is named by its namespaces too: who sees other pids is in
another place. Only Linux says all of this; elsewhere no process is ever taken for gone.
"""

import hashlib
import os
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cdc_ops.core.processes import ProcessIdentity, process_of

_NAMESPACES: Final = ("pid", "time")
"""What has to be the same for a pid, and for a start time, to mean the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seen:
    """What the system says of a process: when it started (clock ticks since boot); whether it has ended and waits for its parent."""

    started: int
    ended: bool


def this_process() -> ProcessIdentity | None:
    """Returns the identity of this process, None where the system does not tell it."""
    place, seen = _place(), _look(os.getpid())
    return ProcessIdentity(place=place, pid=os.getpid(), started=seen.started) if place and seen else None


def is_gone(process: ProcessIdentity) -> bool:
    """True only if it is certain that the process has ended: it was one of this place, and its pid is free or another's."""
    if not process.pid or process.place != _place():
        return False
    try:
        os.kill(process.pid, 0)
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):
        pass  # it is there, and another user's
    seen = _look(process.pid)
    return seen is not None and (seen.started != process.started or seen.ended)


def holder_is_gone(holder: str) -> bool:
    """True only if it is certain that the holder of a lease has ended."""
    process = process_of(holder)
    return process is not None and is_gone(process)


def _place() -> str:
    """Returns what names the place of this process, "" if it cannot be told from others."""
    try:
        if os.readlink("/proc/self") != str(os.getpid()):
            return ""  # these are the pids of another namespace
        boot = Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
        spaces = [os.readlink(f"/proc/self/ns/{kind}") for kind in _NAMESPACES if kind == "pid" or Path(f"/proc/self/ns/{kind}").exists()]
    except OSError:
        return ""
    return hashlib.sha256("\0".join((socket.gethostname(), boot, *spaces)).encode()).hexdigest()[:16] if boot else ""


def _look(pid: int) -> _Seen | None:
    """Returns what the system says of a process, None if it does not."""
    try:
        rest = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()
        state, threads, started = rest[0], int(rest[17]), int(rest[19])  # fields 3, 20 and 22 of proc_pid_stat(5)
    except (OSError, ValueError, IndexError):
        return None
    return _Seen(started=started, ended=state in "ZX" and threads <= 1)
