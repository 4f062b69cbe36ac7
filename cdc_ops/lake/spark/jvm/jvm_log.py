"""The log file of this process's JVM: only lines of cdc-ops reach the terminal and standard output.

A JVM that PySpark starts inherits standard output and error. Spark's warnings would stand between our lines, and what the JVM itself says
("CodeCache is full") would stand before the JSON of `--json`. So the JVM gets a pipe. A thread copies it into the file, takes known
secrets out, and keeps the file small. Under spark-submit the JVM is older than this process and keeps the log that it has.
"""

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, ClassVar, Final

from pyspark import SparkConf, SparkContext, java_gateway
from pyspark.errors import PySparkRuntimeError
from pyspark.sql import SparkSession

from cdc_ops.core.processes import end_words
from cdc_ops.errors import EnvironmentSetupError, JobLostError

KEPT: Final = 20
"""Log files that stay in the folder."""

LIMIT: Final = 32 << 20
"""Bytes of a log file; then it becomes `<name>.1`, in place of an older one, and a new file begins."""

_SHORT: Final = 4
"""A shorter secret is not taken out: it stands in other words too. The servers' own rules refuse such passwords."""

_TAIL: Final = 12
_LONGEST_LINE: Final = 300
_OPTIONS: Final = ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS")
_PATIENCE: Final = 5.0
_LAST_PATIENCE: Final = 1.0
"""Seconds in which a JVM that was killed is gone; it stays only where the system keeps it, in a store that does not answer."""


class JvmLog:
    """The log file of the JVM of this process. Nothing is created before the JVM starts.

    Args:
        folder: Where the files are; it is created if need be, for its owner only.
        secrets: Texts that are replaced by `***`.
        echo: Receives each line as well, e.g. to show it on a terminal.
        limit: Bytes after which a new file begins.
    """

    _running: ClassVar["JvmLog | None"] = None

    def __init__(self, folder: Path, *, secrets: Iterable[str] = (), echo: Callable[[str], None] | None = None, limit: int = LIMIT) -> None:
        self.path = folder / f"spark-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}-{os.getpid()}.log"
        self._secrets: list[bytes] = []
        self._echo = echo
        self._limit = limit
        self._memory = ""
        self.hide(secrets)

    @classmethod
    def of_process(cls, folder: Path, *, secrets: Iterable[str] = (), echo: Callable[[str], None] | None = None) -> "JvmLog":
        """Returns the log of the JVM that this process started, also for a second session; a new one if it has not started any."""
        if cls._running is None:
            return cls(folder, secrets=secrets, echo=echo)
        cls._running.hide(secrets)
        return cls._running

    def hide(self, secrets: Iterable[str]) -> None:
        """Adds texts that are replaced by `***` from now on."""
        known = {*self._secrets, *(secret.encode() for secret in secrets if len(secret) >= _SHORT)}
        self._secrets = sorted(known, key=len, reverse=True)

    def start_jvm(self, conf: Mapping[str, str]) -> None:
        """Starts the JVM that the next Spark session of this process will use, unless there is one.

        Raises:
            EnvironmentSetupError: it does not start, or the log file cannot be written.
        """
        if SparkContext._gateway is not None:
            return
        spark_conf = SparkConf().setAll(list(conf.items()))
        file = self._open()
        reading, writing = os.pipe()
        copy = threading.Thread(target=self._copy, args=(reading, file), name="jvm-log", daemon=True)
        copy.start()
        try:
            # A session of its own: what a terminal or a supervisor sends to the group is for this process, which ends the JVM itself.
            options = {"stdout": writing, "stderr": writing, "start_new_session": True}
            with _ended_if_interrupted():
                gateway = java_gateway.launch_gateway(spark_conf, options)  # type: ignore[no-untyped-call]
        except (PySparkRuntimeError, OSError) as error:
            os.close(writing)
            copy.join(_PATIENCE)
            raise self._not_started(error) from error
        os.close(writing)
        SparkContext._ensure_initialized(gateway=gateway, conf=spark_conf)
        self._memory = conf.get("spark.driver.memory", "")
        JvmLog._running = self

    @staticmethod
    def jvm_runs() -> bool:
        """True if this process has a JVM, whoever started it."""
        return SparkContext._gateway is not None

    @staticmethod
    def jvm_died() -> bool:
        """True if this process has started a JVM that is gone: killed for its memory, say."""
        process = getattr(SparkContext._gateway, "proc", None)
        return process is not None and process.poll() is not None

    @classmethod
    def end_jvm(cls, patience: float) -> bool:
        """Ends the JVM of this process, whose session was stopped, and waits for its end; the next session starts another one.

        Args:
            patience: Seconds after which it is killed.

        Returns:
            True if it ended by itself, and well.
        """
        gateway, SparkContext._gateway, SparkContext._jvm = SparkContext._gateway, None, None
        SparkContext._active_spark_context = SparkSession._instantiatedSession = SparkSession._activeSession = None  # of a JVM that died
        process = getattr(gateway, "proc", None)
        cls._running = None
        if gateway is None or process is None:
            return False
        with suppress(Exception):  # it may have ended already
            gateway.shutdown()
        process.stdin.close()
        try:
            return bool(process.wait(patience) == 0)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            return False

    @classmethod
    def signal_jvm(cls, number: signal.Signals) -> None:
        """Sends a signal to the JVM that this process has started here, and to its children; any thread may do that at any time."""
        process = cls._own_process()
        if process is not None and process.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, number)

    @classmethod
    def quit_jvm(cls, patience: float) -> bool:
        """Ends the JVM that this process has started here, whatever it does: it is told to, and killed if it takes too long.

        Args:
            patience: Seconds after which it is killed.

        Returns:
            True if it is certain that the JVM has ended, so that nothing is committed any more.
        """
        process = cls._own_process()
        if process is None:
            return False
        for number, seconds in ((signal.SIGTERM, patience), (signal.SIGKILL, _LAST_PATIENCE)):
            cls.signal_jvm(number)
            with suppress(subprocess.TimeoutExpired):
                process.wait(seconds)
                return True
        return False

    @classmethod
    def death(cls, what: str, *, data: str) -> JobLostError | None:
        """Returns the error for a JVM that this process has started here and that is gone, None if it is not.

        Args:
            what: What failed for that, such as "Table shop.orders".
            data: What that means for the data.
        """
        log, process = cls._running, cls._own_process()
        if log is None or process is None:
            return None
        try:
            code = process.wait(_LAST_PATIENCE)  # its connections end a moment before it does
        except subprocess.TimeoutExpired:
            return None
        return JobLostError(
            f"{what} failed: the JVM of Spark is gone.",
            why="\n        ".join((f"It {end_words(code, log._memory)}. The last lines of its log:", *log._last_lines())),
            data=data,
            next=f"Run again: another JVM goes on with the same window. The JVM's log: {log.path}",
        )

    @classmethod
    def _own_process(cls) -> "subprocess.Popen[bytes] | None":
        return getattr(SparkContext._gateway, "proc", None) if cls._running is not None else None

    def _open(self) -> IO[bytes]:
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            for old in sorted(self.path.parent.glob("spark-*.log*"), key=_written_at)[: 1 - KEPT]:
                old.unlink(missing_ok=True)
            return self._new_file()
        except OSError as error:
            raise EnvironmentSetupError(
                f"cdc-ops cannot write the log of Spark's JVM to {self.path.parent}.",
                why=str(error),
                data="Nothing was read or written.",
                next="Set CDC_OPS_LOGS to a folder that this user may write to.",
            ) from error

    def _new_file(self) -> IO[bytes]:
        return open(os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb", buffering=0)

    def _copy(self, reading: int, file: IO[bytes]) -> None:
        """Copies until the JVM ends. It reads on whatever happens: a JVM whose pipe is full stands still."""
        with open(reading, "rb") as lines:
            size, target = 0, file
            for raw in lines:
                line = self._masked(raw)
                try:
                    if size + len(line) > self._limit:
                        target.close()
                        self.path.replace(self.path.with_name(f"{self.path.name}.1"))
                        size, target = 0, self._new_file()
                    size += target.write(line)
                except (OSError, ValueError):  # the disk is full, or a new file could not be opened: the work goes on without its log
                    size = 0
                if self._echo is not None:
                    self._echo(line.decode("utf-8", "replace").rstrip("\n"))
            target.close()

    def _masked(self, line: bytes) -> bytes:
        for secret in self._secrets:
            line = line.replace(secret, b"***")
        return line

    def _not_started(self, error: Exception) -> EnvironmentSetupError:
        said = self._last_lines()
        options = [name for name in _OPTIONS if os.environ.get(name)]
        also = f" Try without {' and '.join(options)}: Spark cannot start where it makes the JVM print to stdout." if options else ""
        return EnvironmentSetupError(
            "The JVM for Spark did not start.",
            why="\n        ".join(said) or str(error),
            data="Nothing was read or written.",
            next=f"Check that Java 17 is installed (java -version), and 'spark' in the pipeline file.{also} The JVM's log: {self.path}",
        )

    def _last_lines(self) -> list[str]:
        try:
            return [line[:_LONGEST_LINE] for line in self.path.read_text("utf-8", "replace").splitlines()[-_TAIL:]]
        except OSError:  # it was removed to make room
            return []


@contextmanager
def _ended_if_interrupted() -> Iterator[None]:
    """Ends a JVM whose start is interrupted: PySpark forgets it then, and it would wait for ever for somebody to work with it."""
    started: list[subprocess.Popen[bytes]] = []
    gateway: Any = java_gateway
    program = gateway.Popen

    def start(*arguments: Any, **options: Any) -> "subprocess.Popen[bytes]":
        started.append(program(*arguments, **options))
        return started[0]

    gateway.Popen = start
    try:
        yield
    except KeyboardInterrupt:
        for process in started:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        raise
    finally:
        gateway.Popen = program


def _written_at(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except FileNotFoundError:  # another process has just removed it
        return 0.0
