"""The jars that Spark needs for Delta, the sources and S3; outside the data path, run once at set-up.

The sets are minimal and not transitive: Delta's own dependencies repeat what Spark already bundles, in older versions. Jars are
brought into a folder once and given to every session as `spark.jars`: resolving them at each start costs seconds and a network.

Run it as `python -m cdc_ops.lake.spark.jars FOLDER [ORGANISATION:NAME:REVISION ...]`.
"""

import fcntl
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from cdc_ops.errors import EnvironmentSetupError


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Coordinate:
    """One jar, named the way Maven names it."""

    organisation: str
    name: str
    revision: str

    @classmethod
    def parse(cls, text: str) -> "Coordinate":
        """Reads `organisation:name:revision`.

        Raises:
            EnvironmentSetupError: If the text does not have these three parts.
        """
        parts = text.strip().split(":")
        if len(parts) != 3 or not all(re.fullmatch(r"[\w.\-]+", part) for part in parts):
            raise EnvironmentSetupError(
                f"{text!r} is not a name of a jar",
                why="a jar is named organisation:name:revision",
                data="nothing was fetched",
                next="write for example org.postgresql:postgresql:42.7.14",
            )
        return cls(organisation=parts[0], name=parts[1], revision=parts[2])

    @property
    def file_name(self) -> str:
        """The jar's name in the folder."""
        return f"{self.name}-{self.revision}.jar"

    def __str__(self) -> str:
        return f"{self.organisation}:{self.name}:{self.revision}"


DELTA = tuple(
    Coordinate.parse(text)
    for text in (
        "io.delta:delta-spark_4.2_2.13:4.4.0",
        "io.delta:delta-storage:4.4.0",
        "io.delta:delta-kernel-api:4.4.0",
        "io.delta:delta-kernel-defaults:4.4.0",
        "io.delta:delta-kernel-unitycatalog:4.4.0",
        "io.unitycatalog:unitycatalog-client:0.6.0",
    )
)
"""Enough for MERGE, OPTIMIZE, REORG, VACUUM, clustering and history."""

JDBC = tuple(
    Coordinate.parse(text)
    for text in (
        "org.mariadb.jdbc:mariadb-java-client:3.5.3",  # streams; also reads MySQL, about twice as fast as MySQL's own driver
        "com.mysql:mysql-connector-j:9.3.0",
        "org.postgresql:postgresql:42.7.14",
    )
)
"""One driver a kind of source."""

_SDK = (
    "annotations", "apache-client", "arns", "auth", "aws-core", "aws-query-protocol", "aws-xml-protocol", "checksums", "checksums-spi",
    "crt-core", "endpoints-spi", "http-auth", "http-auth-aws", "http-auth-aws-eventstream", "http-auth-spi", "http-client-spi",
    "identity-spi", "json-utils", "metrics-spi", "netty-nio-client", "profiles", "protocol-core", "regions", "retries", "retries-spi",
    "s3", "s3-transfer-manager", "sdk-core", "sts", "third-party-jackson-core", "utils", "utils-lite",
)  # fmt: skip

S3A = tuple(
    Coordinate.parse(text)
    for text in (
        "org.apache.hadoop:hadoop-aws:3.5.0",  # the revision of the Hadoop that Spark bundles
        "software.amazon.s3.analyticsaccelerator:analyticsaccelerator-s3:1.3.1",
        "software.amazon.eventstream:eventstream:1.0.1",
        "org.reactivestreams:reactive-streams:1.0.4",
        *(f"software.amazon.awssdk:{name}:2.35.4" for name in _SDK),
    )
)
"""What `s3a://` needs: 13 MB, where the SDK's bundle, which hadoop-aws asks for, has 600. Its netty, httpclient and slf4j are Spark's."""

DEFAULT = DELTA + JDBC + S3A

RESOLVED = DELTA + JDBC
"""What Spark resolves by coordinates where there is no folder: it would follow hadoop-aws to the bundle."""

NOT_TRANSITIVE = (
    "org.apache.hadoop:*", "com.fasterxml.jackson.core:*", "com.fasterxml.jackson.datatype:*", "com.fasterxml.jackson.module:*",
    "org.apache.parquet:*", "org.apache.logging.log4j:*", "com.github.luben:*", "org.slf4j:*", "org.apache.spark:spark-tags_2.13",
    "org.tukaani:*", "org.scala-lang:*",
)  # fmt: skip
"""What Delta depends on and Spark bundles in newer versions; two of each would break class loading."""

MEGABYTES_PER_DOT = 16 / 1024
"""Ivy prints one dot for each buffer of 16 KiB that it copied."""


def fetch(folder: Path, coordinates: Iterable[Coordinate] = DEFAULT) -> list[Path]:
    """Brings the jars into the folder; what is there already is not fetched again.

    Each file appears under its name only when it is complete. Other revisions of the same jars are removed, so that the
    folder can be given to Spark as a whole.

    Args:
        folder: Where the jars belong; created if it is missing.
        coordinates: Which jars; each is taken alone, without what it depends on.

    Returns:
        The jars' paths, in the order of the coordinates.

    Raises:
        EnvironmentSetupError: If there is no Java, no network, or no such jar.
    """
    wanted = list(coordinates)
    folder.mkdir(parents=True, exist_ok=True)
    with _locked(folder):
        missing = [one for one in wanted if not (folder / one.file_name).is_file()]
        if missing:
            _say(f"fetching {len(missing)} of {len(wanted)} jars into {folder} ...")
            _retrieve(folder, missing)
        for one in wanted:
            _remove_other_revisions(folder, one)
    return [folder / one.file_name for one in wanted]


def is_unfilled(folder: Path) -> bool:
    """True for a folder that is not there yet, or is empty: nobody has fetched jars into it, and nothing else is kept in it."""
    try:
        return not folder.exists() or (folder.is_dir() and not any(folder.iterdir()))
    except OSError:
        return False


def jar_list(folder: Path) -> str:
    """Names the folder's jars the way Spark's setting `spark.jars` wants them: absolute, comma separated, in a stable order.

    Raises:
        EnvironmentSetupError: If the folder holds no jar.
    """
    jars = sorted(path.resolve() for path in folder.glob("*.jar"))
    if not jars:
        raise EnvironmentSetupError(
            f"the folder {folder} has no jars",
            why="they were never fetched, or they are in another folder",
            data="nothing was read or written",
            next=f"python -m cdc_ops.lake.spark.jars {folder}",
        )
    return ",".join(str(path) for path in jars)


def java() -> str:
    """Finds the Java that Spark would use: JAVA_HOME first, then PATH.

    Raises:
        EnvironmentSetupError: If there is none.
    """
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=f"{home}/bin") if home else None
    found = found or shutil.which("java")
    if not found:
        raise EnvironmentSetupError(
            "Java is missing",
            why="neither JAVA_HOME nor PATH leads to a java command; Spark 4 needs version 17 or 21",
            data="nothing was read or written",
            next="apt-get install -y openjdk-17-jre-headless",
        )
    return found


def _retrieve(folder: Path, missing: Sequence[Coordinate]) -> None:
    incoming = folder / ".incoming"
    arrived = incoming / "jars"
    incoming.mkdir(exist_ok=True)
    (incoming / "ivy.xml").write_text(ivy_file(missing), encoding="utf-8")
    settings = os.environ.get("CDC_OPS_IVY_SETTINGS")  # a company's own mirror, in Ivy's file format
    command = [
        *(java(), "-jar", str(bundled("ivy", "fetches the other jars"))),
        *(("-settings", settings) if settings else ()),
        *("-ivy", str(incoming / "ivy.xml"), "-novalidate", "-cache", str(incoming / "cache")),
        *("-confs", "default", "-types", "jar", "bundle"),
        *("-retrieve", f"{arrived}/[artifact]-[revision].[ext]"),
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as ivy:
        assert ivy.stdout is not None
        said = list(_watch(ivy.stdout))
    absent = [one for one in missing if not (arrived / one.file_name).is_file()]
    if ivy.returncode or absent:
        raise _fetch_error(folder, absent or missing, said)
    for one in missing:
        os.replace(arrived / one.file_name, folder / one.file_name)
    shutil.rmtree(incoming)


def ivy_file(coordinates: Iterable[Coordinate]) -> str:
    """Writes the Ivy module file that asks for exactly these jars and nothing that they depend on."""
    mapping = 'conf="default->default"'
    lines = (
        f'    <dependency org="{one.organisation}" name="{one.name}" rev="{one.revision}" transitive="false" {mapping}/>'
        for one in coordinates
    )
    return "\n".join(
        (
            '<ivy-module version="2.0">',
            '  <info organisation="cdc-ops" module="jars"/>',
            '  <configurations><conf name="default"/></configurations>',
            "  <dependencies>",
            *lines,
            "  </dependencies>",
            "</ivy-module>",
        )
    )


def bundled(name: str, use: str) -> Path:
    """Returns a jar that comes with PySpark.

    Args:
        name: Its name, without its revision.
        use: What it does, for the message.

    Raises:
        EnvironmentSetupError: it is not there.
    """
    spec = importlib.util.find_spec("pyspark")  # finds the folder without importing Spark
    for place in (spec.submodule_search_locations or ()) if spec else ():
        for found in sorted(Path(place, "jars").glob(f"{name}-*.jar")):
            return found
    raise EnvironmentSetupError(
        f"the {name} jar is missing, which {use}",
        why="it ships inside the pyspark package, and that is not installed here (pyspark-client alone has no jars)",
        data="nothing was fetched or started",
        next="pip install pyspark",
    )


def _watch(stream: IO[bytes]) -> Iterator[str]:
    """Yields Ivy's lines, and tells meanwhile which jar has come and how far a large one is."""
    line, told = b"", 0
    while chunk := os.read(stream.fileno(), 4096):
        *complete, line = (line + chunk).split(b"\n")
        for text in (part.decode(errors="replace").strip() for part in complete):
            told = 0
            if done := re.match(r"\[SUCCESSFUL ] \S+!(\S+)", text):
                _say(f"  {done[1]}")
            yield text
        megabytes = int(line.count(b".") * MEGABYTES_PER_DOT)
        if megabytes >= told + 20:
            told = megabytes
            _say(f"  ... {megabytes} MB")
    yield line.decode(errors="replace").strip()


def _fetch_error(folder: Path, absent: Sequence[Coordinate], said: Iterable[str]) -> EnvironmentSetupError:
    text = "\n".join(said)
    offline = re.search(
        r"UnknownHost|Host \S+ not found|ConnectException|Connection (refused|reset|timed out)|SSLHandshake|timed out", text
    )
    if offline:
        why = "the Maven repository does not answer: this machine has no network, or only through a proxy"
        advice = "set JAVA_TOOL_OPTIONS to your proxy (-Dhttps.proxyHost=... -Dhttps.proxyPort=...) or CDC_OPS_IVY_SETTINGS to an Ivy"
        advice += f" settings file with your own mirror; then python -m cdc_ops.lake.spark.jars {folder}"
    else:
        reasons = [re.sub(r"https?://\S+", "(address)", line) for line in text.splitlines() if "not found" in line or "rror" in line]
        why = "; ".join(reasons[-3:]) or "Ivy ended without them and without a reason"
        advice = f"check the name and revision, then python -m cdc_ops.lake.spark.jars {folder}"
    names = ", ".join(str(one) for one in absent)
    return EnvironmentSetupError(f"cannot fetch {names}", why=why, data="no incomplete file remains", next=advice)


def _remove_other_revisions(folder: Path, coordinate: Coordinate) -> None:
    for path in folder.glob(f"{coordinate.name}-[0-9]*.jar"):
        if path.name != coordinate.file_name and re.fullmatch(r"\d[\w.]*", path.stem.removeprefix(f"{coordinate.name}-")):
            path.unlink()


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Keeps a second process that fetches into the same folder waiting."""
    with (folder / ".lock").open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main(arguments: Sequence[str]) -> int:
    """Fetches into the folder given as the first argument; further arguments replace the default set."""
    if not arguments or arguments[0].startswith("-"):
        _say("usage: python -m cdc_ops.lake.spark.jars FOLDER [ORGANISATION:NAME:REVISION ...]")
        return 2
    try:
        jars = fetch(Path(arguments[0]), [Coordinate.parse(text) for text in arguments[1:]] or DEFAULT)
    except EnvironmentSetupError as error:
        _say(str(error))
        return 1
    _say(f"{len(jars)} jars are in {arguments[0]}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
