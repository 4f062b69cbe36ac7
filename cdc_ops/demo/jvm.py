"""Options with which the demo's Spark JVMs start quickly; outside the data path. They do not change what the JVMs do.

A batch of a few hundred rows ends before the optimizing compiler pays off, and loading thousands of classes is a third of the rest. The
first demo writes an archive of the loaded classes (class data sharing), which later demos map into memory. A JVM of another version or with
other classes ignores the archive.
"""

from importlib.metadata import version
from pathlib import Path
from typing import Final

from cdc_ops.demo.layout import Layout

_ALWAYS: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xms1g -Xmn512m -XX:MetaspaceSize=256m"
"""The heap starts at its full size: growing it takes some forty collections, one second of fifteen."""


def archive(layout: Layout) -> Path:
    """Returns the path of the archive of classes; the file may not exist yet."""
    return layout.cache / f"spark-{version('pyspark')}.jsa"


def options(layout: Layout) -> str:
    """Returns the value of SPARK_SUBMIT_OPTS for all JVMs of the demo."""
    path = archive(layout)
    # -Xlog: otherwise the JVM prints a line for each class that differs from the archive
    return f"{_ALWAYS} -XX:SharedArchiveFile={path} -Xlog:cds=off -Xlog:cds+dynamic=off" if path.exists() else _ALWAYS


def archiving_options(path: Path) -> str:
    """Returns the value of SPARK_SUBMIT_OPTS for the one JVM that writes the archive at its end."""
    return f"{_ALWAYS} -XX:ArchiveClassesAtExit={path} -Xlog:cds=off -Xlog:cds+dynamic=off"
