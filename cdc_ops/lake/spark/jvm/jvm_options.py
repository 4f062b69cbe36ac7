"""The options of a driver's JVM, by the size of its work. Spark-free: the command line sets them, and so does the Airflow operator.

Most of a small job is a JVM that starts: classes are loaded, and methods compiled that run a few times. Such a job gets the first compiler
only, the collector without threads of its own, and the classes from an archive (`lake.spark.jvm.class_archive`). A large job gets both
compilers.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

SETTING: Final = "spark.driver.defaultJavaOptions"
_DRIVER_OPTIONS: Final = (SETTING, "spark.driver.extraJavaOptions")
_JVM_VARIABLES: Final = ("SPARK_SUBMIT_OPTS", "JDK_JAVA_OPTIONS", "JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS")
_COLLECTOR: Final = re.compile(r"-XX:\+Use\w+GC\b")
_COMPILER: Final = re.compile(r"-XX:(TieredStopAtLevel|[+-]TieredCompilation)\b|-Xint\b|-Xcomp\b")
_ARCHIVE: Final = re.compile(r"-XX:(SharedArchiveFile|ArchiveClassesAtExit|[+-]AutoCreateSharedArchive|SharedClassListFile)\b|-Xshare:")
_DEFAULTS: Final = re.compile(rf"^\s*{re.escape(SETTING)}\b", re.MULTILINE)
_LINE: Final = re.compile(r"^[ \t]*(spark\.[^\s=:]+)(?:[ \t]*[=:][ \t]*|[ \t]+)(.*?)[ \t]*$", re.MULTILINE)

CODE_CACHE: Final = "-XX:ReservedCodeCacheSize=240m"
"""The first compiler alone would get room for 48 MB of code; Spark and Delta come to more than that."""


def driver_conf(conf: Mapping[str, str], environ: Mapping[str, str], *, small: bool, archive: str = "") -> dict[str, str]:
    """Returns the setting with the options of a driver's JVM; empty if somebody has chosen that setting.

    What somebody has chosen stays, wherever it can be seen: in the pipeline's settings, in the variables that a JVM reads, in Spark's
    `spark-defaults.conf`. Two collectors on one command line would keep the JVM from starting.

    Args:
        conf: The pipeline's settings.
        environ: Environment variables of the JVM.
        small: Whether the work is small.
        archive: Options for the archive of classes, "" = there is none.
    """
    defaults = spark_defaults(environ)
    if SETTING in conf or _DEFAULTS.search(defaults):
        return {}
    chosen = "\n".join((*(conf.get(name, "") for name in _DRIVER_OPTIONS), *(environ.get(name, "") for name in _JVM_VARIABLES), defaults))
    collector = "-XX:+UseSerialGC" if small else "-XX:+UseParallelGC"
    options = (
        "" if _COLLECTOR.search(chosen) else collector,
        "-XX:TieredStopAtLevel=1" if small and not _COMPILER.search(chosen) else "",
        CODE_CACHE if small and "ReservedCodeCacheSize" not in chosen else "",
        "" if _ARCHIVE.search(chosen) else archive,
    )
    text = " ".join(filter(None, options))
    return {SETTING: text} if text else {}


def spark_defaults(environ: Mapping[str, str]) -> str:
    """Returns the text of the `spark-defaults.conf` that Spark would read, "" if there is none."""
    home = environ.get("SPARK_CONF_DIR") or (f"{folder}/conf" if (folder := environ.get("SPARK_HOME")) else "")
    file = Path(home, "spark-defaults.conf") if home else None
    return file.read_text("utf-8", "replace") if file is not None and file.is_file() else ""


def default_settings(environ: Mapping[str, str]) -> dict[str, str]:
    """Returns the settings in the `spark-defaults.conf` that Spark would read: a name, then blanks, `=` or `:`, then the value."""
    return {match[1]: match[2] for match in _LINE.finditer(spark_defaults(environ))}
