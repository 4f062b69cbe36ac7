"""Changes of one table, typed by its columns: all that crosses from events to steps and lake. Rows of the canonical feed, column by column.

ChangeBatch --feed--> Arrow with the columns of `core.events.change_feed.feed_columns`
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

import numpy as np
import pyarrow as pa

from cdc_ops.core.events.change_feed import key_columns
from cdc_ops.core.events.format_spec import FormatSpec, RecordKind
from cdc_ops.core.schema.tables import TableSchema
from cdc_ops.decode.program import Field
from cdc_ops.events.record import Envelope, Record

NAMES: Final = pa.list_(pa.string())
Key = tuple[Any, ...]


@dataclass(frozen=True)
class ChangeTypes:
    """The Arrow types of a table's feed.

    Args:
        spec: The format's declaration.
        schema: The table, as the source has it.
        keys: The columns that identify a row.
    """

    spec: FormatSpec
    schema: TableSchema
    keys: tuple[str, ...]

    @cached_property
    def columns(self) -> tuple[pa.DataType, ...]:
        """The types of the table's columns."""
        return tuple(arrow_type(column.delta_type) for column in self.schema.columns)

    @cached_property
    def key_indexes(self) -> tuple[int, ...]:
        """The columns of the key, by their numbers, in the order of the key."""
        names = [column.name for column in self.schema.columns]
        return tuple(names.index(column.name) for column in key_columns(self.schema, self.keys))

    @cached_property
    def key(self) -> pa.StructType:
        """The type of a key."""
        return pa.struct([(self.schema.columns[index].name, self.columns[index]) for index in self.key_indexes])

    @cached_property
    def image(self) -> pa.StructType:
        """The type of an image."""
        return pa.struct([(column.name, kind) for column, kind in zip(self.schema.columns, self.columns, strict=True)])

    @cached_property
    def position(self) -> tuple[pa.DataType, ...]:
        """The types of the parts of a position."""
        return tuple(arrow_type(part.type) for part in self.spec.order)


def arrow_type(ddl: str) -> pa.DataType:
    """Returns the Arrow type of a type of Spark's DDL."""
    return Field.of("", ddl).arrow


@dataclass(slots=True)
class Images:
    """The images of rows, before or after their changes.

    Args:
        columns: A column of Arrow for each column of the table, NULL where a row has no image; () if the images were not asked for.
        has: Which rows have one.
    """

    columns: Sequence[pa.Array]
    has: list[bool]


@dataclass(slots=True)
class ChangeBatch:
    """Rows of the canonical feed, one for each envelope; lists have one entry for each.

    Args:
        types: The types of the table.
        records, envelopes: Where each row comes from.
        kind, op: What it is, see `core.events.change_feed`.
        key, previous_key: Tuples of stored values, in the order of the key; None for none.
        after, before: The images of each row.
        present: The columns that `after` speaks of; None = all of them, () for rows without an after image.
        nulled, unmapped: Names of columns; () for none, as for nearly all rows.
        reason: Why a record is bad.
    """

    types: ChangeTypes
    records: Sequence[Record]
    envelopes: Sequence[Envelope]
    kind: list[RecordKind]
    op: list[str | None]
    key: list[Key | None]
    previous_key: list[Key | None]
    after: Images
    before: Images
    present: list[tuple[str, ...] | None]
    nulled: list[tuple[str, ...]]
    unmapped: list[tuple[str, ...]]
    reason: list[str | None] = field(default_factory=list)
    _positions: pa.StructArray | None = None

    def __len__(self) -> int:
        return len(self.kind)

    def feed(self) -> pa.Table:
        """Returns the rows with all columns of `core.events.change_feed.feed_columns` but `raw`."""
        types, records, envelopes = self.types, self.records, self.envelopes
        tables = [{"schema": one.schema or None, "name": one.table or None} if one.table or one.schema else None for one in envelopes]
        every = [column.name for column in types.schema.columns]
        image = types.image
        before = _struct(self.before.columns, self.before.has, image) if self.before.columns else pa.nulls(len(self), image)
        return pa.table(
            {
                "kind": pa.array([str(one) for one in self.kind], pa.string()),
                "op": pa.array(self.op, pa.string()),
                "snapshot": pa.array([one.snapshot for one in envelopes], pa.bool_()),
                "table": pa.array(tables, pa.struct([("schema", pa.string()), ("name", pa.string())])),
                "key": self.keys(self.key),
                "previous_key": self.keys(self.previous_key),
                "before": before,
                "after": self.images(),
                "present": pa.array([every if one is None else list(one) for one in self.present], NAMES),
                "nulled": pa.array([list(one) for one in self.nulled], NAMES),
                "unmapped": pa.array([list(one) for one in self.unmapped], NAMES),
                "position": self.positions(),
                "transaction": pa.array([one.transaction for one in envelopes], pa.string()),
                "source_time": pa.array([one.source_time for one in envelopes], pa.timestamp("us", tz="UTC")),
                "ddl": pa.array([one.ddl for one in envelopes], pa.string()),
                "reason": pa.array(self.reason, pa.string()),
                "file": pa.array([one.file for one in records], pa.string()),
                "line": pa.array([one.line for one in records], pa.int64()),
            }
        )

    def images(self) -> pa.StructArray:
        """Returns the after images as a struct."""
        return _struct(self.after.columns, self.after.has, self.types.image)

    def keys(self, keys: Sequence[Key | None]) -> pa.StructArray:
        """Returns keys as a struct."""
        indexes = self.types.key_indexes
        if keys and None not in keys:
            parts = list(zip(*keys, strict=True))
        else:
            parts = [tuple(None if key is None else key[part] for key in keys) for part in range(len(indexes))]
        columns = [pa.array(part, self.types.columns[index]) for part, index in zip(parts, indexes, strict=True)]
        return _struct(columns, [key is not None for key in keys], self.types.key)

    def positions(self) -> pa.StructArray:
        """Returns the positions as a struct; a record without any has NULLs."""
        if self._positions is None:
            order = self.types.spec.order
            none = (None,) * len(order)
            places = list(zip(*[one.position or none for one in self.envelopes], strict=True)) or [()] * len(order)
            columns = [pa.array(numbers, kind) for numbers, kind in zip(places, self.types.position, strict=True)]
            self._positions = pa.StructArray.from_arrays(columns, names=[part.name for part in order])
        return self._positions


def _struct(columns: Sequence[pa.Array], has: Sequence[bool], kind: pa.StructType) -> pa.StructArray:
    mask = pa.array(~np.fromiter(has, np.bool_, len(has)))
    return pa.StructArray.from_arrays(columns, fields=list(kind), mask=mask)


def empty_batch(types: ChangeTypes) -> ChangeBatch:
    """Returns no rows."""
    after = Images(tuple(pa.array([], kind) for kind in types.columns), [])
    return ChangeBatch(types, (), (), [], [], [], [], after, Images((), []), [], [], [], [])
