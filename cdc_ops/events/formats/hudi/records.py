r"""The flat change query of Apache Hudi, `op, ts_ms, before, after`, as JSON lines.

    {"op": "u", "ts_ms": "20230129220619988", "before": "{\"id\": 2, …}", "after": {"id": 2, …}}

`ts_ms` is the instant of a commit on the table's timeline, a number of 17 digits that no two commits share; within one commit a key changes
once. Records do not name their table. Field layouts: Hudi's change data capture query.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import msgspec
from msgspec import Raw

from cdc_ops.core.events.format_spec import EventOperation, FormatOptions, FormatSpec, RecordKind
from cdc_ops.core.schema.tables import Column
from cdc_ops.events.conversion.bulk import reader_of
from cdc_ops.events.conversion.json_text import text_of
from cdc_ops.events.conversion.values import from_text
from cdc_ops.events.format import Format, Reader
from cdc_ops.events.formats.hudi.specs import HUDI
from cdc_ops.events.images import image_of_values, without
from cdc_ops.events.record import DoubledImage, Envelope, FieldType, Image, Record

_OPERATIONS: Final[dict[str | None, EventOperation]] = {
    "i": EventOperation.CREATE,
    "u": EventOperation.UPDATE,
    "d": EventOperation.DELETE,
}
_META: Final = "_hoodie_"
_INSTANT: Final = re.compile(r"[0-9]{14}(?:[0-9]{3})?")


class _Record(msgspec.Struct):
    op: Raw = Raw()
    ts_ms: Raw = Raw()
    before: Raw = Raw()
    after: Raw = Raw()


_DECODER: Final = msgspec.json.Decoder(_Record)


@dataclass(frozen=True, slots=True, kw_only=True)
class HudiCdc:
    """The format `hudi-cdc`."""

    spec: FormatSpec
    options: FormatOptions

    def envelopes(self, record: Record) -> Sequence[Envelope]:
        """See `Format`."""
        assert record.value is not None
        said = _DECODER.decode(record.value)
        before, after = _image(said.before), _image(said.after)
        letter, commit = text_of(said.op), text_of(said.ts_ms)
        instant = int(commit.ljust(17, "0")) if commit is not None and _INSTANT.fullmatch(commit) else None
        op = _OPERATIONS.get(letter)
        envelope = Envelope(kind=RecordKind.CHANGE, op=op, transaction=commit, position=(instant,))
        if op is None:
            envelope.kind, envelope.reason = RecordKind.BAD, f"unknown op {'NULL' if letter is None else letter}"
            return (envelope,)
        envelope.before = before
        envelope.after = None if op is EventOperation.DELETE else after
        return (envelope,)

    def reader(self, column: Column, kind: FieldType | None) -> Reader:
        """See `Format`."""
        return reader_of(from_text(column, self.options.time_zone))


def _image(raw: Raw) -> Image | None:
    """Returns an image without Hudi's metadata columns; the record has it as an object, or as the JSON text of an object."""
    if bytes(raw)[:1] == b"{":
        image = image_of_values(raw)
        if isinstance(image, DoubledImage):
            raise msgspec.DecodeError("a member is there twice")
    else:
        text = text_of(raw)
        if text is None or not text.startswith("{"):
            return None
        try:
            raw = Raw(text.encode())
            image = image_of_values(raw)
        except (msgspec.DecodeError, UnicodeEncodeError):
            return None
    meta = [name for name in image or () if name.startswith(_META)]
    return without(image, raw, meta) if image is not None and meta else image


def open_format(options: FormatOptions) -> Format:
    """Opens the format `hudi-cdc`."""
    return HudiCdc(spec=HUDI, options=options)
