"""What a row of `mysql_binlog` says besides its values: the columns whose names begin with `_`.

| column | type | says |
|---|---|---|
| `_op` | STRING | `c`, `u`, `d`: inserted, updated, deleted |
| `_file` | STRING | the file |
| `_offset`, `_inner`, `_row` | BIGINT | begin of the event, its number in a compressed transaction (0 outside), number of the row |
| `_time` | TIMESTAMP | when the statement began, in seconds |
| `_gtid` | STRING | the transaction; empty where the server gives none |
| `_committed` | TIMESTAMP | when it was committed; whole seconds where the server says no more |
| `_absent` | ARRAY<STRING> | columns that no image of the row has (`binlog_row_image`): unchanged, and not NULL |
| `_before` | STRUCT | the row before an update, with all columns that are read |
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cdc_ops.core.binlog.control_events import Gtid
from cdc_ops.core.binlog.event_stream import EventStream, RawEvent
from cdc_ops.core.binlog.file_scan import GTIDS
from cdc_ops.core.binlog.gtids import GtidSet, MariaDbGtids, MySqlGtids, parse_gtids
from cdc_ops.core.binlog.transaction_events import read_gtid
from cdc_ops.errors import IncompleteRowError
from cdc_ops.events.binlog.decoder import BinlogFile
from cdc_ops.events.fast_binlog.change_batches import Changes

BEFORE: Final = "_before"
METADATA: Final = {
    **{"_op": "string", "_file": "string", "_offset": "bigint", "_inner": "bigint", "_row": "bigint", "_time": "timestamp"},
    **{"_gtid": "string", "_committed": "timestamp", "_absent": "array<string>"},
}
"""Their types, as Spark writes them; that of `BEFORE` follows from the columns that are read."""
_OPERATIONS: Final = np.frombuffer(b"cud", np.uint8)
_INSTANT: Final = pa.timestamp("us", tz="UTC")
_MICROS: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Metadata:
    """The columns of a schema, in their order."""

    names: tuple[str, ...]

    def of_file(self, file: BinlogFile, data: npt.NDArray[np.uint8], after: str) -> "FileColumns":
        """Returns what makes record batches of a file's changes; `data` = its bytes, `after` = GTIDs whose transactions are left out."""
        known = parse_gtids(after, mariadb=file.scan.description.is_mariadb) if after else None
        return FileColumns(self.names, file, data, known)


@dataclass(slots=True)
class FileColumns:
    """Makes record batches of the changes of one file.

    Args:
        names: The columns, in their order.
        file: The file.
        data: Its bytes, unpacked.
        after: Transactions that are left out.
    """

    names: tuple[str, ...]
    file: BinlogFile
    data: npt.NDArray[np.uint8]
    after: GtidSet | None
    _gtids: dict[int, tuple[Gtid, int]] = field(default_factory=dict)

    def batches(self, changes: Changes) -> Iterator[pa.RecordBatch]:
        """Yields the record batch of changes, none if all of them are left out.

        Raises:
            IncompleteRowError: a row lacks a column, and `_absent` is not asked for.
        """
        if changes.absent is not None and "_absent" not in self.names:
            raise self._incomplete(changes)
        kept = self._kept(changes)
        arrays = [self._column(name, changes) for name in self.names]
        batch = pa.RecordBatch.from_arrays(arrays, names=list(self.names))
        if kept is not None:
            batch = batch.filter(pa.array(kept))
        if batch.num_rows:
            yield batch

    def _column(self, name: str, changes: Changes) -> pa.Array:
        match name:
            case "_op":
                return _letters(changes.kind)
            case "_file":
                return pa.repeat(pa.scalar(Path(self.file.name).name), changes.kind.size)
            case "_offset" | "_inner" | "_row":
                return pa.array(getattr(changes, name[1:]))
            case "_time":
                return pa.array(changes.time * _MICROS).cast(_INSTANT)
            case "_gtid" | "_committed":
                return self._of_transaction(name, changes.transaction)
            case "_absent":
                return self._absent(changes)
            case "_before":
                assert changes.before is not None
                was = pa.array(changes.kind != 1)
                return pa.StructArray.from_arrays(changes.before.columns, fields=list(changes.before.schema), mask=was)
            case _:
                return changes.rows.column(name)

    def _of_transaction(self, name: str, offsets: npt.NDArray[np.int64]) -> pa.Array:
        own, places = np.unique(offsets, return_inverse=True)
        known = [self._gtid(int(offset)) for offset in own]
        if name == "_gtid":
            texts = pa.array([gtid.text for gtid, _ in known], pa.string())
            return texts.take(pa.array(places))
        return pa.array(np.array([committed for _, committed in known], np.int64)[places]).cast(_INSTANT)

    def _gtid(self, offset: int) -> tuple[Gtid, int]:
        """Returns the GTID of the transaction that begins at an offset, and when it was committed."""
        if offset not in self._gtids:
            if len(self._gtids) > 1 << 16:
                self._gtids.clear()
            event = self._event(offset) if offset >= 0 else None
            gtid = read_gtid(event) if event is not None and event.header.type in GTIDS else Gtid(text="")
            self._gtids[offset] = gtid, gtid.committed or (event.header.time * _MICROS if event is not None else 0)
        return self._gtids[offset]

    def _event(self, offset: int) -> RawEvent:
        size = int.from_bytes(self.data[offset + 9 : offset + 13].tobytes(), "little")
        parts = iter((self.data[offset : offset + 19].tobytes(), self.data[offset + 19 : offset + size].tobytes(), b""))
        stream = EventStream(self.file.name, lambda _: next(parts), start=offset, description=self.file.scan.description)
        return next(iter(stream))

    def _kept(self, changes: Changes) -> npt.NDArray[np.bool_] | None:
        if self.after is None:
            return None
        own, places = np.unique(changes.transaction, return_inverse=True)
        kept = np.array([not self._is_in(self._gtid(int(offset))[0].text) for offset in own], np.bool_)
        return kept[places]

    def _is_in(self, gtid: str) -> bool:
        if not gtid or self.after is None:
            return False
        one = (MariaDbGtids() if isinstance(self.after, MariaDbGtids) else MySqlGtids()).with_gtid(gtid)
        return self.after.contains(one)  # type: ignore[arg-type]

    def _absent(self, changes: Changes) -> pa.Array:
        rows = changes.kind.size
        if changes.absent is None:
            return pa.ListArray.from_arrays(pa.array(np.zeros(rows + 1, np.int32)), pa.array([], pa.string()))
        names = changes.rows.schema.names
        offsets = np.concatenate(([0], np.cumsum(changes.absent.sum(axis=0)))).astype(np.int32)
        columns = np.nonzero(changes.absent.T)[1]
        return pa.ListArray.from_arrays(pa.array(offsets), pa.array(names, pa.string()).take(pa.array(columns)))

    def _incomplete(self, changes: Changes) -> IncompleteRowError:
        assert changes.absent is not None
        column, row = (int(place[0]) for place in np.nonzero(changes.absent))
        name = changes.rows.schema.names[column]
        return IncompleteRowError(
            f"{self.file.name} has, at byte {changes.offset[row]}, a row without the column {name}.",
            why="The server had another binlog_row_image than FULL, or the table had no such column then.",
            data="Nothing behind this row was read.",
            next="Ask for the column `_absent ARRAY<STRING>`, which names the columns that a row lacks; they are unchanged, and not NULL.",
        )


def _letters(kinds: npt.NDArray[np.int64]) -> pa.Array:
    offsets = np.arange(kinds.size + 1, dtype=np.int32)
    return pa.Array.from_buffers(pa.string(), kinds.size, [None, pa.py_buffer(offsets), pa.py_buffer(_OPERATIONS[kinds])])
