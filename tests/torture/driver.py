"""The product from outside: its command line, in a process that keeps one Spark session. Nothing else of the machine knows the package.

The process may be killed and is then started again: that is what a fault is for.
"""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from threading import Timer
from typing import Any, Final, Protocol

ROOT: Final = Path(__file__).resolve().parents[2]
LIMIT: Final = 1800.0
"""Seconds after which a command counts as hanging: many times what it takes on a machine that does five other things."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a command said: its exit code, the document on standard output if it is JSON, and all text.

    `code` is None if the process was killed.
    """

    code: int | None
    document: Any
    text: str


class Commands(Protocol):
    """What runs commands of cdc-ops."""

    def call(self, arguments: tuple[str, ...], environment: dict[str, str], *, kill_after: float = 0.0) -> Answer: ...


class Driver:
    """Commands of cdc-ops, one after the other, in a worker process that starts with the first of them.

    Args:
        folder: For the worker's log.
        root: The repository whose code is run.
    """

    def __init__(self, folder: Path, root: Path = ROOT) -> None:
        self._folder, self.root = folder, root
        self._process: subprocess.Popen[str] | None = None
        self.starts = 0

    def call(self, arguments: tuple[str, ...], environment: dict[str, str], *, kill_after: float = 0.0) -> Answer:
        """Runs one command; with `kill_after` the process gets SIGKILL after so many seconds, unless it is done before."""
        process = self._started()
        assert process.stdin
        assert process.stdout
        timer = Timer(kill_after or LIMIT, lambda: process.send_signal(signal.SIGKILL))
        timer.start()
        try:
            process.stdin.write(json.dumps({"arguments": arguments, "environment": environment}) + "\n")
            process.stdin.flush()
            line = process.stdout.readline()
        except BrokenPipeError:
            line = ""
        finally:
            timer.cancel()
        if not line:
            process.wait()
            self._process = None
            return Answer(code=None, document=None, text="killed" if kill_after else f"died, or took more than {LIMIT:.0f} s")
        answer = json.loads(line)
        return Answer(code=answer["code"], document=document_of(answer["output"]), text=answer["output"] + answer["errors"])

    def warm(self) -> None:
        """Starts the process and its Spark, so that a limit of time concerns commands alone."""
        self.call(("validate",), {"CDC_OPS_PIPELINES": str(self._folder)})

    def close(self) -> None:
        """Ends the process and the JVM that belongs to it."""
        if self._process is not None:
            assert self._process.stdin
            self._process.stdin.close()
            try:
                self._process.wait(30)
            except subprocess.TimeoutExpired:
                self._process.kill()
            self._process = None

    def _started(self) -> subprocess.Popen[str]:
        if self._process is None or self._process.poll() is not None:
            self.starts += 1
            self._folder.mkdir(parents=True, exist_ok=True)
            log = (self._folder / f"worker-{os.getpid()}-{self.starts}-{time.time_ns()}.log").open("w")
            command = [sys.executable, "-m", "tests.torture.worker"]
            self._process = subprocess.Popen(command, cwd=self.root, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True)
        return self._process


def document_of(text: str) -> Any:
    """Returns the document that a command printed, None if it printed none."""
    try:
        return json.loads(text)
    except ValueError:
        return None
