"""How the demo's Spark JVMs start quickly; outside the data path. Nothing of what they do is changed.

A batch of a few hundred rows is over before the optimizing compiler pays off, and loading thousands of classes is a third of the rest. The
first demo leaves an archive of the loaded classes (a feature of the JVM, class data sharing), which the later ones map into memory.
A JVM that an archive does not fit ignores it.
"""

from importlib.metadata import version
from pathlib import Path
from typing import Final

from cdc_ops.demo.layout import Layout

_ALWAYS: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xms1g -Xmn512m -XX:MetaspaceSize=256m"
"""Room from the start: growing to the size that a Spark application needs takes some forty collections, a second of fifteen."""


def archive(layout: Layout) -> Path:
    """Returns where the archive of classes is, or will be."""
    return layout.cache / f"spark-{version('pyspark')}.jsa"


def options(layout: Layout) -> str:
    """Returns the value of SPARK_SUBMIT_OPTS for all JVMs of the demo."""
    path = archive(layout)
    # -Xlog: it would write lines of its own about each class that it does not find as archived.
    return f"{_ALWAYS} -XX:SharedArchiveFile={path} -Xlog:cds=off -Xlog:cds+dynamic=off" if path.exists() else _ALWAYS


def archiving_options(path: Path) -> str:
    """Returns the value of SPARK_SUBMIT_OPTS for the one JVM that writes the archive when it ends."""
    return f"{_ALWAYS} -XX:ArchiveClassesAtExit={path} -Xlog:cds=off -Xlog:cds+dynamic=off"
