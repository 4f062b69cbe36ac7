"""Archived files, scanned without Spark: what is found in them, and the rows that were written."""

import json
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from cdc_ops.core.events.format_spec import FormatOptions
from cdc_ops.core.schema.tables import TableSchema
from cdc_ops.events.fold import Folded, FoldRules, fold_feed
from cdc_ops.events.registry import spec_of
from cdc_ops.events.scan.facts import FileFacts, Part, TableFacts
from cdc_ops.events.scan.request import FileTask, FileTasks, ScannedArchive, TableTask
from cdc_ops.events.scan.scan import scan_file

Row = dict[str, Any]
DEBEZIUM = FormatOptions(
    name="debezium-mysql",
    settings={
        "event.converting.failure.handling.mode": "fail",
        "converter.replace.null.with.default": "false",
        "schemas.enable": "false",
        "skipped.operations": "none",
    },
    accept_losses=("schemas.enable=false",),
)


def event(table: str, pos: int, number: int, name: str = "x", op: str = "c", **others: Any) -> str:
    """An event of Debezium; `others` replace members."""
    source = {"db": "shop", "table": table, "file": "bin.000003", "pos": pos, "row": 0, "ts_ms": 1700000000000 + pos, "snapshot": "false"}
    row = {"id": number, "c0": name}
    record = {"op": op, "before": row if op == "d" else None, "after": None if op == "d" else row, "source": source}
    return json.dumps(record | others)


class Scans:
    """A folder with archived files, and another one for what is read of them.

    Args:
        root: A folder of their own.
        options: The format's.
    """

    def __init__(self, root: Path, options: FormatOptions) -> None:
        self.archive, self._staging, self.options = root / "archive", root / "staging", options
        self.archive.mkdir(exist_ok=True)

    def write(self, name: str, *records: str | bytes) -> str:
        """Writes a file, a record a line; returns its name."""
        lines = [record.encode() if isinstance(record, str) else record for record in records]
        (self.archive / name).write_bytes(b"".join(line + b"\n" for line in lines))
        return name

    def task(self, schema: TableSchema, keys: Sequence[str] = ("id",), **more: Any) -> TableTask:
        """What is wanted of a table; each has folders of its own."""
        name = uuid.uuid4().hex
        folders = {kind: str(self._staging / f"{kind}-{name}") for kind in ("changes", "feed")}
        for folder in folders.values():
            Path(folder).mkdir(parents=True)
        archive = ScannedArchive(url=str(self.archive), options=(), format=self.options)
        return TableTask(**{"archive": archive, "schema": schema, "keys": tuple(keys), **folders, **more})

    def read(self, name: str, *tasks: TableTask, **more: Any) -> list[FileFacts]:
        """Scans a file for all tables at once; returns what it holds for each."""
        size = (self.archive / name).stat().st_size
        files = tuple(FileTask(path=name, size=size, table=number, **more) for number in range(len(tasks)))
        return scan_file(tasks, FileTasks(files=files))

    def one(self, name: str, task: TableTask, **more: Any) -> FileFacts:
        """Scans a file for one table."""
        [facts] = self.read(name, task, **more)
        assert not facts.failure, facts.failure
        return facts


def feed_of(task: TableTask, facts: Iterable[FileFacts]) -> list[Row]:
    """The rows of the feed that were written, by file and line."""
    rows = _rows(task.feed, [part for one in facts for part in one.found.feed])
    return sorted(rows.to_pylist() if rows is not None else [], key=lambda row: (row["file"], row["line"]))


def changes_of(task: TableTask, facts: Iterable[FileFacts]) -> pa.Table | None:
    """The changes that were written."""
    return _rows(task.changes, [part for one in facts for part in one.found.changes])


def folded(task: TableTask, facts: Sequence[FileFacts], **rules: Any) -> Folded | None:
    """What the changes come to, None if there are none."""
    changes = changes_of(task, facts)
    if changes is None:
        return None
    count = changes.num_rows
    feed = changes.append_column("kind", pa.array(["change"] * count))
    feed = feed.append_column("previous_key", pa.nulls(count, changes.schema.field("key").type))
    truncates = [place for one in facts for place in one.found.truncates]
    order = spec_of(task.archive.format).order
    return fold_feed(
        feed, FoldRules(**{"schema": task.schema, "keys": task.keys, "order": order, "barrier": max(truncates, default=None), **rules})
    )


def without_parts(found: TableFacts) -> TableFacts:
    """Facts without the names of files, which differ from try to try."""
    return replace(found, changes=(), feed=())


def _rows(folder: str, parts: Sequence[Part]) -> pa.Table | None:
    tables = [pq.read_table(f"{folder}/{part.name}") for part in parts]
    return pa.concat_tables(tables) if tables else None
