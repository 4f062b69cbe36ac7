"""Types the envelopes of one table by its columns: the rows of its canonical feed.

A record whose images, key or position cannot be read exactly becomes `bad`, with the columns and the reason; nothing of it is applied.
"""

from collections.abc import Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Any, Final

import msgspec
import pyarrow as pa
from msgspec import Raw

from cdc_ops.core.events.format_spec import WHOLE_ROW, EventOperation, RecordKind, RowImage
from cdc_ops.core.schema.logical_types import LogicalType, logical_type_of
from cdc_ops.core.schema.tables import Column, TableName, TableSchema
from cdc_ops.core.schema.value_policies import OnUnstorable
from cdc_ops.events.change import ChangeBatch, ChangeTypes, Images, Key
from cdc_ops.events.conversion.json_text import text_of
from cdc_ops.events.conversion.typed_images import TypedImages
from cdc_ops.events.format import UNREADABLE, UNSTORABLE, Bulk, Format, NoValue, Reader
from cdc_ops.events.images import take_apart
from cdc_ops.events.record import Cell, DoubledImage, Envelope, FieldType, Image, Record

_OPERATIONS: Final = frozenset(str(operation) for operation in EventOperation)
_PLAIN_OPERATIONS: Final = frozenset(map(str, (EventOperation.READ, EventOperation.CREATE, EventOperation.UPDATE)))
_WITH_ROW: Final = (EventOperation.READ, EventOperation.CREATE, EventOperation.UPDATE)
_SHOWN: Final = 40
"""Characters of a value that a reason shows."""
_FEW: Final = 32
"""Records for which no parser is made."""
_SPELLINGS: Final = 16
"""Parsers that are made: a scan pauses the collector, which alone removes them."""
_FAILURES: Final = 2
"""Batches more than those that could be parsed by the table's types, after which no other is tried."""
_ENCODER: Final = msgspec.json.Encoder()


def is_of(envelope: Envelope, table: TableName) -> bool:
    """True for what a record says of a table, and for what names no table: records that are no JSON, statements, `control` records."""
    return not envelope.table or (envelope.table == table.name and envelope.schema == table.schema)


class TableReader:
    """Reads the envelopes of one table.

    Args:
        form: The format that took the records apart.
        schema: The table, as the source has it.
        keys: The columns that identify a row.
        before: False if before images are not asked for: only their key is read.
    """

    def __init__(self, form: Format, schema: TableSchema, keys: Sequence[str], *, before: bool = True) -> None:
        self._form = form
        self.types = ChangeTypes(form.spec, schema, tuple(keys))
        self._names = [column.name for column in schema.columns]
        self._every = frozenset(self._names)
        in_key = self.types.key_indexes
        self._after = [_ColumnReader(form, schema, index) for index in range(len(self._names))]
        self._before = [reader for reader in self._after if before or reader.index in in_key]
        self._with_before = before
        self._parsers: dict[int, tuple[Mapping[str, FieldType] | None, TypedImages, TypedImages]] = {}
        """Of before and after images, by the identity of what the records say of their values."""
        self._typed = self._not_typed = 0
        """Batches whose images could be parsed by the table's types, and those that could not."""
        self._odd: set[str] = set()
        """Columns that had values which are not plain: they are not parsed with the others."""

    def read(self, records: Sequence[Record], envelopes: Sequence[Envelope]) -> ChangeBatch:
        """Returns the rows of some envelopes.

        Args:
            records: The record of each envelope.
            envelopes: Of this table, or of none: see `is_of`.

        Raises:
            ValueTooLargeError: a column does not hold a value, and can be widened.
        """
        before, after = self._typed_sides(envelopes) or self._sides(envelopes)
        before.keys, after.keys = (side.key(self.types.key_indexes) for side in (before, after))
        batch = self._empty(records, envelopes)
        unusual = self._unusual(batch, before, after)
        if len(unusual) < len(batch):
            self._fill_plain(batch, before, after, unusual)
        for index in unusual:
            envelope = envelopes[index]
            if envelope.kind is RecordKind.CHANGE:
                self._change(batch, index, envelope, before, after)
            else:
                batch.reason[index] = envelope.reason
        batch.after.columns = after.arrays(self.types)
        batch.before.columns = before.arrays(self.types) if self._with_before else ()
        return batch

    def _sides(self, envelopes: Sequence[Envelope]) -> tuple["_Side", "_Side"]:
        take_apart(envelopes)
        types = self.types.columns
        before, after = _Side("before", envelopes, self._before, types), _Side("after", envelopes, self._after, types)
        odd = before.odd | after.odd
        if not odd <= self._odd:
            self._odd |= odd
            self._parsers.clear()
        return before, after

    def _typed_sides(self, envelopes: Sequence[Envelope]) -> tuple["_Side", "_Side"] | None:
        """Returns the same of images that are still JSON, and that have the table's columns and plain values; None for others."""
        sides = {type(one.after) for one in envelopes} | {type(one.before) for one in envelopes}
        if len(envelopes) < _FEW or sides | {type(None)} != {Raw, type(None)} or self._not_typed > self._typed + _FAILURES:
            return None
        types = {id(one.types): one.types for one in envelopes if one.before is not None or one.after is not None}
        if len(types) != 1 or (len(self._parsers) >= _SPELLINGS and not types.keys() <= self._parsers.keys()):
            return None
        [kinds] = types.values()
        try:
            found = self._of_json(envelopes, kinds)
        except ValueError:
            self._not_typed += 1
            return None
        self._typed += 1
        return found

    def _of_json(self, envelopes: Sequence[Envelope], kinds: Mapping[str, FieldType] | None) -> tuple["_Side", "_Side"]:
        if id(kinds) not in self._parsers:
            names = {reader.column.name: reader for reader in self._after}
            bulks = {name: names[name].bulk(kinds) if name not in self._odd else None for name in names}
            unread = () if self._with_before else self._every - {one.column.name for one in self._before}
            self._parsers[id(kinds)] = kinds, TypedImages(bulks, unread), TypedImages(bulks)
        _, before, after = self._parsers[id(kinds)]
        types = self.types.columns
        return _Side("before", envelopes, self._before, types, before), _Side("after", envelopes, self._after, types, after)

    def _unusual(self, batch: ChangeBatch, before: "_Side", after: "_Side") -> Sequence[int]:
        """Returns the rows that are not whole rows which keep their key and have nothing wrong: those that `_change` looks at.

        Most batches have next to none; what none of a batch has is found without a look at each row.
        """
        found: set[int] = {*before.problems, *after.problems, *after.nulled}
        if not after.is_whole:
            every = self._every
            found.update(index for index, image in enumerate(after.images) if image.__class__ is not dict or image.keys() != every)
        change, envelopes = RecordKind.CHANGE, batch.envelopes
        if set(batch.kind) != {change}:
            found.update(index for index, kind in enumerate(batch.kind) if kind is not change)
        if not set(ops := [one.op for one in envelopes]) <= _PLAIN_OPERATIONS:
            found.update(index for index, op in enumerate(ops) if op not in _PLAIN_OPERATIONS)
        if None in after.images:
            found.update(index for index, image in enumerate(after.images) if image is None)
        if DoubledImage in set(map(type, before.images)):
            found.update(index for index, image in enumerate(before.images) if image.__class__ is DoubledImage)
        if None in after.keys:
            found.update(index for index, key in enumerate(after.keys) if key is None)
        found.update(index for index, (old, new) in enumerate(zip(before.keys, after.keys, strict=True)) if old != new and old is not None)
        if any(part.null_count for part in batch.positions().flatten()):
            found.update(index for index, one in enumerate(envelopes) if not one.position or None in one.position)
        if self._form.spec.names_table and not all(one.table for one in envelopes):
            found.update(index for index, one in enumerate(envelopes) if not one.table)
        return sorted(found)

    def _fill_plain(self, batch: ChangeBatch, before: "_Side", after: "_Side", unusual: Sequence[int]) -> None:
        """Fills in the rows that are not unusual, as `_change` does; leaves those that are as they were."""
        count = len(batch)
        batch.op, batch.key = [one.op for one in batch.envelopes], list(after.keys)
        batch.after.has, batch.before.has = [True] * count, [image is not None for image in before.images]
        batch.present = [None] * count
        for index in unusual:
            batch.op[index] = batch.key[index] = None
            batch.after.has[index] = batch.before.has[index] = False
            batch.present[index] = ()

    def _empty(self, records: Sequence[Record], envelopes: Sequence[Envelope]) -> ChangeBatch:
        count = len(envelopes)
        return ChangeBatch(
            types=self.types,
            records=records,
            envelopes=envelopes,
            kind=[one.kind for one in envelopes],
            op=[None] * count,
            key=[None] * count,
            previous_key=[None] * count,
            after=Images((), [False] * count),
            before=Images((), [False] * count),
            present=[()] * count,
            nulled=[()] * count,
            unmapped=[()] * count,
            reason=[None] * count,
        )

    def _change(self, batch: ChangeBatch, index: int, envelope: Envelope, before: "_Side", after: "_Side") -> None:
        """Fills in the row of a change, or of the bad record that it turns out to be."""
        op, old, new = envelope.op, before.keys[index], after.keys[index]
        key = old if op == EventOperation.DELETE else (new or old)
        moved = op == EventOperation.UPDATE and old is not None and old != key
        image = envelope.after
        found = self._found(image)
        problems = (before.problems.get(index), after.problems.get(index))
        if (
            any(problems)
            or op not in _OPERATIONS
            or None in envelope.position
            or not envelope.position
            or (key is None and op != EventOperation.TRUNCATE)
            or (image is None and op in _WITH_ROW)
            or (not envelope.table and self._form.spec.names_table)
            or (moved and found is not None and self._form.spec.images is RowImage.PARTIAL)
            or envelope.before.__class__ is DoubledImage
            or image.__class__ is DoubledImage
        ):
            wrong = [*self._problems(envelope, key, moved=moved, found=found), *(one for some in problems for one in some or ())]
            if wrong:
                batch.kind[index], batch.reason[index] = RecordKind.BAD, "; ".join(wrong)
                return
        batch.op[index], batch.key[index] = op, key
        if moved:
            batch.previous_key[index] = old
        batch.before.has[index] = envelope.before is not None
        if op != EventOperation.DELETE:
            batch.after.has[index] = image is not None
            if image is not None:
                batch.present[index] = None if self._form.spec.sparse and op in WHOLE_ROW else found
            batch.nulled[index] = after.nulled.get(index, ())
        if image is not None and not isinstance(image, Raw) and (found is not None or len(image) != len(self._names)):
            batch.unmapped[index] = tuple(name for name in image if name not in self._every)

    def _found(self, image: Image | Raw | None) -> tuple[str, ...] | None:
        """Returns the columns that an image has, None if it has all of them; one that is still JSON has those of the table."""
        if image is None:
            return ()
        if isinstance(image, Raw) or self._every <= image.keys():
            return None
        return tuple(name for name in self._names if name in image)

    def _problems(self, envelope: Envelope, key: Key | None, *, moved: bool, found: tuple[str, ...] | None) -> Iterator[str]:
        """Yields what is wrong with a change beside its values."""
        op, spec = envelope.op, self._form.spec
        if op not in _OPERATIONS:
            yield f"unknown operation {'NULL' if op is None else op}"
        if not envelope.table and spec.names_table:
            yield "the record has no table name"
        if not envelope.position or None in envelope.position:
            yield "the record has no complete position"
        if op in _WITH_ROW and envelope.after is None:
            yield "the record has no after image"
        if op is not None and op != EventOperation.TRUNCATE and key is None:
            yield "the record does not have all key columns"
        for name, image in (("before", envelope.before), ("after", envelope.after)):
            if isinstance(image, DoubledImage):
                yield f"the {name} image has a column twice"
        if moved and found is not None and spec.images is RowImage.PARTIAL and not isinstance(envelope.after, DoubledImage):
            yield "the update changes the key, and its after image does not have all columns"


class _ColumnReader:
    """Reads one column; how its values are written may differ from record to record."""

    def __init__(self, form: Format, schema: TableSchema, index: int) -> None:
        self.index, self.column = index, schema.columns[index]
        self._form = form
        self._readers: dict[FieldType | None, Reader] = {}
        self._must_not_be_lost = _must_not_be_lost(schema, self.column)

    def reader(self, kind: FieldType | None) -> Reader:
        """Returns the reader of values that are written so."""
        found = self._readers.get(kind)
        if found is None:
            found = self._readers[kind] = self._form.reader(self.column, kind)
        return found

    def bulk(self, kinds: Mapping[str, FieldType] | None) -> Bulk | None:
        """Returns how values are read at once that are written as the record's types say."""
        return self.reader(kinds.get(self.column.name) if kinds is not None else None).bulk

    def problem(self, side: str, text: str, value: NoValue, envelope: Envelope) -> str | None:
        """Returns why a value makes its record bad, None if NULL may stand for it."""
        said = f"column {self.column.name!r} of the {side} image: {text[:_SHOWN]}"
        if value is UNSTORABLE:
            return f"{said} does not fit the stored type, and the policy is to fail" if self._must_not_be_lost else None
        types = envelope.types
        untyped = "" if types is not None else self.reader(None).untyped
        return f"{said} cannot be read as {self.column.source_type}{untyped}"


class _Side:
    """The images before or after some events, read column by column.

    Args:
        name: `before` or `after`.
        envelopes: The events.
        readers: The columns that are read.
        stored: The types of all columns.
        parser: Parses images that are still JSON.

    Raises:
        ValueError: they are not as the parser has them.
    """

    def __init__(
        self,
        name: str,
        envelopes: Sequence[Envelope],
        readers: Sequence[_ColumnReader],
        stored: Sequence[pa.DataType],
        parser: TypedImages | None = None,
    ) -> None:
        self.name = name
        self._stored = stored
        self.keys: list[Key | None] = []
        """The key of each row, None where a part is missing."""
        self.problems: dict[int, list[str]] = {}
        """Why records are bad, by their index."""
        self.nulled: dict[int, tuple[str, ...]] = {}
        """Columns of records whose value the stored type does not hold, by their index."""
        self.columns: dict[int, list[Any] | pa.Array] = {}
        """The values by the column's number; None where there is none."""
        self.odd: set[str] = set()
        """Columns whose values could be read at once, were they plain."""
        change, side = RecordKind.CHANGE, attrgetter(name)
        self.images: list[Any] = [side(one) if one.kind is change else None for one in envelopes]
        """The images of changes, None where there is none."""
        self._envelopes = envelopes
        types = {id(one.types): one.types for one, image in zip(envelopes, self.images, strict=True) if image is not None}
        self._types = next(iter(types.values())) if types else None
        self._is_of_one_kind = len(types) == 1
        every = parser.columns(self.images) if parser is not None else _columns(self.images) if len(readers) == len(stored) else None
        self.is_whole = every is not None and every.keys() == {reader.column.name for reader in readers}
        """True if each image that there is has all of the table's columns, no others, and none of them twice."""
        for reader in readers:
            name = reader.column.name
            cells = every.get(name) if every is not None else None
            if cells is None:
                cells = [None if image is None else image.get(name) for image in self.images]
            self.columns[reader.index] = self._read(reader, cells, typed=parser is not None and name in parser.typed)

    def _read(self, reader: _ColumnReader, cells: Sequence[Any], *, typed: bool) -> pa.Array | list[Any]:
        """Returns the values of a column: at once if all of them are plain, and written alike; otherwise each is read by itself.

        Args:
            reader: Reads the column.
            cells: Its values.
            typed: They are parsed already; `ValueError` is raised unless all of them are plain.
        """
        bulk = reader.bulk(self._types) if self._is_of_one_kind else None
        if bulk is not None:
            try:
                found = bulk.read(cells) if typed else bulk.of_json(_ENCODER.encode(cells))
                if len(found) == len(cells) and found.type == self._stored[reader.index]:
                    return found
            except ValueError:  # not plain
                self.odd.add(reader.column.name)
        if typed and any(cell is not None for cell in cells):
            raise ValueError("not plain")
        return self._read_each(reader, cells)

    def _read_each(self, reader: _ColumnReader, cells: Sequence[Cell]) -> list[Any]:
        values: list[Any] = [None] * len(self._envelopes)
        name, types, read = reader.column.name, None, reader.reader(None).read
        for index, cell in enumerate(cells):
            if cell is None:
                continue
            envelope = self._envelopes[index]
            try:
                text = text_of(cell)
            except (msgspec.DecodeError, UnicodeDecodeError):
                text, value = "?", UNREADABLE
            else:
                if text is None:
                    continue
                if envelope.types is not types:
                    types = envelope.types
                    read = reader.reader(types.get(name) if types is not None else None).read
                value = read(text)
            if value.__class__ is NoValue:
                self._note(reader, index, text, value, envelope)
            else:
                values[index] = value
        return values

    def _note(self, reader: _ColumnReader, index: int, text: str, value: NoValue, envelope: Envelope) -> None:
        why = reader.problem(self.name, text, value, envelope)
        if why is not None:
            self.problems.setdefault(index, []).append(why)
        else:
            self.nulled[index] = (*self.nulled.get(index, ()), reader.column.name)

    def key(self, indexes: Sequence[int]) -> list[Key | None]:
        """Returns the key of each row, None where a part is missing."""
        parts = [values if isinstance(values := self.columns[index], list) else _plain(values) for index in indexes]
        if not any(None in part for part in parts):
            return list(zip(*parts, strict=True))
        return [None if None in key else key for key in zip(*parts, strict=True)]

    def arrays(self, types: ChangeTypes) -> tuple[pa.Array, ...]:
        """Returns the columns as Arrow; what those have of rows without this image is not to be looked at."""
        return tuple(
            pa.array(values, kind) if isinstance(values := self.columns[index], list) else values
            for index, kind in enumerate(types.columns)
        )


def _columns(images: Sequence[Image | None]) -> dict[str, Sequence[Cell]] | None:
    """Returns the columns of images that all have the same ones in one order, and none twice; None for others.

    Args:
        images: None where there is none: so are its cells then.
    """
    shapes = set(map(tuple, [image for image in images if image is not None]))
    if len(shapes) != 1 or DoubledImage in set(map(type, images)):
        return None
    [names] = shapes
    nothing: Image = dict.fromkeys(names)
    cells = zip(*[(nothing if image is None else image).values() for image in images], strict=True)
    return dict(zip(names, cells, strict=True))


def _plain(values: pa.Array) -> list[Any]:
    """Returns values as readers return them: dates and timestamps as numbers."""
    kind = values.type
    if pa.types.is_date32(kind):
        values = values.cast(pa.int32())
    elif pa.types.is_timestamp(kind):
        values = values.cast(pa.int64())
    if pa.types.is_integer(values.type) and not values.null_count:
        values = values.to_numpy()
        return values.tolist()  # type: ignore[no-any-return]
    found: list[Any] = values.to_pylist()
    return found


def _must_not_be_lost(schema: TableSchema, column: Column) -> bool:
    types = schema.types.for_column(column.name)
    policy = types.nan_values if logical_type_of(column) is LogicalType.DECIMAL else types.zero_dates
    return policy is OnUnstorable.FAIL
