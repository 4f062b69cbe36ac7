"""Spark on a Spark Connect server that lives on: sessions of one application, checked against what cdc-ops needs. Spark-free until opened.

A server runs for many clients, longer than any of them. So every session here is a new one of the server, never a clone: a clone inherits
settings, and a transaction id that it inherits makes Delta skip a statement in silence. A session ends with the work that it was for.
"""

import os
import threading
import uuid
import warnings
import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from cdc_ops.core.pipeline.connect_address import TOKEN_VARIABLE, ConnectAddress
from cdc_ops.errors import CdcError, ConfigError, EnvironmentSetupError, JobLostError, SparkServerLostError
from cdc_ops.lake.spark import jars
from cdc_ops.lake.spark.conf import EXTENSION, EXTENSIONS, FILE_PARTITIONS, HIDDEN_OPTIONS, needed_conf, session_conf, store_conf

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_MODE: Final = "SPARK_CONNECT_MODE_ENABLED"
"""The environment variable by which PySpark knows that functions and types are those of Connect."""

_TRIES: Final = 9
_LONGEST_PAUSE: Final = 5000
"""Milliseconds. Together half a minute until a server counts as lost; PySpark's own 10 minutes would hold leases for nothing."""

_LOST: Final = (
    *("INVALID_HANDLE.SESSION_", "INVALID_HANDLE.OPERATION_", "RESPONSE_ALREADY_RECEIVED", "server side session identifier"),
    *("StatusCode.UNAVAILABLE", "failed to connect to all addresses"),
)
_VIEW: Final = "cdc_ops_"
_OLD_VIEW: Final = timedelta(days=1)
_HADOOP: Final = "spark.hadoop."
_NOTHING: Final = "Nothing was read or written."
_STRING_REDACTION: Final = "spark.sql.redaction.string.regex"


@dataclass(frozen=True, slots=True, kw_only=True)
class Versions:
    """The versions that a server must have: those that this package is tested with."""

    spark: str
    delta: str

    @classmethod
    def ours(cls) -> "Versions":
        """Returns the versions of this environment."""
        from pyspark import __version__

        return cls(spark=__version__, delta=next(one.revision for one in jars.RESOLVED if one.name.startswith("delta-spark")))


@dataclass(slots=True)
class ConnectApplication:
    """The sessions of one job on a server.

    Args:
        address: Where the server listens.
        conf: The settings of each session.
    """

    address: ConnectAddress
    conf: Mapping[str, str]
    _sessions: "list[SparkSession]" = field(default_factory=list)
    _closed: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def new_session(self) -> "SparkSession":
        """Returns a new session, with the settings of the application and nothing else."""
        from pyspark.sql import SparkSession
        from pyspark.sql.connect.client.retries import DefaultPolicy

        warnings.filterwarnings("ignore", r"\[RETRIES_EXCEEDED\]", UserWarning)  # the error that follows says it
        builder = SparkSession.builder.remote(self.address.url(with_token=bool(os.environ.get(TOKEN_VARIABLE))))
        session: Any = builder.create()
        with self._lock:
            self._sessions.append(session)
            closed = self._closed
        if closed:
            self.end_session(session)
            raise JobLostError("The work on the Spark server was ended.", data="The next try finds what was committed.", next="Run again.")
        session.client.set_retry_policies([DefaultPolicy(max_retries=_TRIES, max_backoff=_LONGEST_PAUSE)])
        _APPLICATIONS[session] = self
        self.configure(session)
        return session  # type: ignore[no-any-return]

    def configure(self, session: "SparkSession") -> None:
        """Gives a session the settings of the application."""
        if self.conf:
            conf: Any = session.conf
            conf._set_all(configs=dict(self.conf), silent=False)  # one call; by name, each setting would take one

    def end_session(self, session: "SparkSession") -> None:
        """Ends a session on the server, with what it still runs there."""
        with self._lock:
            if session in self._sessions:
                self._sessions.remove(session)
        _end(session)

    def close(self) -> None:
        """Ends all sessions, and with them the statements that still run; PySpark may start Spark in this process again after that."""
        with self._lock:
            self._closed = True
            left, self._sessions = self._sessions, []
        for session in reversed(left):
            _end(session)
        os.environ.pop(_MODE, None)


_APPLICATIONS: "weakref.WeakKeyDictionary[SparkSession, ConnectApplication]" = weakref.WeakKeyDictionary()


def application_of(session: "SparkSession") -> ConnectApplication | None:
    """Returns the application that a session belongs to, None for a session that is not of a server, or was not opened here."""
    return _APPLICATIONS.get(session)


def is_connected(session: "SparkSession") -> bool:
    """True for a session of a Spark Connect server, whoever opened it."""
    return not hasattr(session, "newSession")


def open_connected(connect: str, chosen: Mapping[str, str], needed: Versions | None = None) -> "SparkSession":
    """Opens the first session of an application on a server, which was checked.

    Args:
        connect: Address of the server.
        chosen: Settings that the pipeline file chose.
        needed: The versions that the server must have; None = ours.

    Raises:
        ConfigError: the address is refused, or a chosen setting is one that only the server's start can set.
        EnvironmentSetupError: the server has other versions, or lacks what values and commits depend on.
        SparkServerLostError: the server does not answer.
    """
    try:
        address = ConnectAddress.parse(connect)
    except ValueError as error:
        raise ConfigError("'spark.connect' is refused.", why=f"{error}.", data=_NOTHING, next="Correct the pipeline file.") from None
    application = ConnectApplication(address=address, conf={})
    try:
        with translated_loss(connect):
            session = application.new_session()
            check_versions(connect, session, needed or Versions.ours())
            application.conf = _settings(connect, session, chosen)
            application.configure(session)
            _drop_old_views(session)
    except BaseException:
        application.close()
        raise
    return session


def check_versions(connect: str, session: "SparkSession", needed: Versions) -> None:
    """Refuses a server with another Spark or Delta.

    Raises:
        EnvironmentSetupError: it has other versions, or no Delta.
    """
    from pyspark.errors import PySparkException

    spark = session.version  # first: a statement would try twice as long to reach a server that is not there
    try:
        delta = str(session.sql("SELECT java_method('io.delta.package', 'VERSION')").collect()[0][0])
    except PySparkException as error:
        if is_loss(error):
            raise
        delta = "none"
    found = Versions(spark=spark, delta=delta)
    if found != needed:
        raise EnvironmentSetupError(
            f"The Spark server at {connect} has Spark {found.spark} and Delta {found.delta};"
            f" cdc-ops needs Spark {needed.spark} and Delta {needed.delta}.",
            why="Values and commits are tested with these versions only.",
            data=_NOTHING,
            next="Start the server with the same versions as this environment (docs/install.md#a-spark-server-that-lives-on).",
        )


def is_loss(error: BaseException) -> bool:
    """True if an error says that the server is gone, or that it was started again and knows nothing of the session.

    Cleaning up after such an error fails too, with an error that says nothing of it: those before it count as well.
    """
    before = error.__cause__ or error.__context__
    return _is_loss(error) or (before is not None and is_loss(before))


def _is_loss(error: BaseException) -> bool:
    if not type(error).__module__.startswith(("pyspark.errors", "grpc")):
        return False
    code = error.getGrpcStatusCode() if hasattr(error, "getGrpcStatusCode") else None
    head = str(error).partition("JVM stacktrace")[0]
    return getattr(code, "name", "") == "UNAVAILABLE" or any(sign in head for sign in _LOST)


def server_lost(connect: str, error: BaseException) -> SparkServerLostError:
    """Returns the error for a server that does not answer any more."""
    lines = [line for line in str(error).splitlines() if line.strip()]
    return SparkServerLostError(
        f"The Spark server at {connect} does not answer.",
        why="\n        ".join(lines[:4]),
        data="The operation is not committed, or the next try finds its commit; the watermark stays.",
        next="Start the server if it is down, and run again: it continues with the same window.",
    )


@contextmanager
def translated_loss(connect: str) -> Iterator[None]:
    """Turns PySpark's errors about a lost server into ours.

    Raises:
        SparkServerLostError: the server is gone.
    """
    try:
        yield
    except CdcError:
        raise
    except Exception as error:
        if is_loss(error):
            raise server_lost(connect, error) from error
        raise


def view_name() -> str:
    """Returns a new name for a view of the whole server, which says when it was made."""
    return f"{_VIEW}{datetime.now(UTC):%Y%m%d%H%M%S}_{uuid.uuid4().hex}"


def _settings(connect: str, session: "SparkSession", chosen: Mapping[str, str]) -> dict[str, str]:
    """Returns the settings of each session: what is needed, over what the pipeline file chose, over what is usual.

    Usual ones are set only where the server was started without them.
    """
    _check_extension(connect, session)
    fixed = sorted(name for name, value in chosen.items() if not _can_set(session, name) and session.conf.get(name, None) != value)
    if fixed:
        raise ConfigError(
            f"The Spark server at {connect} has other values for {', '.join(fixed)} than the pipeline file.",
            why="These settings can be set only when a server starts.",
            data=_NOTHING,
            next="Set them where the server is started, or remove them from 'spark.conf' of the pipeline file.",
        )
    usual = {**session_conf(), **store_conf(os.environ)}
    found = {name: value for name, value in usual.items() if session.conf.get(name, None) is None}
    # A number that stays: executors come and go, and the same statement is to have the same tasks.
    found |= {} if session.conf.get(FILE_PARTITIONS, None) else {FILE_PARTITIONS: session.conf.get("spark.sql.shuffle.partitions") or "200"}
    found |= {name: value for name, value in chosen.items() if _can_set(session, name)}
    found |= {name: value for name, value in needed_conf().items() if name != EXTENSIONS}
    theirs = session.conf.get(_STRING_REDACTION, None) or session.conf.get("spark.redaction.string.regex", None)
    found[_STRING_REDACTION] = HIDDEN_OPTIONS if theirs in (None, HIDDEN_OPTIONS) else f"(?:{theirs})|{HIDDEN_OPTIONS}"
    return {name.removeprefix(_HADOOP): value for name, value in found.items()}  # a session takes them without


def _can_set(session: "SparkSession", name: str) -> bool:
    return name.startswith(_HADOOP) or session.conf.isModifiable(name)


def _check_extension(connect: str, session: "SparkSession") -> None:
    extensions = session.conf.get(EXTENSIONS, None) or ""
    if EXTENSION not in extensions.replace(" ", "").split(","):
        raise EnvironmentSetupError(
            f"The Spark server at {connect} does not have the extension of Delta.",
            why=f"{EXTENSIONS} is {extensions!r} there, and can be set only when a server starts.",
            data=_NOTHING,
            next=f"Start it with {EXTENSIONS}={EXTENSION}.",
        )


def _drop_old_views(session: "SparkSession") -> None:
    """Drops the views that killed clients left: they would hold their plans, with the options of readers, as long as the server lives."""
    limit = f"{_VIEW}{datetime.now(UTC) - _OLD_VIEW:%Y%m%d%H%M%S}"
    for row in session.sql(f"SHOW VIEWS IN global_temp LIKE '{_VIEW}*'").collect():
        if row["viewName"] < limit:
            session.catalog.dropGlobalTempView(row["viewName"])


def _end(session: "SparkSession") -> None:
    ended: Any = session
    with suppress(Exception):  # a server that is gone has ended it
        ended.client.set_retry_policies([])
        ended.stop()
