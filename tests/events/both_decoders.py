"""Binlogs read as they are read, and by the reference decoder alone: what is found in them is the same."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest

from cdc_ops.core.events.format_spec import EventOperation, FormatOptions
from cdc_ops.core.schema.tables import TableSchema
from cdc_ops.events.scan import binlog
from cdc_ops.events.scan.facts import TableFacts
from cdc_ops.events.scan.tables import TableScan
from tests.events.scanned import Scans, changes_of, feed_of, without_parts


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What was found in a file; two ways that find the same are equal.

    Args:
        failure: Why it was not read.
        too_large: The column that is to be widened before anything is read; nothing else counts then.
        facts: Counts and places.
        changes: The changes, as texts, in the order of their places.
        feed: What is set aside.
    """

    failure: tuple[tuple[str, str], ...]
    too_large: str
    facts: TableFacts = field(default_factory=TableFacts)
    changes: tuple[str, ...] = ()
    feed: tuple[str, ...] = ()


class BothDecoders:
    """Reads binlogs both ways.

    Args:
        root: Holds a folder `archive` with the binlogs.
        monkeypatch: Takes the kernels away.
    """

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._root, self._monkeypatch = root, monkeypatch
        self.by_kernels = 0
        """How many changes kernels have read."""

    def read(self, name: str, schema: TableSchema, keys: Sequence[str], **more: Any) -> tuple[Found, Found]:
        """Returns what is found by kernels with the reference decoder, and by that alone."""
        add, kernels = TableScan.add_plain, list[int]()

        def counted(scan: TableScan, changes: pa.Table, moments: npt.NDArray[np.int64]) -> None:
            kernels.append(changes.num_rows)
            add(scan, changes, moments)

        with self._monkeypatch.context() as patch:
            patch.setattr(TableScan, "add_plain", counted)
            patch.setattr(binlog, "SMALL", 0)
            mixed = self._found(name, schema, keys, **more)
            patch.setattr(TableScan, "add_plain", None)
            patch.setattr(binlog, "SMALL", 2**63)
            exact = self._found(name, schema, keys, **more)
        self.by_kernels += sum(kernels)
        return mixed, exact

    def _found(self, name: str, schema: TableSchema, keys: Sequence[str], **more: Any) -> Found:
        scans = Scans(self._root, FormatOptions(name="mysql-binlog"))
        task = scans.task(schema, keys, **more)
        [facts] = scans.read(name, task)
        if facts.failure or facts.too_large:
            return Found(failure=facts.failure, too_large=facts.too_large)
        changes = changes_of(task, [facts])
        rows = [] if changes is None else changes.to_pylist()
        for row in rows:
            if row["op"] == EventOperation.DELETE:
                row["present"] = None  # nobody looks at it
        return Found(
            failure=(),
            too_large="",
            facts=without_parts(facts.found),
            changes=tuple(sorted(map(repr, rows), key=_place)),
            feed=tuple(map(repr, feed_of(task, [facts]))),
        )


def _place(text: str) -> tuple[str, str]:
    return text.rpartition("'position'")[2], text
