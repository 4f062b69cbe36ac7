"""A Spark Connect server as a process of its own, for tests and the demo; outside the data path. Services run `cdc-ops spark-connect`.

with ConnectServer(folder, jars=folder_of_jars) as server:
    ...  # spark: {connect: <server.url>} in a pipeline file
"""

import os
import signal
import socket
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Self

from cdc_ops.dev.processes import LOG_FILE, ServerProcess, free_port, running_pid, wait_until
from cdc_ops.errors import EnvironmentSetupError
from cdc_ops.lake.spark.server import MEMORY, server_command

_PATIENCE: Final = 120.0


class ConnectServer:
    """One server on the loopback address.

    Args:
        folder: Holds its log, pid file and scratch data; created if it is missing.
        jars: Folder of the jars (`cdc_ops.lake.spark.jars`).
        conf: Settings over those that cdc-ops needs.
        memory: Memory of its JVM.
        port: 0 = a free one.
        outlive: True if it keeps running after the process that started it; then `stop_from_pidfile` ends it.
    """

    def __init__(
        self, folder: Path, *, jars: Path, conf: Mapping[str, str] = {}, memory: str = MEMORY, port: int = 0, outlive: bool = False
    ) -> None:
        self.folder = folder.resolve()
        self.port = port
        self._jars = jars
        self._conf = dict(conf)
        self._memory = memory
        self._process = ServerProcess("Spark Connect", self.folder, stop_signal=signal.SIGTERM, outlive=outlive)

    @property
    def url(self) -> str:
        """The address for `spark.connect`."""
        return f"sc://127.0.0.1:{self.port}"

    @property
    def log(self) -> Path:
        """The server's log."""
        return self.folder / LOG_FILE

    def start(self) -> Self:
        """Starts the server and waits until it listens.

        Raises:
            EnvironmentSetupError: it does not start.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        self.port = self.port or free_port()
        self._process.start(self._command())
        if not wait_until(self._listens, _PATIENCE, hopeless=lambda: self._process.exit_code() is not None):
            reason = self._process.log_tail(15)
            self.stop()
            raise EnvironmentSetupError(
                f"The Spark Connect server did not start in {self.folder}.",
                why=reason,
                data="Nothing was read or written.",
                next=f"Read {self.log}",
            )
        return self

    def stop(self) -> None:
        """Stops the server, with all sessions."""
        self._process.stop()

    def kill(self) -> None:
        """Kills the server, as a machine does that runs out of memory."""
        if (pid := running_pid(self.folder)) is not None:
            os.kill(pid, signal.SIGKILL)
        self._process.stop()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _command(self) -> list[str]:
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # of the server's Python workers: with the packages of this process
        return server_command(self.folder, self._jars, port=self.port, memory=self._memory, conf=self._conf)

    def _listens(self) -> bool:
        with socket.socket() as probe:
            probe.settimeout(1.0)
            return probe.connect_ex(("127.0.0.1", self.port)) == 0
