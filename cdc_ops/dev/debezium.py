"""Runs the real Debezium engine beside a server for tests, and archives its events as Kafka Connect does; outside the data path.

    sink = SinkArchive(folder / "archive", folder / "sink", records_per_file=500)
    with running_debezium(server, ["shop.orders"], sink, folder / "engine") as engine:
        ...                                     # the applications write
        engine.catch_up()                       # all events that were committed until now are in the archive

The engine runs in a separate JVM, controlled over py4j, which comes with PySpark: no Kafka, and no Java compiler. Its folder holds its
offset in the log and its schema history: an engine that is started again there continues, and delivers unconfirmed events again.

`python -m cdc_ops.dev.debezium` only downloads the jars of both releases (80 MB).
"""

import re
import signal
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Self

from cdc_ops.dev.databases.database_server import DatabaseServer
from cdc_ops.dev.databases.mariadb import cache_folder
from cdc_ops.dev.debezium_settings import MARKS, connector_settings
from cdc_ops.dev.processes import LOG_FILE, ServerProcess, running_pid, wait_until
from cdc_ops.dev.sink_archive import SinkArchive
from cdc_ops.errors import EnvironmentSetupError
from cdc_ops.lake.spark import jars

VERSION: Final = "3.6.1.Final"
MARIADB_VERSION: Final = "3.5.0.Final"
"""The last release of the connector for MariaDB on Maven Central; its engine has the same release."""
_MARK: Final = re.compile(r'"(?:after|payload)":\{"id":(\d+)')
"""Matches a row of the table of marks, flattened or not."""
PATIENCE_SECONDS: Final = 120.0

_DEBEZIUM: Final = (
    *("api", "config", "connect-plugins", "connector-binlog", "connector-common", "connector-mysql", "connector-postgres"),
    *("ddl-parser", "embedded", "openlineage-api", "storage-file", "storage-kafka", "util"),
)
_KAFKA: Final = ("connect-api", "connect-json", "connect-runtime", "connect-transforms", "kafka-clients")
_COMMON: Final = (
    *("com.google.protobuf:protobuf-java:3.25.5", "org.antlr:antlr4-runtime:4.10.1", "com.mysql:mysql-connector-j:9.1.0"),
    *("org.apache.maven:maven-artifact:3.9.6", "com.github.luben:zstd-jni:1.5.6-10"),
    *("org.slf4j:slf4j-api:1.7.36", "org.slf4j:slf4j-simple:1.7.36"),
)


def _of_release(version: str, modules: tuple[str, ...], kafka: str, jackson: str, drivers: tuple[str, ...]) -> tuple[jars.Coordinate, ...]:
    """Returns the coordinates of an engine of a release, without the web server that Kafka Connect's runtime also depends on."""
    major, minor = jackson.split(".")[:2]
    annotations = f"{major}.{minor}" if int(minor) >= 20 else jackson  # releases have no third number since 2.20
    names = (
        *(f"io.debezium:debezium-{part}:{version}" for part in modules),
        *(f"org.apache.kafka:{name}:{kafka}" for name in _KAFKA),
        f"com.fasterxml.jackson.core:jackson-annotations:{annotations}",
        *(f"com.fasterxml.jackson.core:jackson-{part}:{jackson}" for part in ("core", "databind")),
        *(f"com.fasterxml.jackson.datatype:jackson-datatype-{part}:{jackson}" for part in ("jdk8", "jsr310")),
        f"com.fasterxml.jackson.module:jackson-module-blackbird:{jackson}",
        *drivers,
        *_COMMON,
    )
    return tuple(jars.Coordinate.parse(text) for text in names)


_JARS: Final = {
    VERSION: _of_release(
        VERSION,
        _DEBEZIUM,
        "4.3.0",
        "2.21.2",
        ("io.debezium:mysql-binlog-connector-java:0.41.0", "org.postgresql:postgresql:42.7.11", "com.datadoghq:sketches-java:0.8.2"),
    ),
    MARIADB_VERSION: _of_release(
        MARIADB_VERSION,
        (*_DEBEZIUM, "connector-mariadb"),
        "4.1.1",
        "2.19.0",
        (
            "io.debezium:mysql-binlog-connector-java:0.40.6",
            "org.mariadb.jdbc:mariadb-java-client:3.5.3",
            "org.postgresql:postgresql:42.7.7",
        ),
    ),
}

_JAVA: Final = (
    *("-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dfile.encoding=UTF-8", "-Duser.timezone=UTC"),
    *("-Dorg.slf4j.simpleLogger.showDateTime=true", "-Dorg.slf4j.simpleLogger.log.org.apache.kafka=warn"),
    # py4j calls methods of JDK classes by reflection, which Java allows only for opened packages
    *(f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in ("java.util", "java.util.stream", "java.util.concurrent")),
)


def ensure_installed(version: str = VERSION) -> list[Path]:
    """Returns the jars of an engine of a release; downloads them if they are missing.

    Raises:
        EnvironmentSetupError: Java or the network is missing.
    """
    return jars.fetch(cache_folder() / f"debezium-{version}", _JARS[version])


class DebeziumEngine:
    """One engine in one folder, and the archive that it writes.

    Args:
        server: MariaDB, MySQL or Postgres.
        folder: Holds the engine's offset, its schema history and its log.
        settings: All settings of the connector, see `debezium_settings.connector_settings`.
        sink: Writes the events into the archive.
    """

    def __init__(self, server: DatabaseServer, folder: Path, settings: Mapping[str, str], sink: SinkArchive) -> None:
        self.folder = folder.resolve()
        self._server = server
        self._settings = dict(settings)
        self._sink = sink
        self._process = ServerProcess("Debezium", self.folder, stop_signal=signal.SIGTERM)
        self._seen = threading.Condition()
        self._marks: set[str] = set()
        self._mark = time.time_ns() // 1000
        self._failure: str | None = None
        self._ended = threading.Event()
        self._busy = threading.Lock()
        self._gateway: Any = None
        self._engine: Any = None

    def start(self) -> Self:
        """Starts the engine, and returns while it may still read the snapshot.

        Raises:
            EnvironmentSetupError: Java or the network for the jars is missing, or the JVM does not start.
        """
        found = ensure_installed(MARIADB_VERSION if self._server.name == "MariaDB" else VERSION)
        self.folder.mkdir(parents=True, exist_ok=True)
        if running_pid(self.folder):
            raise EnvironmentSetupError(
                f"Debezium already runs in {self.folder}",
                why="an earlier process started it and did not stop it",
                data="nothing was touched",
                next="use another folder, or stop_from_pidfile(folder)",
            )
        log = self.folder / LOG_FILE
        log.touch(mode=0o600)  # the gateway prints its port's secret
        begin = log.stat().st_size
        classes = ":".join(str(path) for path in (*found, jars.bundled("py4j", "drives the engine")))
        self._process.start([jars.java(), *_JAVA, f"-Dcdc-ops={self.folder}", "-cp", classes, "py4j.GatewayServer", "--enable-auth", "0"])
        try:
            port, secret = self._address(log, begin)
            self._connect(port, secret)
        except BaseException as error:
            text = str(error)  # py4j reads it from the JVM
            self.kill()
            if type(error).__module__.startswith("py4j"):
                raise self._error("Debezium does not start", text) from None
            raise
        return self

    def catch_up(self) -> None:
        """Waits until the archive's files have all that was committed before this call.

        Raises:
            EnvironmentSetupError: the engine failed or took too long; the error has the end of its log.
        """
        first = self._mark + 1
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not self._delivered(first):
            if self._ended.is_set() or self._process.exit_code() is not None:
                raise self._error("Debezium ended", self._failure or "Debezium gave no reason")
            if time.monotonic() > deadline:
                raise self._error("Debezium makes no progress", f"Debezium did not deliver a row within {PATIENCE_SECONDS:.0f} seconds")
            # Without a snapshot an engine starts at the end of the log: it never sees marks that were written before.
            self._mark += 1
            self._server.execute(f"INSERT INTO {MARKS} (id) VALUES ({self._mark})", database=self._settings["cdc-ops.database"])
            with self._seen:
                self._seen.wait_for(lambda: self._has(first), timeout=5)
        self._sink.flush()

    def _delivered(self, first: int) -> bool:
        """True once a mark of that number, or a later one, was delivered."""
        with self._seen:
            return self._has(first)

    def _has(self, first: int) -> bool:
        return any(int(mark) >= first for mark in self._marks)

    def stop(self) -> None:
        """Stops the engine. It confirms its deliveries, and all of them are in files of the archive."""
        if self._engine is not None and not self._ended.is_set():
            try:
                self._engine.close()
                self._ended.wait(30)
            except Exception as error:  # py4j raises different errors for the ways in which a JVM can end
                print(f"Debezium does not close: {error}", file=sys.stderr)
        self.kill()

    def kill(self) -> None:
        """Kills the JVM without stopping the engine, so that the next start delivers unconfirmed events again."""
        with self._busy:  # between two batches, so that no call from here into the JVM is interrupted
            gateway, self._gateway = self._gateway, None
            self._engine = None
            if gateway is not None:
                gateway.shutdown_callback_server()
                gateway.close()
                gateway._gateway_client.is_connected = False  # later errors of the connection are expected
            self._process.stop(timeout=0)
        self._sink.flush()

    def dump_log(self, lines: int = 40) -> str:
        """Returns the last lines of the engine's log."""
        return self._process.log_tail(lines)

    def _address(self, log: Path, begin: int) -> tuple[int, str]:
        def printed() -> re.Match[bytes] | None:
            with log.open("rb") as file:
                file.seek(begin)
                return re.search(rb"^(\d+)\n(\S+)\n", file.read(), re.MULTILINE)

        if address := wait_until(printed, PATIENCE_SECONDS, hopeless=lambda: self._process.exit_code() is not None):
            return int(address[1]), address[2].decode()
        raise self._error("the JVM for Debezium does not start", "the JVM did not print its port")

    def _connect(self, port: int, secret: str) -> None:
        from py4j.java_gateway import CallbackServerParameters, GatewayParameters, JavaGateway

        self._gateway = JavaGateway(
            gateway_parameters=GatewayParameters(port=port, auth_token=secret, auto_convert=True),
            callback_server_parameters=CallbackServerParameters(port=0, daemonize=True, daemonize_connections=True),
        )
        jvm, server = self._gateway.jvm, self._gateway.java_gateway_server
        back = self._gateway.get_callback_server().get_listening_port()
        server.resetCallbackClient(server.getCallbackClient().getAddress(), back)
        properties = jvm.java.util.Properties()
        for name, value in self._settings.items():
            properties.setProperty(name, value)
        named = jvm.java.lang.Class.forName
        builder = jvm.io.debezium.engine.DebeziumEngine.create(named("io.debezium.engine.format.Json"))
        self._engine = builder.using(properties).using(_Ending(self)).notifying(_Consumer(self, jvm)).build()
        jvm.java.lang.Thread(self._engine, "debezium").start()

    @contextmanager
    def batch(self) -> Iterator[None]:
        """Keeps the JVM alive while a batch is handled."""
        with self._busy:
            if self._gateway is None:
                raise InterruptedError("the engine was killed")
            yield

    def take(self, topics: Sequence[str], values: Sequence[str | None]) -> None:
        """Handles a batch of the engine: remembers marks, and archives the other events."""
        records = list(zip(topics, values, strict=True))
        self._sink.put((topic, value) for topic, value in records if not topic.endswith(f".{MARKS}"))
        found = [_MARK.search(value) for topic, value in records if value and topic.endswith(f".{MARKS}")]
        with self._seen:
            self._marks.update(one[1] for one in found if one)
            self._seen.notify_all()

    def ended(self, failure: str | None) -> None:
        """Remembers that the engine has ended, and why."""
        self._failure = failure
        self._ended.set()

    def _error(self, what: str, why: str) -> EnvironmentSetupError:
        return EnvironmentSetupError(
            what, why=f"{why}\n{self.dump_log(25)}", data="the archive holds what was delivered", next=f"read {self.folder / LOG_FILE}"
        )


class _Consumer:
    """Receives the engine's batches; py4j calls it in its threads."""

    def __init__(self, engine: DebeziumEngine, jvm: Any) -> None:
        self._engine = engine
        self._jvm = jvm
        # A call per record would cost a round trip each; these read a whole batch in Java.
        self._read = {name: self._getter(name, kind) for name, kind in (("destination", "java.lang.String"), ("value", "java.lang.Object"))}

    def handleBatch(self, records: Any, committer: Any) -> None:
        """Archives a batch, then confirms it to the engine."""
        with self._engine.batch():
            topics, values = (self._all(records, name) for name in ("destination", "value"))
            # Java prints NULL as the text null when it joins values; null is not an envelope.
            self._engine.take(topics, [None if value == "null" else value for value in values])
            for record in records:
                committer.markProcessed(record)
            committer.markBatchFinished()

    def supportsTombstoneEvents(self) -> bool:
        """Returns True: tombstones are archived like other records."""
        return True

    def _all(self, records: Any, name: str) -> list[str]:
        streams = self._jvm.java.util.stream
        joined: str = records.stream().map(self._read[name]).collect(streams.Collectors.joining("\n"))
        return joined.split("\n")  # JSON text has no line feed

    def _getter(self, name: str, kind: str) -> Any:
        named, invoke = self._jvm.java.lang.Class.forName, self._jvm.java.lang.invoke
        method = invoke.MethodType.methodType(named(kind))
        handle = invoke.MethodHandles.publicLookup().findVirtual(named("io.debezium.engine.ChangeEvent"), name, method)
        return invoke.MethodHandleProxies.asInterfaceInstance(named("java.util.function.Function"), handle)

    class Java:
        implements: Final = ["io.debezium.engine.DebeziumEngine$ChangeConsumer"]


class _Ending:
    """Receives the engine's end."""

    def __init__(self, engine: DebeziumEngine) -> None:
        self._engine = engine

    def handle(self, success: bool, message: str | None, error: Any) -> None:
        """Passes on the engine's error, or None if it stopped without one."""
        self._engine.ended(None if success else f"{message} {error}")

    class Java:
        implements: Final = ["io.debezium.engine.DebeziumEngine$CompletionCallback"]


@contextmanager
def running_debezium(
    server: DatabaseServer,
    tables: Sequence[str],
    sink: SinkArchive,
    folder: Path,
    *,
    snapshot_mode: str = "initial",
    settings: Mapping[str, str] | None = None,
) -> Iterator[DebeziumEngine]:
    """Runs an engine during the `with`.

    Args:
        server: MariaDB, MySQL or Postgres; in Postgres the engine leaves a replication slot and a publication behind.
        tables: `database.table`, all in one database.
        sink: Writes the events into the archive. The topics are `cdc.<database>.<table>`, for Postgres `cdc.public.<table>`, and `cdc`
            for schema changes.
        folder: The engine's folder; with the folder of an earlier engine it continues where that one ended.
        snapshot_mode: `initial` reads a snapshot of the tables first, `no_data` does not.
        settings: Further settings of the connector; they override those that docs/formats/debezium.md asks for.

    Raises:
        EnvironmentSetupError: See `DebeziumEngine.start`.
    """
    chosen = connector_settings(server, tables, folder.resolve(), snapshot_mode)
    engine = DebeziumEngine(server, folder, {**chosen, **(settings or {})}, sink)
    engine.start()
    try:
        yield engine
    finally:
        engine.stop()


if __name__ == "__main__":
    for release in _JARS:
        print(f"{len(ensure_installed(release))} jars of Debezium {release}", file=sys.stderr)
