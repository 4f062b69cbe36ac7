"""Processes: the one that holds a lease, and how one of Spark has ended, in words. Pure; `cdc_ops.state.processes` asks the system."""

import re
from dataclasses import dataclass
from typing import Final

LOCAL: Final = "cli:"
"""How the holder of a lease begins that lives and dies with one process; a run of Airflow is many processes, and is never judged by one."""

_SIGNED: Final = re.compile(rf"({LOCAL}.*)@([0-9a-f]{{16}})\.(\d{{1,10}})\.(\d{{1,20}})", re.DOTALL)


_SIGNALS: Final = {
    1: ("SIGHUP", "as its terminal or session ended"),
    2: ("SIGINT", "by Ctrl-C"),
    6: ("SIGABRT", "as the JVM gave up: hs_err_pid*.log in its folder says why"),
    7: ("SIGBUS", "mostly by a full disk below a file in memory"),
    9: ("SIGKILL", "mostly by the memory killer of the system or the container"),
    11: ("SIGSEGV", "by a crash in native code: hs_err_pid*.log in its folder says where"),
    15: ("SIGTERM", "by a person, a time limit, or a machine or container that was shut down"),
}
_CODES: Final = {
    3: "which a JVM takes for OutOfMemoryError where it is told to",
    50: "Spark's code for an exception that nothing caught",
    51: "Spark's code for an exception that nothing caught",
    52: "Spark's code for OutOfMemoryError: its heap was too small",
    53: "Spark's code for temporary folders that it cannot make",
    126: "the program cannot be executed",
    127: "the program was not found",
}
_BY_SIGNAL: Final = 128
"""What shells, Java and containers add to the number of a signal."""

_EXECUTOR_END: Final = re.compile(r"(?:[Cc]ommand exited with code|[Ee]xit (?:code|status)(?: is)?:?) (\d+)")


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


def end_words(code: int, memory: str = "") -> str:
    """Returns how a process of Spark has ended.

    Args:
        code: Its exit code; of a signal -9 or 137, as who tells it has it.
        memory: Heap of the process, e.g. `2g`, if it is a driver and that is known.

    >>> end_words(137)
    'was killed by signal 9 (SIGKILL), mostly by the memory killer of the system or the container'
    >>> end_words(52)
    "ended with exit code 52 (Spark's code for OutOfMemoryError: its heap was too small)"
    """
    number = -code if code < 0 else code - _BY_SIGNAL if _BY_SIGNAL < code <= _BY_SIGNAL + 64 else 0
    heap = f". The driver had {memory} of heap ('driver_memory'), and a JVM needs more than its heap" if memory else ""
    if number in _SIGNALS:
        name, why = _SIGNALS[number]
        return f"was killed by signal {number} ({name}), {why}{heap if name == 'SIGKILL' else ''}"
    if number:
        return f"was killed by signal {number}"
    meaning = f" ({_CODES[code]})" if code in _CODES else ""
    return f"ended with exit code {code}{meaning}{heap if code in (3, 52) else ''}"


def executor_words(text: str) -> str:
    """Returns how the executor ended that Spark's text says it has lost, "" if it speaks of none.

    >>> executor_words("ExecutorLostFailure (executor 1 exited caused by one of the running tasks) Reason: Command exited with code 52")
    "An executor ended with exit code 52 (Spark's code for OutOfMemoryError: its heap was too small)."
    """
    found = _EXECUTOR_END.search(text) if "ExecutorLostFailure" in text else None
    return f"An executor {end_words(int(found[1]))}." if found else ""
