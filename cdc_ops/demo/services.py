"""Background processes with pid files; each can be stopped reliably with all processes that it started; outside the data path.

Airflow's processes rename themselves, so their command lines do not identify them. A pid file therefore also holds the start time, which a
later process with the same pid does not share. Each process leads a session; stopping it stops the whole session, also tasks and Spark
applications that have lost their parent.
"""

import ctypes
import os
import select
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cdc_ops.dev.processes import wait_until

_SET_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG of linux/prctl.h
_libc = ctypes.CDLL(None)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessInfo:
    """The kernel's facts about a process.

    Args:
        pid: The process id.
        session: The id of its session.
        started: The time of its start, in clock ticks since boot.
        alive: False for a zombie.
    """

    pid: int
    session: int
    started: int
    alive: bool

    @classmethod
    def parse(cls, text: str) -> "ProcessInfo":
        """Returns the values of a line of /proc/PID/stat, whose second field may hold any character (proc(5))."""
        before, after = text.split("(", 1)[0], text.rsplit(")", 1)[1].split()
        return cls(pid=int(before), session=int(after[3]), started=int(after[19]), alive=after[0] not in {"Z", "X"})


class Service:
    """One background process with its log and pid file.

    Args:
        name: The name in messages, and of the log and the pid file.
        pids: Folder of pid files.
        logs: Folder of logs.
        outlive: True if the process keeps running after the one that started it.
    """

    def __init__(self, name: str, pids: Path, logs: Path, *, outlive: bool = False) -> None:
        self.name = name
        self.log = logs / f"{name}.log"
        self._pid_file = pids / f"{name}.pid"
        self._outlive = outlive
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, command: Sequence[str], environment: Mapping[str, str], folder: Path, *, piped: bool = False) -> None:
        """Starts the command in a folder, with exactly the given environment.

        Args:
            command: Program and arguments.
            environment: All of its environment variables.
            folder: Its working folder.
            piped: True if standard input and output are pipes for `ask`; then the log has only standard error.
        """

        def before_exec() -> None:
            _libc.prctl(_SET_DEATH_SIGNAL, int(signal.SIGTERM), 0, 0, 0)

        for path in (self.log.parent, self._pid_file.parent):
            path.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                list(command),
                stdin=subprocess.PIPE if piped else subprocess.DEVNULL,
                stdout=subprocess.PIPE if piped else log,
                stderr=log,
                env=dict(environment),
                cwd=folder,
                start_new_session=True,
                preexec_fn=None if self._outlive else before_exec,  # noqa: PLW1509 - one system call, safe beside threads
            )
        info = _info(self._process.pid)
        if info is not None:
            self._pid_file.write_text(f"{info.pid} {info.started}\n", "ascii")

    def exit_code(self) -> int | None:
        """Returns the exit code if this object's process has ended, else None."""
        return self._process.poll() if self._process else None

    def ask(self, line: str, timeout: float) -> str:
        """Sends a line to a piped process and returns its answer, "" if the process has ended or does not answer in time."""
        if self._process is None or self._process.stdin is None or self._process.stdout is None:
            return ""
        try:
            self._process.stdin.write(f"{line}\n".encode())
            self._process.stdin.flush()
        except BrokenPipeError:
            return ""
        ready, _, _ = select.select([self._process.stdout], [], [], timeout)
        return self._process.stdout.readline().decode().strip() if ready else ""

    def finish(self, timeout: float) -> bool:
        """Closes the input of a piped process, which ends it; returns True if it ended in time with exit code 0."""
        if self._process is None or self._process.stdin is None:
            return False
        try:
            self._process.stdin.close()
            return self._process.wait(timeout) == 0
        except (BrokenPipeError, subprocess.TimeoutExpired):
            return False

    def log_tail(self, lines: int = 20) -> str:
        """Returns the last lines of the log."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:]) if self.log.exists() else ""


def is_running(pid_file: Path) -> bool:
    """True if the process in the pid file is running."""
    return _remembered(pid_file) is not None


def stop_all(pids: Path, timeout: float = 5.0) -> tuple[str, ...]:
    """Stops every process that has a pid file in the folder, and all processes of its session.

    Args:
        pids: Folder of pid files; they are removed.
        timeout: Seconds until processes that are still running are killed.

    Returns:
        The names of the processes that were running.
    """
    files = sorted(pids.glob("*.pid"))
    running = {path.stem: info for path in files if (info := _remembered(path))}
    sessions = {_recorded(path)[0] for path in files}
    for wait in (2.0, timeout):  # Airflow's scheduler waits for running tasks, unless it gets a second signal
        for path in files:
            if info := _remembered(path):
                _signal(info.pid, signal.SIGTERM)
        wait_until(lambda: not any(_remembered(path) for path in files), wait, every=0.1)
    for member in _members(sessions, {path: _recorded(path) for path in files}):
        _signal(member.pid, signal.SIGKILL)
    for path in files:
        path.unlink(missing_ok=True)
    return tuple(running)


def command_lines() -> list[tuple[int, bytes]]:
    """Yields pid and command line of every process that this user may read; zero bytes separate the arguments."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            found.append((int(folder.name), (folder / "cmdline").read_bytes()))
        except OSError:
            continue  # the process has ended meanwhile, or belongs to another user
    return found


def _members(sessions: set[int], recorded: Mapping[Path, tuple[int, int]]) -> list[ProcessInfo]:
    """Returns the running processes of the sessions, except sessions whose number a later process reuses."""
    leaders = dict(recorded.values())
    members = []
    for folder in Path("/proc").glob("[0-9]*"):
        info = _info(int(folder.name))
        if info is None or not info.alive or info.session not in sessions:
            continue
        leader = _info(info.session)
        if leader is None or leader.started == leaders[info.session]:
            members.append(info)
    return members


def _recorded(pid_file: Path) -> tuple[int, int]:
    try:
        pid, started = pid_file.read_text("ascii").split()
        return int(pid), int(started)
    except (OSError, ValueError):
        return -1, -1


def _remembered(pid_file: Path) -> ProcessInfo | None:
    pid, started = _recorded(pid_file)
    info = _info(pid)
    return info if info is not None and info.alive and info.started == started else None


def _info(pid: int) -> ProcessInfo | None:
    try:
        return ProcessInfo.parse(Path(f"/proc/{pid}/stat").read_text(errors="replace"))
    except (OSError, ValueError, IndexError):
        return None


def _signal(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return  # it ended meanwhile, as wanted
