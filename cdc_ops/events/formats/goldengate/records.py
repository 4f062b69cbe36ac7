"""Oracle GoldenGate's JSON, operation by operation.

    {"table": "PDB.SHOP.ORDERS", "op_type": "U", "op_ts": "2024-03-01 09:00:00.000000", "current_ts": "…", "pos": "00000000020000001444",
     "primary_keys": ["ID"], "tokens": {…}, "before": {…}, "after": {…}}

Updates have the columns of the trail: of a compressed one, the key and the changed columns. A column that an image lacks is missing, not
NULL; some versions mark it by a member `<column>_isMissing`. Field layouts: GoldenGate for Big Data, pluggable formatters, JSON.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec
from msgspec import Raw

from cdc_ops.core.events.format_spec import EventOperation, FormatOptions, FormatSpec, RecordKind
from cdc_ops.core.schema.logical_types import LogicalType, logical_type_of
from cdc_ops.core.schema.tables import Column
from cdc_ops.events.conversion.bulk import reader_of
from cdc_ops.events.conversion.json_text import image_of, text_of
from cdc_ops.events.conversion.moments import instant
from cdc_ops.events.conversion.values import from_text
from cdc_ops.events.format import Format, Read, Reader
from cdc_ops.events.formats.goldengate.specs import GOLDENGATE
from cdc_ops.events.images import completed, image_of_values, text_in, without
from cdc_ops.events.record import Envelope, FieldType, Image, Record
from cdc_ops.events.said import known

_OPERATIONS: Final[dict[str | None, EventOperation]] = {
    "I": EventOperation.CREATE,
    "U": EventOperation.UPDATE,
    "D": EventOperation.DELETE,
    "T": EventOperation.TRUNCATE,
}
_MISSING: Final = "_isMissing"
_TRANSACTION: Final = "6"
"""The token that holds the source's transaction number."""
_MOMENT: Final = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2})[ :T]([0-9]{2}:[0-9]{2}:[0-9]{2})(?:(\.[0-9]{1,6})0*)?")
_MIDNIGHT: Final = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2})[ :T]00:00:00(?:\.0+)?")
_POSITION: Final = re.compile(r"[0-9]{1,36}")


class _Record(msgspec.Struct):
    table: Raw = Raw()
    op_type: Raw = Raw()
    op_ts: Raw = Raw()
    pos: Raw = Raw()
    tokens: Raw = Raw()
    before: Raw = Raw()
    after: Raw = Raw()


_DECODER: Final = msgspec.json.Decoder(_Record)


@dataclass(frozen=True, slots=True, kw_only=True)
class GoldenGateJson:
    """The format `goldengate-json`."""

    spec: FormatSpec
    options: FormatOptions
    with_before: bool = field(init=False)
    time: Read = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "with_before", "GETUPDATEBEFORES=false" not in self.options.accept_losses)
        object.__setattr__(self, "time", instant(self.options.time_zone or "UTC"))

    def envelopes(self, record: Record) -> Sequence[Envelope]:
        """See `Format`."""
        assert record.value is not None
        said = _DECODER.decode(record.value)
        before, after = _known(said.before), _known(said.after)
        letter, happened, position = text_of(said.op_type), text_of(said.op_ts), text_of(said.pos)
        op = _OPERATIONS.get(letter)
        schema, table = _name(text_of(said.table))
        envelope = Envelope(
            kind=RecordKind.CHANGE,
            op=op,
            schema=schema,
            table=table,
            transaction=text_in(image_of(said.tokens), _TRANSACTION),
            source_time=None if happened is None else known(self.time(_moment(happened))),
            position=(int(position) if position is not None and _POSITION.fullmatch(position) else None,),
        )
        if op is EventOperation.UPDATE and before is None and self.with_before:
            envelope.kind, envelope.reason = RecordKind.BAD, "the record has no before image"
        elif op is None:
            envelope.kind, envelope.reason = RecordKind.BAD, f"unknown op_type {'NULL' if letter is None else letter}"
        elif op is EventOperation.UPDATE:
            envelope.before, envelope.after = completed(after, before), completed(before, after)
        elif op is EventOperation.DELETE:
            envelope.before = before
        elif op is EventOperation.CREATE:
            envelope.after = after
        return (envelope,)

    def reader(self, column: Column, kind: FieldType | None) -> Reader:
        """See `Format`."""
        read = from_text(column, self.options.time_zone)
        match logical_type_of(column):
            case LogicalType.DATE:
                return reader_of(_after(_day, read))
            case LogicalType.WALL_CLOCK | LogicalType.INSTANT | LogicalType.MOMENT_TEXT:
                return reader_of(_after(_moment, read))
            case _:
                return reader_of(read)


def _after(change: Callable[[str], str], read: Read) -> Read:
    return lambda text: read(change(text))


def _day(text: str) -> str:
    """Returns the date of a midnight; other texts stay unchanged."""
    found = _MIDNIGHT.fullmatch(text)
    return text if found is None else found[1]


def _moment(text: str) -> str:
    """Returns date and time with a blank between them, without zeros behind the sixth digit of a second; other texts stay unchanged."""
    found = _MOMENT.fullmatch(text)
    return text if found is None else f"{found[1]} {found[2]}{found[3] or ''}"


def _name(text: str | None) -> tuple[str, str]:
    """Returns schema and table of PDB.SCHEMA.TABLE, or SCHEMA.TABLE."""
    parts = (text or "").split(".")
    return (parts[-2] if len(parts) > 1 else "", parts[-1])


def _known(raw: Raw) -> Image | None:
    """Returns an image without the columns that are missing, and without the members that mark these."""
    image = image_of_values(raw)
    marks = [name for name in image or () if name.endswith(_MISSING)]
    if image is None or not marks:
        return image
    missing = {name for name in image if text_in(image, name + _MISSING) == "true"}
    return without(image, raw, missing.union(mark for mark in marks if mark.replace(_MISSING, "") in image))


def open_format(options: FormatOptions) -> Format:
    """Opens the format `goldengate-json`."""
    return GoldenGateJson(spec=GOLDENGATE, options=options)
