"""Java of the project's own in Spark's driver: for steps that from Python are a message to the JVM each, which costs more than the work."""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources.abc import Traversable
from threading import Lock
from typing import Any, Final

_VERSION: Final = 8
"""Of Java, the latest that the compiler knows."""
_ONE_AT_A_TIME: Final = Lock()
_CLASSES: Final[dict[tuple[Any, str], Any]] = {}
"""By JVM and name of the class. One name must not become two classes of a JVM: what py4j knows of methods it keeps by the name."""


def new_instance(jvm: Any, source: Traversable, beside: Any) -> Any:
    """Returns a new instance of a class, which is compiled once for each JVM.

    The compiler is Janino, by which Spark compiles the code of its queries: it needs no JDK, and knows no generics.

    Args:
        jvm: The session's.
        source: The class's file, as `DeletedRows.java`, without a package.
        beside: An object of the JVM, whose class loader knows all classes that the file names.
    """
    name = source.name.removesuffix(".java")
    with _ONE_AT_A_TIME:
        if (jvm, name) not in _CLASSES:
            compiler = jvm.org.codehaus.janino.SimpleCompiler()
            compiler.setParentClassLoader(beside.getClass().getClassLoader())
            compiler.setSourceVersion(_VERSION)
            compiler.setTargetVersion(_VERSION)
            compiler.cook(source.read_text(encoding="utf-8"))
            _CLASSES[jvm, name] = compiler.getClassLoader().loadClass(name)
        return _CLASSES[jvm, name].newInstance()


def scala_object(package: Any, name: str) -> Any:
    """Returns one of Scala's singletons, as `None$`."""
    return getattr(getattr(package, name), "MODULE$")


def converters(jvm: Any) -> Any:
    """Returns what makes collections of Java ones of Scala, and the other way round."""
    return jvm.scala.jdk.javaapi.CollectionConverters


@contextmanager
def active_session(session: Any) -> Iterator[None]:
    """Makes a session the active one of its JVM's thread: the one whose settings Delta's classes look at."""
    sessions = session._jvm.org.apache.spark.sql.classic.SparkSession
    before = sessions.getActiveSession()
    sessions.setActiveSession(session._jsparkSession)
    try:
        yield
    finally:
        sessions.setActiveSession(before.get()) if before.isDefined() else sessions.clearActiveSession()
