"""A Spark standalone cluster on loopback, a master and workers as processes of their own; outside the data path, for tests and benchmarks.

    with SparkCluster(folder) as cluster:
        ...  # spark-submit --master <cluster.url>

A worker starts its executors as processes of its own. An executor or a worker can be killed; a worker can be started again.
"""

import os
import signal
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, Self

from cdc_ops.dev.processes import LOG_FILE, ServerProcess, free_port, running_pid, wait_until
from cdc_ops.errors import EnvironmentSetupError
from cdc_ops.lake.spark.server import spark_home

_PATIENCE: Final = 60.0
_HOST: Final = "127.0.0.1"
_DAEMON: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
_LOST_AFTER: Final = 10
"""Seconds without a heartbeat after which the master takes a worker for dead; Spark's own are 60."""


class SparkCluster:
    """One cluster.

    Args:
        folder: Holds a folder for each process, with log, pid file and scratch data; created if it is missing.
        workers: The number of workers.
        cores: Cores of each worker.
        memory: Memory that each worker gives to executors.
        environment: Variables of the workers, which their executors inherit.
    """

    def __init__(
        self, folder: Path, *, workers: int = 2, cores: int = 1, memory: str = "1g", environment: Mapping[str, str] | None = None
    ) -> None:
        self.folder = folder.resolve()
        self.port = 0
        self._cores, self._memory = cores, memory
        self._environment = dict(environment or {})
        self._master = self._process("master")
        self._workers = [self._process(f"worker-{number}") for number in range(workers)]

    @property
    def url(self) -> str:
        """The address for `spark.master`."""
        return f"spark://{_HOST}:{self.port}"

    def start(self) -> Self:
        """Starts the master and all workers, and waits until the workers are registered.

        Raises:
            EnvironmentSetupError: a process does not start.
        """
        self.port = free_port()
        options = ("--host", _HOST, "--port", str(self.port), "--webui-port", "0")
        try:
            self._launch(self._master, "org.apache.spark.deploy.master.Master", options)
            self._wait(self._master, "I have been elected leader")
            for number in range(len(self._workers)):
                self._launch_worker(number)
            for worker in self._workers:
                self._wait(worker, "Successfully registered with master")
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """Stops all processes, executors included."""
        executors = [pid for number in range(len(self._workers)) for pid in self.executors(number).values()]
        for worker in self._workers:
            worker.stop()
        self._master.stop()
        for pid in executors:
            _kill(pid)

    def executors(self, worker: int | None = None) -> dict[str, int]:
        """Returns the executors that run now, of all workers or of one: their pids by Spark's ids."""
        found = dict[str, int]()
        for number in range(len(self._workers)) if worker is None else (worker,):
            parent = running_pid(self._workers[number].folder)
            found |= dict(_executors_of(parent)) if parent is not None else {}
        return found

    def kill_worker(self, number: int) -> None:
        """Kills a worker and its executors, as if their machine died."""
        executors = self.executors(number)
        if (pid := running_pid(self._workers[number].folder)) is not None:
            os.kill(pid, signal.SIGKILL)
        for executor in executors.values():
            _kill(executor)
        self._workers[number].stop()

    def start_worker(self, number: int) -> None:
        """Starts a worker that was killed, and waits until it is registered."""
        (self._workers[number].folder / LOG_FILE).unlink(missing_ok=True)
        self._launch_worker(number)
        self._wait(self._workers[number], "Successfully registered with master")

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _process(self, name: str) -> ServerProcess:
        return ServerProcess(f"Spark's {name}", self.folder / name, stop_signal=signal.SIGTERM)

    def _launch_worker(self, number: int) -> None:
        worker = self._workers[number]
        size = ("--cores", str(self._cores), "--memory", self._memory)
        place = ("--host", _HOST, "--webui-port", "0", "--work-dir", str(worker.folder / "work"))
        self._launch(worker, "org.apache.spark.deploy.worker.Worker", (*place, *size, self.url))

    def _launch(self, process: ServerProcess, name: str, options: tuple[str, ...]) -> None:
        process.folder.mkdir(parents=True, exist_ok=True)
        home = spark_home()
        variables = {
            **self._environment,
            "SPARK_HOME": str(home),
            "SPARK_LOCAL_IP": _HOST,
            "SPARK_LOCAL_DIRS": str(process.folder),
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": f"{_DAEMON} -Djava.io.tmpdir={process.folder} -Dspark.worker.timeout={_LOST_AFTER}",
        }
        given = [f"{variable}={value}" for variable, value in variables.items()]
        process.start(["env", *given, str(home / "bin" / "spark-class"), name, *options])

    def _wait(self, process: ServerProcess, words: str) -> None:
        if wait_until(lambda: words in process.log_tail(200), _PATIENCE, hopeless=lambda: process.exit_code() is not None):
            return
        raise EnvironmentSetupError(
            f"{process.name} did not start in {process.folder}.",
            why=process.log_tail(15),
            data="Nothing was read or written.",
            next=f"Read {process.folder / LOG_FILE}",
        )


def _executors_of(worker: int) -> Iterator[tuple[str, int]]:
    """Yields id and pid of the executors that a worker has started."""
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(status.read_text().rpartition(")")[2].split()[1])
            words = (status.parent / "cmdline").read_bytes().decode(errors="replace").split("\0") if parent == worker else []
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has ended meanwhile
        if "--executor-id" in words:
            yield words[words.index("--executor-id") + 1], int(status.parent.name)


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return  # it ended by itself, as wanted
