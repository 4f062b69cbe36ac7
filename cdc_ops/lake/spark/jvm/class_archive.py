"""The archive of classes: what a JVM has loaded and checked once, the next ones map into memory (class data sharing). Spark-free.

    <folder>/classes-<key>.<size>.jsa       the archive; its key stands for Java, Spark and the jars, its size is that in bytes
    <folder>/classes-<key>.<random>.part    while a JVM writes one, at its end
    <folder>/classes-<key>.seen             one job has run here that an archive would have helped
    <folder>/classes-<key>.failed           a JVM was to write one and did not; it is not tried again

An archive only makes a JVM start faster. A JVM checks its own version and each jar's size and time against it, and goes on without it if
one differs. That the file is as long as it was written is checked here: of one that was cut off a JVM dies (SIGBUS, Java 17).

Writing one takes some seconds at the end of a job. So it is not written by the first job on a machine but by the second: a container that
ends with its job never pays.
"""

import hashlib
import importlib.util
import os
import shutil
import time
import uuid
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cdc_ops.decode.private_folder import private_folder

KEPT: Final = 3
"""Archives that stay in the folder, 200 MB each: those of other versions of Spark or of the jars."""

LIMIT: Final = 500 << 20
"""Bytes of an archive; a larger one is not kept."""

_ABANDONED: Final = 3600.0
"""Seconds after which a file that a JVM was writing belongs to nobody."""

_QUIET: Final = "-Xshare:auto -Xlog:cds=off -Xlog:cds+dynamic=off -Xlog:class+path=off"
"""Otherwise the JVM prints lines about an archive that does not fit, some of them to standard output."""

_UNSAFE: Final = frozenset(" \t\n\"'\\,")
"""Signs that a path of a JVM option in Spark's settings cannot have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveUse:
    """What one JVM does with the archive.

    Args:
        options: Of the JVM, "" for nothing.
        writes: The file that it writes at its end, None if it writes none.
        path: What the archive's name begins with.
    """

    options: str = ""
    writes: Path | None = None
    path: Path | None = None

    def keep(self, *, ended_well: bool) -> None:
        """Puts a file that the JVM has written in its place; called when the JVM has ended.

        Args:
            ended_well: Whether it ended by itself; if not, a later one may write the file.
        """
        if self.writes is None or self.path is None:
            return
        with suppress(OSError):
            if ended_well and self.writes.is_file() and 0 < (size := self.writes.stat().st_size) <= LIMIT:
                with self.writes.open("rb") as file:
                    os.fsync(file.fileno())
                self.writes.replace(self.path.with_suffix(f".{size}.jsa"))
                _remove_old(self.path.parent)
                return
            self.writes.unlink(missing_ok=True)
            if ended_well:
                self.path.with_suffix(".failed").touch()


NOTHING: Final = ArchiveUse()


def archive_use(folder: Path | None, jars: Iterable[str], environ: Mapping[str, str], *, writes: bool) -> ArchiveUse:
    """Returns what a JVM that is about to start does with the archive: reads it, writes it, or nothing.

    Args:
        folder: Where archives are; None = nowhere.
        jars: Paths of the jars beside Spark's own.
        environ: Environment variables of the JVM.
        writes: Whether this JVM may write one: its job is small, as those that will read it, and does all that they do.
    """
    if folder is None:
        return NOTHING
    key = _key(jars, environ)
    if not key:
        return NOTHING
    private = private_folder(folder.absolute(), make=writes)  # a JVM executes what is in an archive
    if private is None or _UNSAFE & set(str(private)):
        return NOTHING
    path = private / f"classes-{key}"
    try:
        if found := _complete(path):
            return ArchiveUse(options=f"-XX:SharedArchiveFile={found} {_QUIET}")
        return _writing(path) if writes else NOTHING
    except OSError:  # the folder is not there, or cannot be read or written: the job goes on without an archive
        return NOTHING


def _complete(path: Path) -> Path | None:
    """Returns the archive, None if there is none; one that is not as long as it was written is removed."""
    for file in path.parent.glob(f"{path.name}.*.jsa"):
        if file.name == f"{path.name}.{file.stat().st_size}.jsa":
            return file
        file.unlink(missing_ok=True)
    return None


def _writing(path: Path) -> ArchiveUse:
    if path.with_suffix(".failed").exists() or _is_written(path):
        return NOTHING
    seen = path.with_suffix(".seen")
    if not seen.exists():
        seen.touch()
        return NOTHING
    part = path.with_name(f"{path.name}.{uuid.uuid4().hex[:8]}.part")
    part.touch()  # the JVM replaces it; until then it says that one is at work
    return ArchiveUse(options=f"-XX:ArchiveClassesAtExit={part} {_QUIET}", writes=part, path=path)


def _is_written(path: Path) -> bool:
    """True if another JVM is about to write the archive; what was abandoned is removed."""
    now, busy = time.time(), False
    for part in path.parent.glob("classes-*.part"):
        if now - part.stat().st_mtime > _ABANDONED:
            part.unlink(missing_ok=True)
        elif part.name.startswith(f"{path.name}."):
            busy = True
    return busy


def _key(jars: Iterable[str], environ: Mapping[str, str]) -> str:
    """Returns what stands for all that an archive depends on, "" if it cannot be told."""
    home = environ.get("JAVA_HOME")
    java = shutil.which("java", path=f"{home}/bin") if home else shutil.which("java", path=environ.get("PATH"))
    spark = environ.get("SPARK_HOME") or _folder_of_pyspark()
    if java is None or not spark:
        return ""
    program = Path(os.path.realpath(java))
    try:
        files = [program, *sorted(Path(spark, "jars").glob("*.jar")), *map(Path, sorted(filter(None, jars)))]
        facts = [f"{file}\0{file.stat().st_size}\0{file.stat().st_mtime_ns}" for file in files]
        release = program.parent.parent / "release"
        facts.append(release.read_text("utf-8", "replace") if release.is_file() else "")
    except OSError:
        return ""
    return hashlib.sha256("\n".join(facts).encode()).hexdigest()[:16]


def _folder_of_pyspark() -> str:
    """Returns the folder of the Spark that comes with PySpark, without importing it; "" if there is none."""
    spec = importlib.util.find_spec("pyspark")
    return next(iter(spec.submodule_search_locations or ()), "") if spec else ""


def _remove_old(folder: Path) -> None:
    archives = sorted(folder.glob("classes-*.jsa"), key=lambda file: file.stat().st_mtime, reverse=True)
    for file in archives[KEPT:]:
        file.unlink(missing_ok=True)
        file.with_name(f"{file.name.partition('.')[0]}.seen").unlink(missing_ok=True)
