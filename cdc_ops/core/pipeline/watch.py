"""What a watcher of an archive has to know: which folders it lists, and which tables read them. Pure."""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from cdc_ops.core.pipeline.archive_config import ArchiveConfig
from cdc_ops.core.pipeline.pipeline import Pipeline
from cdc_ops.core.pipeline.table_settings import Method
from cdc_ops.core.pipeline.tables.table_matching import chosen_entries
from cdc_ops.core.schema.tables import TableName

_PLACEHOLDER: Final = re.compile(r"\{(schema|table)\}")


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchedEntry:
    """One entry of `tables:`, as far as a watcher asks.

    Args:
        pattern, exclude: As in `TableRule`.
        is_log: True if the tables of the entry follow the archive.
    """

    pattern: str
    is_log: bool
    exclude: bool = False

    @property
    def is_pattern(self) -> bool:
        """True if the entry is a pattern, not a name."""
        return any(sign in self.pattern for sign in "*?[")


@dataclass(frozen=True, slots=True, kw_only=True)
class Watch:
    """The archive of a pipeline, for a watcher. It goes through Airflow's database and holds no secret, as pipeline files hold none.

    Args:
        pipeline: Its name.
        archive: Where the files are, and when one is finished.
        entries: The tables, in file order.
        interval: How often the archive is listed.
    """

    pipeline: str
    archive: ArchiveConfig
    entries: tuple[WatchedEntry, ...]
    interval: timedelta

    @property
    def root(self) -> str:
        """The folder that holds all that is watched: the archive's URL up to its first placeholder."""
        return archive_root(self.archive.url)

    def location(self, folder: str) -> str:
        """Returns the URL of a folder below the root; "" is the root."""
        return f"{self.root}/{folder}".rstrip("/")


def watch_of(pipeline: Pipeline) -> Watch:
    """Returns what a watcher of a pipeline's archive has to know."""
    return Watch(
        pipeline=pipeline.name,
        archive=pipeline.archive,
        entries=tuple(
            WatchedEntry(pattern=rule.pattern, is_log=rule.settings.method is Method.LOG, exclude=rule.exclude) for rule in pipeline.tables
        ),
        interval=pipeline.airflow.watch_interval,
    )


def archive_root(url: str) -> str:
    """Returns the last folder of an archive's URL that holds all of it.

    >>> archive_root("s3://bucket/topics/shop.{schema}.{table}"), archive_root("/data/archive/")
    ('s3://bucket/topics', '/data/archive')
    """
    whole = url.rstrip("/")
    found = _PLACEHOLDER.search(whole)
    return whole[: found.start()].rpartition("/")[0] if found else whole


def watched_folders(
    watch: Watch, folders: Callable[[str], Iterable[str]], known: Iterable[TableName] = ()
) -> dict[str, tuple[TableName, ...]]:
    """Returns the folders to list, relative to the root, each with the tables that read it.

    Args:
        watch: What is watched.
        folders: Returns the folders right below one, each with a `/` at its end; "" is the root.
        known: Tables that runs have come to.

    Returns:
        "" for a root whose files all tables read. A folder without tables is one of which only patterns are known so far.
    """
    found = dict(_found(watch, folders))
    by_text = {entry.pattern: TableName.parse(entry.pattern) for entry in watch.entries if not entry.is_pattern}
    by_text |= {str(table): table for table in known}
    by_text |= {f"{schema}.{table}": TableName(schema=schema, name=table) for schema, table in found.values() if schema and table}
    chosen = chosen_entries(watch.entries, by_text)
    readers: dict[str, list[TableName]] = {}
    for text in sorted(chosen):
        if chosen[text].is_log:
            readers.setdefault(watch.archive.location(by_text[text]), []).append(by_text[text])
    named = {folder: tuple(readers.get(watch.location(folder), ())) for folder in found}
    return {folder: tables for folder, tables in named.items() if tables or not all(found[folder])}


def _found(watch: Watch, folders: Callable[[str], Iterable[str]]) -> Iterator[tuple[str, tuple[str, str]]]:
    """Yields the folders that the archive's URL may mean, with the schema and the table that it says ("" where it says none)."""
    rest = watch.archive.url.rstrip("/")[len(watch.root) :].strip("/")
    found: list[tuple[str, dict[str, str]]] = [("", {})]
    for segment in rest.split("/") if rest else ():
        pattern = _pattern(segment)
        found = [
            (below.rstrip("/"), {**values, **match.groupdict()})
            for folder, values in found
            for below in folders(f"{folder}/" if folder else "")
            if (match := pattern.fullmatch(below.rstrip("/").rpartition("/")[2]))
        ]
    yield from ((folder, (values.get("schema", ""), values.get("table", ""))) for folder, values in found)


def _pattern(segment: str) -> re.Pattern[str]:
    """Returns what matches the folders that one part of a URL may mean. A dot between schema and table is the first one."""
    parts, named, end = [], set[str](), 0
    for found in _PLACEHOLDER.finditer(segment):
        name = found[1]
        parts += [re.escape(segment[end : found.start()]), f"(?P={name})" if name in named else f"(?P<{name}>.+?)"]
        named.add(name)
        end = found.end()
    return re.compile("".join((*parts, re.escape(segment[end:]))))
