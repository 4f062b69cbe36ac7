"""Checks that need more than one field: one path for many tables, tables without a cursor, nested folders, secrets in Spark settings."""

from collections.abc import Container, Iterator, Mapping
from typing import Any, Final

from cdc_ops.config.checks.airflow import check_airflow
from cdc_ops.config.checks.archive_format import check_archive_format
from cdc_ops.config.checks.binlog_copies import check_binlog_copies
from cdc_ops.config.checks.receivers import check_receivers
from cdc_ops.config.checks.source import check_source
from cdc_ops.config.checks.starts import check_starts
from cdc_ops.config.checks.tables import check_tables
from cdc_ops.config.reading.diagnostics import Mark, Problem, is_secret_conf
from cdc_ops.config.reading.document import Document, Path
from cdc_ops.config.reading.explain import place_of
from cdc_ops.core.archive.file_names import Layout
from cdc_ops.core.pipeline.pipeline import Reader, SourceKind
from cdc_ops.core.pipeline.table_settings import Method
from cdc_ops.core.pipeline.tables.catalog_names import is_of_one_table
from cdc_ops.core.schema.tables import TableName
from cdc_ops.events.registry import BINLOG

Data = Mapping[str, Any]

MANY: Final = 5
"""Entries with one and the same shortcoming that are named one by one."""

_LOGIN_OPTIONS: Final = ("key", "username", "credential", "connection_string")
"""Options of stores that hold a login, besides those whose names say so as Spark's do."""


def check_together(data: Data, document: Document, suspect: Container[Path] = ()) -> list[Problem]:
    """Returns what is wrong between the fields of a file.

    Args:
        data: What the adapter returned; of a file with errors, what is left of it.
        document: For the lines.
        suspect: Sections and entries that have errors; what seems to be missing in them may only be misspelt.
    """
    missing = () if ("defaults",) in suspect else _check_cursors(data, document, suspect)
    sources = () if ("source",) in suspect else check_source(data, document, _log_entries(data))
    return [
        *_check_spark(data, document),
        *_check_sections(data, document),
        *sources,
        *_check_entries(data, document),
        *check_tables(data, document, suspect),
        *missing,
        *_check_logs(data, document),
        *check_archive_format(data, document, _log_entries(data)),
        *check_binlog_copies(data, document),
        *check_receivers(data, document, suspect),
        *check_airflow(data, document),
        *check_starts(data, document, _log_entries(data)),
        *_check_paths(data, document),
    ]


def _check_spark(data: Data, document: Document) -> Iterator[Problem]:
    spark = data.get("spark", {})
    for name in ("driver_memory", "jars", "connection"):
        if spark.get("connect") and name in spark:
            message = f"{name!r} has no effect with 'connect': the server runs already."
            yield Problem(mark=_key(document, ("spark", name)), message=message, valid="Remove the line.")
    for name in spark.get("conf", {}):
        if is_secret_conf(name):
            message = f"{name!r} is a secret. Pipeline files must not contain secrets."
            yield Problem(
                mark=_key(document, ("spark", "conf", name)), message=message, valid="Set it in Spark's own configuration where jobs run."
            )
        elif not name.startswith("spark."):
            message = f"{name!r} is not a Spark setting: Spark settings start with 'spark.', and Spark ignores others."
            yield Problem(mark=_key(document, ("spark", "conf", name)), message=message, valid=f"Did you mean 'spark.hadoop.{name}'?")


def _check_writers(source: Data, document: Document) -> Iterator[Problem]:
    if source.get("kind") is SourceKind.POSTGRES and source.get("writers"):
        message = "'writers' is for clusters of MySQL and MariaDB; of Postgres only one server is asked."
        yield Problem(mark=_key(document, ("source", "writers")), message=message, valid="Remove the line.")
    elif source.get("writers") and source.get("snapshot_connection"):
        message = (
            "'snapshot_connection' follows one server, and 'writers' says that others write too: what they commit can be missing there."
        )
        yield Problem(mark=_key(document, ("source", "snapshot_connection")), message=message, valid="Remove one of the two.")


def _check_sections(data: Data, document: Document) -> Iterator[Problem]:
    source, target = data.get("source", {}), data.get("target", {})
    if source.get("kind") is SourceKind.POSTGRES and "jdbc_driver" in source:
        message = "'jdbc_driver' chooses between the drivers of MySQL and MariaDB; Postgres has only one."
        yield Problem(mark=_key(document, ("source", "jdbc_driver")), message=message, valid="Remove the line.")
    if source.get("kind") is SourceKind.NONE and source.get("reader") is Reader.NATIVE:
        message = "'reader: native' is for sources that are read; this one is declared."
        yield Problem(mark=_value(document, ("source", "reader")), message=message, valid="Remove the line.")
    if source.get("kind") is SourceKind.POSTGRES and source.get("snapshot_connection"):
        message = "'snapshot_connection' is for replicas of MySQL and MariaDB; it does not support standbys of Postgres."
        yield Problem(mark=_key(document, ("source", "snapshot_connection")), message=message, valid="Remove the line.")
    elif source.get("snapshot_connection") and source["snapshot_connection"] == source.get("connection"):
        message = "'snapshot_connection' is the connection of the source itself, not of a replica."
        yield Problem(mark=_value(document, ("source", "snapshot_connection")), message=message, valid="Remove the line.")
    yield from _check_writers(source, document)
    if "root" in target and target["root"].rstrip("/") == target.get("staging", "").rstrip("/"):
        message = "'root' and 'staging' are the same place: landed files would mix with the tables."
        yield Problem(mark=_value(document, ("target", "staging")), message=message, valid="Set a separate folder for staging.")
    if data.get("defaults", {}).get("path"):
        message = "'path' is the folder of one table, and 'defaults' applies to all tables."
        yield Problem(
            mark=_key(document, ("defaults", "path")),
            message=message,
            valid="Move it to the table's entry; target.root is the folder of all tables.",
        )
    for place in (("target", "catalog"), ("defaults", "catalog_name")):
        if is_of_one_table(data.get(place[0], {}).get(place[1], "")):
            message = f"{place[1]!r} without {{table}} would give all tables the same name."
            yield Problem(mark=_value(document, place), message=message, valid="Write for example '{schema}.{table}'.")


def _check_entries(data: Data, document: Document) -> Iterator[Problem]:
    for pattern, entry in data.get("tables", {}).items():
        own = entry or {}
        if own.get("exclude"):
            for name in own.keys() - {"exclude"}:
                message = f"{name!r} has no effect with 'exclude: true'."
                yield Problem(mark=_key(document, ("tables", pattern, name)), message=message, valid="Remove one of the two.")
            continue
        if own.get("path") and any(sign in pattern for sign in "*?["):
            message = "'path' is the folder of one table, and a pattern may match several."
            yield Problem(mark=_key(document, ("tables", pattern, "path")), message=message, valid="Add a separate entry for the table.")
        if is_of_one_table(own.get("catalog_name", "")) and any(sign in pattern for sign in "*?["):
            message = "'catalog_name' without {table} is the name of one table, and a pattern may match several."
            valid = "Add a separate entry for the table, or write {table} in the name."
            yield Problem(mark=_key(document, ("tables", pattern, "catalog_name")), message=message, valid=valid)


def _check_cursors(data: Data, document: Document, suspect: Container[Path]) -> Iterator[Problem]:
    usual = data.get("defaults", {}).get("cursor")
    logs = _log_entries(data)
    if data.get("source", {}).get("kind") is SourceKind.NONE:
        return  # which has no rows to read by one
    without = [
        pattern
        for pattern, entry in data.get("tables", {}).items()
        if pattern not in logs
        and (entry or {}).get("cursor", usual) is None
        and not (entry or {}).get("exclude")
        and ("tables", pattern) not in suspect
    ]
    valid = (
        "Write 'cursor: updated_at' or 'cursor: [updated_at, id]', in the entry or in 'defaults';"
        " or 'cursor: []': every run then compares the whole table."
    )
    if len(without) > MANY:
        message = f"{len(without)} entries ({', '.join(without[:3])}, ...) have no cursor, so cdc-ops cannot find their changes."
        yield Problem(mark=_key(document, ("tables",)), message=message, valid=valid)
        return
    for pattern in without:
        message = f"{pattern!r} has no cursor, so cdc-ops cannot find its changes."
        yield Problem(mark=_key(document, ("tables", pattern)), message=message, valid=valid)


def _log_entries(data: Data) -> list[str]:
    """Returns the entries of tables that are fed from the archive."""
    usual = data.get("defaults", {}).get("method", Method.QUERY)
    entries = {pattern: entry or {} for pattern, entry in data.get("tables", {}).items()}
    return [pattern for pattern, entry in entries.items() if entry.get("method", usual) is Method.LOG and not entry.get("exclude")]


def _check_logs(data: Data, document: Document) -> Iterator[Problem]:
    logs, archive = _log_entries(data), data.get("archive", {})
    missing = [name for name in ("url", "format") if not archive.get(name)]
    if logs and missing:
        at = _key(document, ("archive",) if archive else ("tables", logs[0]))
        message = f"{logs[0]!r} has 'method: log', and the archive of its events has no {' and no '.join(map(repr, missing))}."
        yield Problem(mark=at, message=message, valid="Write 'archive: {url: s3://bucket/topics, format: debezium-mysql}'.")
    for name in archive.get("options", ()):
        if is_secret_conf(name) or name in _LOGIN_OPTIONS:
            message = f"{name!r} is a secret. Pipeline files must not contain secrets."
            yield Problem(
                mark=_key(document, ("archive", "options", name)),
                message=message,
                valid="Remove it: cdc-ops takes the store's login from the environment, a profile or the machine's role.",
            )
    if (anon := archive.get("options", {}).get("anon", "true")).lower() not in ("true", "false"):
        message = f"'anon' is {anon!r}, which is not a truth value."
        yield Problem(mark=_value(document, ("archive", "options", "anon")), message=message, valid='Write "true" or "false".')
    yield from _check_binlogs(archive, document)


def _check_binlogs(archive: Data, document: Document) -> Iterator[Problem]:
    """The numbers of binlogs are a part of the order of their events, so layout and format belong together."""
    of_layout, of_format = archive.get("layout") is Layout.BINLOG, archive.get("format") == BINLOG
    if of_format and not of_layout:
        message = f"The format {BINLOG!r} needs the numbers of its files, and the layout does not read them."
        at = _value(document, ("archive", "layout")) if "layout" in archive else _value(document, ("archive", "format"))
        yield Problem(mark=at, message=message, valid="Write 'layout: binlog'.")
    elif of_layout and archive.get("format") and not of_format:
        message = f"Files of the layout 'binlog' are binlogs, and the format {archive['format']!r} does not read them."
        yield Problem(mark=_value(document, ("archive", "layout")), message=message, valid=f"Write 'format: {BINLOG}'.")


def _check_paths(data: Data, document: Document) -> Iterator[Problem]:
    """Tables must not lie in each other: VACUUM of the outer one would remove the files of the inner one."""
    entries = {name: entry or {} for name, entry in data.get("tables", {}).items() if not any(sign in name for sign in "*?[")}
    own = {name: str(entry["path"]).rstrip("/") for name, entry in entries.items() if entry.get("path") and not entry.get("exclude")}
    target = data.get("target", {})
    if not own or not target.keys() >= {"root", "staging"}:
        return
    root, staging = target["root"].rstrip("/"), target["staging"].rstrip("/")
    usual = {name: TableName.parse(name) for name in entries.keys() - own.keys()}
    taken = {name: f"{root}/{table.folder}" for name, table in usual.items()} | own
    for name, path in own.items():
        at = _value(document, ("tables", name, "path"))
        places = {"the target's root": root, "the staging area": staging, **taken}
        for other, place in places.items():
            if other != name and _overlaps(path, place, outer_only=other == "the target's root"):
                message = (
                    f"The folder of {name!r} and that of {other!r} are nested."
                    if other in taken
                    else f"The folder of {name!r} holds {other}."
                )
                yield Problem(mark=at, message=message, valid=f"{path} and {place}: choose separate folders.")
                break


def _overlaps(path: str, place: str, *, outer_only: bool) -> bool:
    inside, around = path.startswith(f"{place}/"), place.startswith(f"{path}/")
    return path == place or around or (inside and not outer_only)


def _key(document: Document, path: Path) -> Mark:
    return place_of(document, path).key


def _value(document: Document, path: Path) -> Mark:
    return place_of(document, path).value
