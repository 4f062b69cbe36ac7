"""Starts a server process and stops it reliably; outside the data path, for tests and the demo.

A pid file next to the data lets a later process stop the server. Pids are reused, so a process only counts as the server if its command
line has the server's folder.
"""

import ctypes
import os
import pwd
import signal
import socket
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import tenacity

from cdc_ops.errors import EnvironmentSetupError

T = TypeVar("T")

PID_FILE = "server.pid"
LOG_FILE = "server.log"
_SET_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG of linux/prctl.h
_libc = ctypes.CDLL(None)


class ServerProcess:
    """One started server, with its pid file, its log and its stop signal.

    Args:
        name: The server's name in messages.
        folder: Holds pid file and log; the server's command line must have it.
        stop_signal: The signal for a clean stop that does not wait for clients.
        outlive: True if the server keeps running after the process that started it.
    """

    def __init__(self, name: str, folder: Path, *, stop_signal: signal.Signals = signal.SIGTERM, outlive: bool = False) -> None:
        self.name = name
        self.folder = folder
        self._stop_signal = stop_signal
        self._outlive = outlive
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, command: Sequence[str], *, user: str | None = None) -> None:
        """Starts the command with its output in the log, as another user if `user` is given."""
        death_signal = int(self._stop_signal)

        def before_exec() -> None:
            # Must run after the change of user: the kernel drops this request when credentials change.
            _libc.prctl(_SET_DEATH_SIGNAL, death_signal, 0, 0, 0)

        with (self.folder / LOG_FILE).open("ab") as log:
            self._process = subprocess.Popen(
                list(command),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self.folder,
                user=user,
                group=_main_group(user) if user else None,
                extra_groups=[] if user else None,
                start_new_session=True,  # Ctrl-C in the terminal is handled by this process
                preexec_fn=None if self._outlive else before_exec,  # noqa: PLW1509 - one system call, safe beside threads
            )
        (self.folder / PID_FILE).write_text(f"{self._process.pid}\n", encoding="ascii")

    def exit_code(self) -> int | None:
        """Returns the exit code if the process has ended, else None."""
        return self._process.poll() if self._process else None

    def stop(self, timeout: float = 30.0) -> bool:
        """Stops the process, and kills it after `timeout` seconds. Returns True if it was running."""
        if self._process is None:
            return stop_from_pidfile(self.folder, stop_signal=self._stop_signal, timeout=timeout)
        running = self._process.poll() is None
        if running:
            self._process.send_signal(self._stop_signal)
            try:
                self._process.wait(timeout)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._process = None
        (self.folder / PID_FILE).unlink(missing_ok=True)
        return running

    def log_tail(self, lines: int = 40) -> str:
        """Returns the last lines of the log."""
        path = self.folder / LOG_FILE
        return "\n".join(path.read_text(errors="replace").splitlines()[-lines:]) if path.exists() else ""


def running_pid(folder: Path) -> int | None:
    """Returns the pid in the folder's pid file if that process runs and its command line has the folder."""
    try:
        pid = int((folder / PID_FILE).read_text(encoding="ascii"))
        command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except (FileNotFoundError, ProcessLookupError, ValueError):
        return None
    return pid if str(folder.resolve()) in command else None  # a zombie has an empty command line


def stop_from_pidfile(folder: Path, *, stop_signal: signal.Signals | None = None, timeout: float = 30.0) -> bool:
    """Stops a server that any process started in this folder; returns True if one was running.

    Args:
        folder: The server's folder.
        stop_signal: The stop signal; by default the one of the program.
        timeout: Seconds until the server is killed.
    """
    pid = running_pid(folder)
    if pid is not None:
        _signal(pid, stop_signal or _usual_signal(pid))
        if not wait_until(lambda: running_pid(folder) != pid, timeout):
            _signal(pid, signal.SIGKILL)
    (folder / PID_FILE).unlink(missing_ok=True)
    return pid is not None


def free_port() -> int:
    """Returns a free TCP port on the loopback address."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def run_tool(command: Sequence[str], *, what: str, user: str | None = None) -> None:
    """Runs a set-up command and waits for its end.

    Raises:
        EnvironmentSetupError: the command failed; the error has the end of its output.
    """
    group = _main_group(user) if user else None
    done = subprocess.run(
        list(command),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        user=user,
        group=group,
        extra_groups=[] if user else None,
        cwd="/",
        check=False,
        text=True,
    )
    if done.returncode:
        raise EnvironmentSetupError(
            f"{what} failed",
            why="\n".join(done.stdout.splitlines()[-15:]) or f"exit code {done.returncode}",
            data="no server was started",
            next="run the command manually: " + " ".join(command),
        )


def _usual_signal(pid: int) -> signal.Signals:
    """Returns SIGINT for Postgres, its fast shutdown, else SIGTERM: Postgres waits for all clients after SIGTERM."""
    program = Path(Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0].decode()).name
    return signal.SIGINT if program == "postgres" else signal.SIGTERM


def _signal(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return  # it ended meanwhile, as wanted


def _main_group(user: str) -> int:
    return pwd.getpwnam(user).pw_gid


def wait_until(look: Callable[[], T], timeout: float, *, every: float = 0.05, hopeless: Callable[[], bool] = lambda: False) -> T:
    """Calls `look` until its result is true, or `timeout` is over; returns the last result.

    Args:
        look: Returns the awaited value, or a false value. An error ends the wait.
        timeout: Seconds until the wait ends.
        every: Seconds between two calls.
        hopeless: Called after each false result; True ends the wait.
    """
    late = tenacity.stop_after_delay(timeout)
    retrying = tenacity.Retrying(
        retry=tenacity.retry_if_result(lambda result: not result),
        stop=lambda state: late(state) or hopeless(),
        wait=tenacity.wait_fixed(every),
        retry_error_callback=lambda state: state.outcome.result() if state.outcome else None,
    )
    return retrying(look)
