"""Writes an archive as Kafka Connect's S3 sink does: JSON lines, one file per so many records of a topic; outside the data path, for tests.

    <root>/<topic>/partition=0/<topic>+0+<offset of the first record, 10 digits>.json

Each topic has one partition, whose offsets count from 0. Files appear complete: on a disk by a rename, in an object store by one PUT. A
separate folder holds the offsets, so that a sink which is opened again continues where the last one ended.
"""

import json
import os
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import fsspec

from cdc_ops.dev.avro import avro_file, by_schema

_PROGRESS: Final = "sink.json"
NO_VALUE: Final = "null"
"""How a record without a value is written, if it is."""


class SinkArchive:
    """Collects records, and writes a file as soon as a topic has enough of them.

    Records that are not in a file yet are lost when the process dies.

    Args:
        root: A folder, or a URL of fsspec such as `s3://bucket/prefix`.
        state: A folder outside the archive, on the same disk, for offsets and incomplete files.
        records_per_file: `flush.size` of the sink.
        tombstones: True to write records without a value as a line `null`; False to skip them and their offsets
            (`behavior.on.null.values` = `write` or `ignore`).
        one_topic: The name of one topic for all records; None keeps topics apart.
        options: For fsspec's file system.
    """

    def __init__(
        self,
        root: str | Path,
        state: Path,
        *,
        records_per_file: int = 1000,
        tombstones: bool = True,
        one_topic: str | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        self._files, path = fsspec.core.url_to_fs(str(root), **(options or {}))
        self._root = str(path).rstrip("/")
        self._local = "file" in (self._files.protocol if isinstance(self._files.protocol, tuple) else (self._files.protocol,))
        self._state = state
        self._records_per_file = records_per_file
        self._tombstones = tombstones
        self._one_topic = one_topic
        self._lock = threading.RLock()
        self._open: dict[str, list[tuple[int, str]]] = {}
        state.mkdir(parents=True, exist_ok=True)
        known = state / _PROGRESS
        self._next: dict[str, int] = json.loads(known.read_text("utf-8")) if known.exists() else {}

    def put(self, records: Iterable[tuple[str, str | None]]) -> None:
        """Adds records, each with its topic; None is a record without a value."""
        with self._lock:
            for named, value in records:
                topic = self._one_topic or named
                offset = self._next.get(topic, 0)
                self._next[topic] = offset + 1
                waiting = self._open.setdefault(topic, [])
                if value is not None or self._tombstones:
                    waiting.append((offset, NO_VALUE if value is None else value))
                if len(waiting) >= self._records_per_file:
                    self._write(topic)

    def flush(self) -> None:
        """Writes the collected records into files, as the sink does after `rotate.schedule.interval.ms`."""
        with self._lock:
            for topic in list(self._open):
                self._write(topic)

    def offsets(self) -> Mapping[str, int]:
        """Returns the offset of the next record of each topic."""
        with self._lock:
            return dict(self._next)

    def _write(self, topic: str) -> None:
        waiting = self._open.pop(topic)
        for offset, extension, content in self._files_of(waiting):
            self._place(f"{self._root}/{topic}/partition=0/{topic}+0+{offset:010d}.{extension}", content)
        partial = self._state / f"{_PROGRESS}.new"
        # Collected records of other topics do not count yet: after a crash their offsets are given again.
        written = {**self._next, **{name: records[0][0] for name, records in self._open.items() if records}}
        partial.write_text(json.dumps(written), "utf-8")
        os.replace(partial, self._state / _PROGRESS)

    def _files_of(self, waiting: Sequence[tuple[int, str]]) -> Iterator[tuple[int, str, bytes]]:
        """Yields the files for records: the offset of the first one, the extension, the content."""
        if waiting:
            yield waiting[0][0], "json", "".join(f"{value}\n" for _, value in waiting).encode()

    def _place(self, path: str, content: bytes) -> None:
        if not self._local:
            self._files.pipe_file(path, content)
            return
        partial = self._state / "incoming"
        partial.write_bytes(content)
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        os.replace(partial, path)


class AvroSinkArchive(SinkArchive):
    """A sink with `format.class` AvroFormat. It takes JsonConverter's records with schemas; each change of schema starts a file.

    The files follow Confluent's documentation and source; no real sink wrote them. Records without a value cannot be written.
    """

    def _files_of(self, waiting: Sequence[tuple[int, str]]) -> Iterator[tuple[int, str, bytes]]:
        at = 0
        for schema, records in by_schema(value for _, value in waiting):
            yield waiting[at][0], "avro", avro_file(schema, records, codec="deflate", per_block=50)
            at += len(records)
