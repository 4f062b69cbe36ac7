"""A Spark Connect server as a process of its own, for tests, the demo and small installations; outside the data path.

    with ConnectServer(folder, jars=folder_of_jars) as server:
        ...  # spark: {connect: <server.url>} in a pipeline file

`python -m cdc_ops.dev.connect_server start FOLDER JARS` starts one that lives on, `run FOLDER JARS` becomes one, `stop FOLDER` stops one.
"""

import argparse
import os
import signal
import socket
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NoReturn, Self

from cdc_ops.core.pipeline.connect_address import PORT
from cdc_ops.dev.processes import LOG_FILE, ServerProcess, free_port, running_pid, stop_from_pidfile, wait_until
from cdc_ops.dev.spark_cluster import spark_home
from cdc_ops.errors import EnvironmentSetupError
from cdc_ops.lake.spark.conf import server_conf, store_conf
from cdc_ops.lake.spark.jars import jar_list

_APPLICATION: Final = Path(__file__).with_name("connect_application.py")
_PATIENCE: Final = 120.0
_MEMORY: Final = "2g"


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
        self, folder: Path, *, jars: Path, conf: Mapping[str, str] = {}, memory: str = _MEMORY, port: int = 0, outlive: bool = False
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

    def become(self) -> NoReturn:
        """Replaces this process by the server."""
        self.folder.mkdir(parents=True, exist_ok=True)
        command = self._command()
        os.execv(command[0], command)

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
        conf = {
            **server_conf(self._conf),
            **store_conf(os.environ),
            "spark.master": "local[*]",
            "spark.driver.defaultJavaOptions": "-XX:+UseParallelGC",
            "spark.connect.grpc.binding.address": "127.0.0.1",
            "spark.connect.grpc.binding.port": str(self.port),
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.host": "127.0.0.1",
            "spark.sql.warehouse.dir": str(self.folder / "warehouse"),
            **self._conf,
        }
        settings = [part for name, value in conf.items() for part in ("--conf", f"{name}={value}")]
        memory = ("--driver-memory", self._memory, "--jars", jar_list(self._jars))
        return [str(spark_home() / "bin" / "spark-submit"), "--name", "cdc-ops server", *memory, *settings, str(_APPLICATION)]

    def _listens(self) -> bool:
        with socket.socket() as probe:
            probe.settimeout(1.0)
            return probe.connect_ex(("127.0.0.1", self.port)) == 0


def main(arguments: list[str]) -> int:
    """Starts a server that lives on, becomes one, or stops one."""
    parser = argparse.ArgumentParser(prog="python -m cdc_ops.dev.connect_server", description="A Spark Connect server for cdc-ops.")
    parser.add_argument("command", choices=("start", "run", "stop"), help="run: stay in the foreground, as containers want it")
    parser.add_argument("folder", type=Path, help="its log, pid file and scratch data")
    parser.add_argument("jars", type=Path, nargs="?", help="the jars (python -m cdc_ops.lake.spark.jars); not for stop")
    parser.add_argument("--port", type=int, default=PORT)
    parser.add_argument("--memory", default=_MEMORY)
    parser.add_argument("--conf", action="append", default=[], metavar="NAME=VALUE", help="a setting of Spark")
    chosen = parser.parse_args(arguments)
    if chosen.command == "stop":
        return 0 if stop_from_pidfile(chosen.folder) else 1
    if chosen.jars is None:
        parser.error("the folder of the jars is missing")
    conf = dict(setting.split("=", 1) for setting in chosen.conf)
    server = ConnectServer(chosen.folder, jars=chosen.jars, conf=conf, memory=chosen.memory, port=chosen.port, outlive=True)
    if chosen.command == "run":
        server.become()
    print(server.start().url)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
