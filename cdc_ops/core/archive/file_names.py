"""Parses names of archived files: topic, partition and start offset, a binlog's number, a load file's counter. Pure.

    name (text) -> parse_name -> KafkaName | BinlogName | DmsName | PlainName | IgnoredFile | UnrecognizedFile

Numbers are numbers: `mysql-bin.1000000` follows `mysql-bin.999999`, which the order of strings denies. A name that the layout does not
know is a `UnrecognizedFile`, and is reported: it may hold changes. Only what a tool is known to put beside its data is an `IgnoredFile`.

Sources: Confluent's S3 sink (and the sinks for OSS and GCS that share its partitioners) <topic>+<partition>+<start offset>; Aiven's sinks
and their `file.name.template`; AWS DMS user guide, Amazon S3 as a target; MySQL and MariaDB, `log_bin`.
"""

import enum
import re
from dataclasses import dataclass
from typing import Final

from cdc_ops.errors import ConfigError


class Layout(enum.StrEnum):
    """The naming scheme of the files."""

    KAFKA_CONNECT = "kafka-connect"
    """`<topic>/partition=<n>/<topic>+<n>+<start offset>.<ext>`, or other folders of Confluent's partitioners (time, fields)."""
    AIVEN = "aiven"
    """By the sink's `file.name.template`."""
    AWS_DMS = "aws-dms"
    """`<schema>/<table>/LOAD00000001.csv` and `<schema>/<table>/[yyyy/mm/dd/]20141029-1134010000.csv`."""
    BINLOG = "binlog"
    """`<host>/mysql-bin.000123[.gz]`."""
    PLAIN = "plain"
    """Any names; the contents of a file are known only after reading it."""


class Compression(enum.StrEnum):
    """The compression of a whole file, by its suffix; formats handle compression inside a file."""

    NONE = "none"
    GZIP = "gzip"
    ZSTD = "zstd"
    XZ = "xz"
    BZIP2 = "bzip2"
    LZ4 = "lz4"
    SNAPPY = "snappy"


_SUFFIXES: Final = {
    "gz": Compression.GZIP,
    "gzip": Compression.GZIP,
    "zst": Compression.ZSTD,
    "zstd": Compression.ZSTD,
    "xz": Compression.XZ,
    "bz2": Compression.BZIP2,
    "lz4": Compression.LZ4,
    "snappy": Compression.SNAPPY,
    "sz": Compression.SNAPPY,
}

AIVEN_TEMPLATE: Final = "{{topic}}-{{partition}}-{{start_offset}}"
"""What Aiven's sinks use unless they are told otherwise; it pads no number, so its names do not sort by position."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaName:
    """A file of a sink that writes what it read from one partition of a topic.

    Args:
        path: Relative to the archive's root.
        topic, partition, start_offset: Of its first record.
        digits: Digits of the offset as written: names sort by position only among those that have equally many.
        folders: `name=value` folders on the way, of time and field partitioners; `partition=<n>` is not among them.
        extension: Without the compression's suffix, e.g. `json`, `snappy.parquet`, "" where there is none.
        compression: Of the whole file.
    """

    path: str
    topic: str
    partition: int
    start_offset: int
    digits: int
    folders: tuple[tuple[str, str], ...] = ()
    extension: str = ""
    compression: Compression = Compression.NONE

    @property
    def stream(self) -> str:
        """The sequence that its offsets belong to."""
        return f"{self.topic}/{self.partition}"


@dataclass(frozen=True, slots=True, kw_only=True)
class BinlogName:
    """A binlog file.

    Args:
        path: Relative to the archive's root.
        host: Its folder: binlogs of two servers share names but no positions.
        base: e.g. `mysql-bin`.
        number: e.g. 123 of `.000123`.
        digits: Digits as written.
        compression: Of the whole file.
    """

    path: str
    host: str
    base: str
    number: int
    digits: int
    compression: Compression = Compression.NONE

    @property
    def stream(self) -> str:
        """The sequence that its number belongs to."""
        return f"{self.host}/{self.base}" if self.host else self.base


@dataclass(frozen=True, slots=True, kw_only=True)
class DmsName:
    """A file of AWS DMS. Its order says what comes first; nothing in it says that no file is missing in between.

    Args:
        path: Relative to the archive's root.
        schema, table: Of the source, None in a folder for whole transactions (`CdcPath`).
        is_load: From the full load, not from CDC.
        order: The counter of a load file; date, time of day and fraction of a second of a CDC file.
        extension: Without the compression's suffix.
        compression: Of the whole file.
    """

    path: str
    schema: str | None
    table: str | None
    is_load: bool
    order: tuple[int, ...]
    extension: str = ""
    compression: Compression = Compression.NONE

    @property
    def place(self) -> tuple[int, ...]:
        """Its place among the files of its table: the full load comes before the changes."""
        return (0 if self.is_load else 1, *self.order)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainName:
    """A file whose name has no meaning."""

    path: str
    extension: str = ""
    compression: Compression = Compression.NONE


@dataclass(frozen=True, slots=True, kw_only=True)
class IgnoredFile:
    """A file that a tool puts beside its data and that holds no changes; `why` names it."""

    path: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UnrecognizedFile:
    """A file that the layout does not know; `why` says what is wrong with its name."""

    path: str
    why: str


FileName = KafkaName | BinlogName | DmsName | PlainName
Parsed = FileName | IgnoredFile | UnrecognizedFile

_KAFKA = re.compile(r"(?P<topic>[A-Za-z0-9._-]+)\+(?P<partition>\d+)\+(?P<offset>\d+)(?:\.(?P<rest>.+))?")
_BINLOG = re.compile(r"(?P<base>.+)\.(?P<number>\d{6,})(?:\.(?P<suffix>\w+))?")
_DMS_LOAD = re.compile(r"LOAD(?P<counter>[0-9A-Fa-f]{5,})(?:\.(?P<rest>.+))?")
_DMS_CDC = re.compile(r"(?P<date>\d{8})-(?P<time>\d{6})(?P<fraction>\d{0,9})(?:\.(?P<rest>.+))?")
_ASIDE = re.compile(r"^(?:_.*|\..*|.*\.(?:crc|md5|sha256|tmp|dfm))$")
_TOKEN = re.compile(r"\{\{\s*(?P<name>\w+)(?::(?P<option>[^}]*))?\s*\}\}")
_TOKENS: Final = {
    "topic": r"(?P<topic>[A-Za-z0-9._-]+?)",
    "partition": r"(?P<partition>\d+)",
    "start_offset": r"(?P<offset>\d+)",
    "timestamp": r"\d+",
}


def parse_name(layout: Layout, path: str, template: str = AIVEN_TEMPLATE) -> Parsed:
    """Returns the parsed name of a file.

    Args:
        layout: Who named it.
        path: Relative to the archive's root, with `/`.
        template: The sink's `file.name.template`, for Aiven's.

    Raises:
        ConfigError: the template does not name topic, partition and offset.
    """
    file = path.rpartition("/")[2]
    if _ASIDE.match(file):
        return IgnoredFile(path=path, why="a marker, checksum, hidden or unfinished file")
    match layout:
        case Layout.KAFKA_CONNECT:
            return _parse_kafka_connect(path, file)
        case Layout.AIVEN:
            return _parse_aiven(path, template)
        case Layout.AWS_DMS:
            return _parse_dms(path, file)
        case Layout.BINLOG:
            return _parse_binlog(path, file)
        case Layout.PLAIN:
            extension, compression = split_extension(file.partition(".")[2])
            return PlainName(path=path, extension=extension, compression=compression)


def split_extension(extension: str) -> tuple[str, Compression]:
    """Returns an extension without the suffix of the compression around the whole file, and that compression.

    `snappy.parquet` is Parquet, which compresses inside; `json.gz` is a compressed file.
    """
    rest, _, last = extension.rpartition(".")
    compression = _SUFFIXES.get(last.lower())
    return (rest, compression) if compression else (extension, Compression.NONE)


def _parse_kafka_connect(path: str, file: str) -> KafkaName | IgnoredFile | UnrecognizedFile:
    found = _KAFKA.fullmatch(file)
    if not found:
        return UnrecognizedFile(path=path, why="its name is not <topic>+<partition>+<start offset>.<extension>")
    extension, compression = split_extension(found["rest"] or "")
    if extension.partition(".")[0] in ("keys", "headers"):
        return IgnoredFile(path=path, why="keys or headers of another file")
    folders = tuple((name, value) for name, is_pair, value in (part.partition("=") for part in path.split("/")[:-1]) if is_pair)
    partition = int(found["partition"])
    if any(name == "partition" and value.isdecimal() and int(value) != partition for name, value in folders):
        return UnrecognizedFile(path=path, why=f"its name has partition {partition}, and its folder has another")
    return KafkaName(
        path=path,
        topic=found["topic"],
        partition=partition,
        start_offset=int(found["offset"]),
        digits=len(found["offset"]),
        folders=tuple(pair for pair in folders if pair[0] != "partition"),
        extension=extension,
        compression=compression,
    )


def _parse_aiven(path: str, template: str) -> KafkaName | UnrecognizedFile:
    depth = template.count("/")
    tail = "/".join(path.split("/")[-depth - 1 :])
    found = _template_pattern(template).fullmatch(tail)
    if not found:
        return UnrecognizedFile(path=path, why=f"its name does not fit the template {template}")
    extension, compression = split_extension(found["rest"] or "")
    return KafkaName(
        path=path,
        topic=found["topic"],
        partition=int(found["partition"]),
        start_offset=int(found["offset"]),
        digits=len(found["offset"]) if "padding=true" in template else 0,
        extension=extension,
        compression=compression,
    )


def _template_pattern(template: str) -> re.Pattern[str]:
    seen: set[str] = set()
    parts, at = [], 0
    for token in _TOKEN.finditer(template):
        name = token["name"]
        if name not in _TOKENS:
            raise _bad_template(template, f"{{{{{name}}}}} is unknown; valid are {', '.join(sorted(_TOKENS))}.")
        pattern = _TOKENS[name]
        parts += [re.escape(template[at : token.start()]), f"(?P={_group(name)})" if name in seen and name != "timestamp" else pattern]
        seen.add(name)
        at = token.end()
    if missing := {"topic", "partition", "start_offset"} - seen:
        raise _bad_template(template, f"Without {', '.join(sorted(missing))} a name does not show which records its file holds.")
    return re.compile("".join([*parts, re.escape(template[at:]), r"(?:\.(?P<rest>[A-Za-z][\w.]*))?"]))


def _group(token: str) -> str:
    return "offset" if token == "start_offset" else token


def _bad_template(template: str, why: str) -> ConfigError:
    return ConfigError(
        f"The template of file names {template!r} cannot be used.",
        why=why,
        data="Nothing was read.",
        next="Copy the sink's file.name.template, without its prefix.",
    )


def _parse_dms(path: str, file: str) -> DmsName | UnrecognizedFile:
    *folders, _ = path.split("/")
    named = [folder for folder in folders if not folder.isdecimal()]
    schema, table = (named[-2], named[-1]) if len(named) >= 2 else (None, None)
    if found := _DMS_LOAD.fullmatch(file):
        order: tuple[int, ...] = (int(found["counter"], 16),)
    elif found := _DMS_CDC.fullmatch(file):
        order = (int(found["date"]), int(found["time"]), int(found["fraction"].ljust(9, "0")))
    else:
        return UnrecognizedFile(path=path, why="its name is neither LOAD<counter> nor <date>-<time>")
    extension, compression = split_extension(found["rest"] or "")
    return DmsName(
        path=path,
        schema=schema,
        table=table,
        is_load=file.startswith("LOAD"),
        order=order,
        extension=extension,
        compression=compression,
    )


def _parse_binlog(path: str, file: str) -> BinlogName | IgnoredFile | UnrecognizedFile:
    if file.endswith(".index"):
        return IgnoredFile(path=path, why="the server's list of its binlogs")
    if file.endswith(".ibb"):
        return UnrecognizedFile(
            path=path, why="MariaDB's binlog inside InnoDB (binlog_storage_engine) is another format, which cannot be read"
        )
    found = _BINLOG.fullmatch(file)
    if not found or (found["suffix"] and found["suffix"].lower() not in _SUFFIXES):
        return UnrecognizedFile(path=path, why="its name is not <name>.<number>, with the suffix of a compression or without")
    return BinlogName(
        path=path,
        host=path.rpartition("/")[0],
        base=found["base"],
        number=int(found["number"]),
        digits=len(found["number"]),
        compression=_SUFFIXES[found["suffix"].lower()] if found["suffix"] else Compression.NONE,
    )
