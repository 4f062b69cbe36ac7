"""A job as a process of its own beside the task, when Spark is a server: no spark-submit, no JVM. Its result is a file, as ever."""

import subprocess
from collections import deque
from collections.abc import Callable, Mapping, Sequence

from airflow.sdk.exceptions import AirflowException

_LAST_LINES = 40
_PATIENCE = 20.0
"""Seconds for a process that is told to end to make the server give up its statements."""


class ClientProcess:
    """One process of a job.

    Args:
        log: Receives each line of its output.
    """

    def __init__(self, log: Callable[[str], None]) -> None:
        self._log = log
        self._process: subprocess.Popen[str] | None = None

    def run(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        """Runs the job and waits for its end.

        Raises:
            AirflowException: it ended with another exit code than 0; the text has the end of its output.
        """
        last: deque[str] = deque(maxlen=_LAST_LINES)
        with subprocess.Popen(
            list(command),
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        ) as process:
            self._process = process
            for line in process.stdout or ():
                last.append(line.rstrip("\n"))
                self._log(last[-1])
        if process.returncode:
            raise AirflowException("\n".join((f"The job ended with exit code {process.returncode}.", *last)))

    def stop(self) -> None:
        """Ends the process: at once if it does not end by itself soon."""
        process = self._process
        if process is None or process.poll() is not None:
            return
        process.terminate()
        try:
            process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
