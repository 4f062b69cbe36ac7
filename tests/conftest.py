"""What all tests share: in each process one Spark session and one server of each kind; and marks by folder."""

import functools
import logging
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pymysql.connections
import pytest
from hypothesis import settings

from cdc_ops.alerts import space
from cdc_ops.dev.servers import MariaDBServer, MySQLServer, PostgresServer
from cdc_ops.errors import EnvironmentSetupError
from cdc_ops.lake.spark import jars
from tests.long_tests import require_short_tests
from tests.stores import BUCKET, ON_S3

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from cdc_ops.dev.object_store import ObjectStore

ROOT = Path(__file__).resolve().parent.parent
LOCAL = ROOT / ".local"
GOLDEN = ROOT / "tests" / "golden" / "formats"
FOLDERS = ("events", "unit", "spark", "integration", "airflow")  # in this order: what is quick speaks first
LONG = (
    *("spark_connect", "log_method", "late_rows", "odd_names", "spark_cluster", "reconcile", "event_history", "schema_changes", "scd"),
    *(
        "real_debezium",
        "binlog_archives",
        "query_method",
        "soak",
        "killed_jvm",
        "hostile_corpus",
        "kept_deletes",
        "parity",
        "killed_snapshot",
    ),
    *("native_reader", "unsigned_bigints", "declared_tables", "moved_keys", "damaged_landing", "type_policies", "wide_tables"),
)
"""The modules that take longest, longest first: begun before the others of their folder, they keep no process waiting at the end."""

HANDS = {"tests/airflow/test_live_airflow.py": "live Airflow", "tests/airflow/": "Airflow", "tests/": "others"}
"""What one process takes in one go, of the tests that need no Spark, by how their paths begin; the first that fits counts."""

# Before any test module imports Airflow, which would otherwise settle in the home folder.
os.environ["AIRFLOW_HOME"] = str(LOCAL / "tests" / "airflow")
os.environ["AIRFLOW__CORE__LOAD_EXAMPLES"] = "False"
os.environ.setdefault("CDC_OPS_CACHE", str(LOCAL / "cache"))
os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
os.environ["CDC_OPS_ENV_FILE"] = "off"  # what a developer keeps in .env is no part of a test
os.environ["CDC_OPS_CLASSES"] = "off"  # no test is to pay for what only later processes of its own would use

# How fast a machine is decides no test.
settings.register_profile("any-machine", deadline=None)
settings.load_profile("any-machine")

# How full a machine is decides no test either, but for those that take `real_disks`.
LITTLE = {name: getattr(space, name) for name in ("LEAST", "MOST", "SHARE")}
for name in LITTLE:
    setattr(space, name, 0)

# Closing the JVM's connections is logged when the interpreter ends, after pytest has closed the log's stream.
logging.getLogger("py4j").setLevel(logging.WARNING)

# What a test may look for in `caplog`, and what is shown of one that fails.
logging.getLogger("cdc_ops").setLevel(logging.INFO)

# PyMySQL reads the certificates of all authorities for each connection, even one that checks none: 26 of its 30 ms.
_new_context = pymysql.connections.Connection._create_ssl_ctx
_unchecked_context = functools.cache(lambda: _new_context(None, {}))
pymysql.connections.Connection._create_ssl_ctx = lambda self, chosen: _new_context(self, chosen) if chosen else _unchecked_context()


def _remember_classes() -> None:
    """Lets py4j ask the JVM once for each class and static method.

    It asks at each use, and the JVM looks in 300 jars for `java.lang.org.apache.…` before it finds the class: a twentieth of the suite.
    """
    from py4j.java_gateway import JavaClass, JavaMember, JavaPackage, JVMView

    def remembering(kind: type, kept: tuple[type, ...]) -> None:
        ask = kind.__getattr__

        def answer(self: Any, name: str) -> Any:
            known = self.__dict__.setdefault("_remembered", {})
            if name in known:
                return known[name]
            found = ask(self, name)
            if isinstance(found, kept):
                known[name] = found
            return found

        kind.__getattr__ = answer

    remembering(JVMView, (JavaClass, JavaPackage))
    remembering(JavaPackage, (JavaClass, JavaPackage))
    remembering(JavaClass, (JavaMember,))


# For many small statements that each run a few times. The second compiler costs a quarter of processor time and pays only after minutes.
# What the first makes (67 MB) does not fit into the 48 MB that it gets when it is alone. Heap and classes get their room at once, because
# growing collects all. Each new file makes Hadoop start a process (below), and this way of starting it spares a helper process.
JVM_OPTIONS = " ".join(
    (
        *("-XX:TieredStopAtLevel=1", "-XX:ReservedCodeCacheSize=256m", "-XX:+UseSerialGC", "-Xms3g", "-Xmn700m"),
        *("-XX:MetaspaceSize=512m", "-Djdk.lang.Process.launchMechanism=VFORK"),
    )
)

SMALL_SPARK = {
    "spark.master": "local[2]",
    "spark.driver.memory": "3g",
    "spark.ui.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",
    # Made for huge tables: the defaults of 50 and 10,000 tasks cost seconds at each commit and VACUUM of a small one.
    "spark.databricks.delta.snapshotPartitions": "1",
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "4",
    # Each task would write the source of a class for the handful of rows that it converts: a quarter of a commit's processor time. Whole
    # stages are compiled as ever.
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.driver.extraJavaOptions": JVM_OPTIONS,
    # Without Hadoop's native library every new local file costs processes (chmod, readlink), and its checksum file as many again. This
    # leaves the latter out: 20 processes less a run. Jobs of their own write them, and their files are read here all the same.
    "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
    "spark.hadoop.fs.AbstractFileSystem.file.impl": "org.apache.hadoop.fs.local.RawLocalFs",
    # Of thousands of tables none is needed when its test is over; all their snapshots would keep the collector busy.
    "spark.databricks.delta.delta.log.cacheSize": "50",
    "spark.sql.ui.retainedExecutions": "20",
    # The usual one renames a commit by way of four processes (readlink).
    "spark.delta.logStore.file.impl": "io.delta.storage.LocalLogStore",
    # Files on their way to S3 wait in memory: on disk they want the local file system that this does without.
    "spark.hadoop.fs.s3a.fast.upload.buffer": "bytebuffer",
}

UNSEEN = {
    # Spark writes out the plan of each statement for a page that nobody sees: this way is the shortest.
    "spark.sql.ui.explainMode": "simple",
    **{f"spark.ui.retained{kept}": "50" for kept in ("Jobs", "Stages")},
}
"""What a session without pages does without."""

SMALL_SERVER = {
    **{name: value for name, value in SMALL_SPARK.items() if name not in ("spark.driver.memory", "spark.driver.extraJavaOptions")},
    "spark.driver.defaultJavaOptions": JVM_OPTIONS.replace("-Xms3g", "-Xms1g"),
}
"""The same for a Spark Connect server, which has a JVM of its own."""


@functools.cache
def hand(path: str) -> str:
    """Returns which tests one process takes in one go, by a test's path: those of the same name.

    Without Spark: a whole live Airflow, the rest of Airflow, and all others. With Spark each file is a hand.
    """
    if path.startswith("tests/spark/") or "SparkSession" in (ROOT / path).read_text("utf-8"):
        return path
    return next((name for start, name in HANDS.items() if path.startswith(start)), path)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Marks each test by the folder it is in, and runs the folders in their order, in each of them the long modules first.

    In several processes the hands without Spark are dealt first: short files end the run, and no process is idle beside them.
    """
    many = list(HANDS.values()) if hasattr(config, "workerinput") else []

    def folder(item: pytest.Item) -> str:
        return item.path.relative_to(ROOT / "tests").parts[0]

    for item in items:
        if folder(item) in FOLDERS[2:]:
            item.add_marker(folder(item))
        if ON_S3 and item.get_closest_marker("local_store"):
            item.add_marker(pytest.mark.skip(reason="it is about local files"))

    def turn(item: pytest.Item) -> tuple[int, int, int]:
        part, module = folder(item), item.path.stem.removeprefix("test_")
        own = hand(item.path.relative_to(ROOT).as_posix()) if many else ""
        return (
            many.index(own) if own in many else len(many),
            FOLDERS.index(part) if part in FOLDERS else len(FOLDERS),
            LONG.index(module) if module in LONG else len(LONG),
        )

    items.sort(key=turn)
    require_short_tests(items)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Deals out to three processes (`make test`): each begins with a hand without Spark, and then takes files with Spark, longest first.

    So no process ends long before the others: the hands without Spark wait a third of their time, for servers, browsers and Airflow, and as
    one hand they took longer than all the rest. The groups of pytest-xdist are not for it: under pytest 9.2 their names do not get into the
    ids of tests.
    """
    from xdist.scheduler import LoadScopeScheduling

    class BySpark(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return hand(nodeid.partition("::")[0])

    return BySpark(config, log)


@pytest.fixture
def real_disks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Disks are nearly full by the product's own measure."""
    for name, value in LITTLE.items():
        monkeypatch.setattr(space, name, value)


@pytest.fixture(scope="session")
def server_folder() -> Iterator[Path]:
    """A folder that other users may enter: Postgres gives up root."""
    with tempfile.TemporaryDirectory(prefix="cdc-ops-servers-") as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.fixture(scope="session")
def object_store() -> Iterator["ObjectStore"]:
    """An S3 endpoint on loopback."""
    from cdc_ops.dev.object_store import ObjectStore

    store = ObjectStore(BUCKET)
    yield store
    store.close()


@pytest.fixture(scope="session")
def mariadb(server_folder: Path) -> Iterator[MariaDBServer]:
    with MariaDBServer(server_folder / "mariadb") as server:
        yield server


@pytest.fixture(scope="session")
def mysql(server_folder: Path) -> Iterator[MySQLServer]:
    """Skips where MySQL cannot be had, which is everywhere but on Debian and where it is installed; never in CI."""
    try:
        MySQLServer.ensure_installed()
    except EnvironmentSetupError as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(f"no MySQL server on this machine: {error}")
    with MySQLServer(server_folder / "mysql") as server:
        yield server


@pytest.fixture(scope="session")
def postgres(server_folder: Path) -> Iterator[PostgresServer]:
    with PostgresServer(server_folder / "postgres", options=("-c", "max_prepared_transactions=8")) as server:
        yield server


@pytest.fixture(scope="session")
def jar_folder() -> Path:
    folder = LOCAL / "jars"
    jars.fetch(folder)
    return folder


@pytest.fixture(scope="session")
def store(request: pytest.FixtureRequest) -> None:
    """Where `tests.stores` puts things: for S3, the endpoint in the environment, by which Spark and all else find it."""
    if ON_S3:
        os.environ["AWS_ENDPOINT_URL"] = request.getfixturevalue("object_store").endpoint


@pytest.fixture(scope="session")
def spark(jar_folder: Path, tmp_path_factory: pytest.TempPathFactory, store: None) -> Iterator["SparkSession"]:
    """The one session of a process."""
    from cdc_ops.lake.spark.session import build_session

    _remember_classes()
    warehouse = tmp_path_factory.mktemp("warehouse")
    options = f"{JVM_OPTIONS} -Dderby.system.home={warehouse}"
    places = {"spark.sql.warehouse.dir": str(warehouse), "spark.driver.extraJavaOptions": options}
    session = build_session("cdc-ops tests", jars=jars.jar_list(jar_folder), extra_conf={**SMALL_SPARK, **UNSEEN, **places})
    yield session
    session.stop()
