"""Reads what `sqoop job --show NAME` prints: the properties of a saved import. Passwords that a metastore keeps are passed over."""

import re
from collections.abc import Iterator
from typing import Final

from cdc_ops.cli.sqoop.command_line import TOOLS, Found, SqoopImport, other_tool
from cdc_ops.cli.sqoop.options import kept

_VALUES: Final = {
    "db.connect.string": "connect",
    "db.username": "username",
    "db.table": "table",
    "db.query": "query",
    "db.query.boundary": "boundary-query",
    "db.where.clause": "where",
    "db.column.list": "columns",
    "db.split.column": "split-by",
    "mapreduce.num.mappers": "num-mappers",
    "merge.key.col": "merge-key",
    "incremental.col": "check-column",
    "incremental.last.value": "last-value",
    "hdfs.target.dir": "target-dir",
    "hdfs.warehouse.dir": "warehouse-dir",
    "hive.table.name": "hive-table",
    "hive.database.name": "hive-database",
    "hive.partition.key": "hive-partition-key",
    "hive.partition.value": "hive-partition-value",
    "hive.delims.replacement": "hive-delims-replacement",
    "hive.external.table.dir": "external-table-dir",
    "import.all_tables.exclude": "exclude-tables",
    "hbase.table": "hbase-table",
    "hcatalog.table.name": "hcatalog-table",
    "accumulo.table": "accumulo-table",
    "jdbc.driver.class": "driver",
    "connection.manager": "connection-manager",
}
_SWITCHES: Final = {
    "hdfs.append.dir": "append",
    "hdfs.delete-target.dir": "delete-target-dir",
    "hive.import": "hive-import",
    "hive.overwrite.table": "hive-overwrite",
    "hive.drop.delims": "hive-drop-import-delims",
    "direct.import": "direct",
    "relaxed.isolation": "relaxed-isolation",
    "db.require.password": "P",
}
_SECRETS: Final = {"db.password": "password", "db.password.file": "password-file", "db.password.alias": "password-alias"}
_MODES: Final = {"AppendRows": "append", "DateLastModified": "lastmodified"}
_MAPS: Final = {"map.column.java.": "map-column-java", "map.column.hive.": "map-column-hive", "db.connect.params.": "connection-param-file"}
_TOOL: Final = re.compile(r"^\s*Tool: (\S+)\s*$", re.MULTILINE)
_EXTRA: Final = "tool.arguments."
"""What these properties begin with: the words that stood behind `--`, by their place."""
_PROPERTY: Final = re.compile(r"^\s*([\w.-]+) = ?(.*)$")
_SQL: Final = frozenset(("db.query", "db.where.clause", "db.query.boundary"))
"""Properties whose values may have several lines, which Sqoop prints as they are."""
_FAMILIES: Final = frozenset(
    (
        *("accumulo", "codegen", "compression", "connection", "customtool", "db", "direct", "enable", "export", "hbase", "hcatalog"),
        *("hdfs", "hive", "import", "incremental", "input", "jdbc", "mainframe", "map", "mapreduce", "merge", "null", "relaxed", "reset"),
        *("skip", "split", "sqlconnection", "sqoop", "tool", "verbose"),
    )
)
"""How the names of Sqoop's properties begin. `i.id = 7` below a query is a line of that query."""


def is_saved_job(text: str) -> bool:
    """Whether a text is what `sqoop job --show` prints."""
    return bool(re.search(r"^\s*db\.connect\.string = ", text, re.MULTILINE))


def read_saved_jobs(text: str) -> Found:
    """Reads one or several saved jobs, each of which begins with `Job: name`; those that import nothing are passed over."""
    parts = [part for part in re.split(r"^\s*(?=Job: )", text, flags=re.MULTILINE) if is_saved_job(part) or _TOOL.search(part)]
    jobs = [(_tool(part), _origin(part), part) for part in parts]
    return Found(
        imports=tuple(_read(tool, origin, part) for tool, origin, part in jobs if tool in TOOLS),
        notes=tuple(other_tool(tool, origin) for tool, origin, _ in jobs if tool not in TOOLS),
    )


def _tool(text: str) -> str:
    found = _TOOL.search(text)
    return found[1] if found else TOOLS[0]


def _origin(text: str) -> str:
    found = re.search(r"^\s*Job: (.+)$", text, re.MULTILINE)
    return f"job {found[1].strip()}" if found else "saved job"


def _read(tool: str, origin: str, text: str) -> SqoopImport:
    found = _properties(text)
    extra = sorted((int(key.removeprefix(_EXTRA)), value.strip()) for key, value in found.items() if re.fullmatch(rf"{_EXTRA}\d+", key))
    return SqoopImport(tool=tool, options=tuple(dict.fromkeys(_options(found))), extra=tuple(value for _, value in extra), origin=origin)


def _properties(text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    key = ""
    for line in text.splitlines():
        match = _PROPERTY.match(line)
        if match and (key not in _SQL or match[1].partition(".")[0] in _FAMILIES):
            key, found[match[1]] = match[1], match[2]
        elif key in _SQL:
            found[key] += f"\n{line}"
    return found


def _options(found: dict[str, str]) -> Iterator[tuple[str, str]]:
    for key, text in found.items():
        value = text.strip()
        if value in ("", "null"):
            continue
        if key in _VALUES:
            yield _VALUES[key], kept(_VALUES[key], value)
        elif key in _SECRETS:
            yield _SECRETS[key], ""
        elif key in _SWITCHES and value == "true":
            yield _SWITCHES[key], ""
        elif key == "incremental.mode" and value in _MODES:
            yield "incremental", _MODES[value]
        elif prefix := next((prefix for prefix in _MAPS if key.startswith(prefix)), ""):
            yield _MAPS[prefix], ""
