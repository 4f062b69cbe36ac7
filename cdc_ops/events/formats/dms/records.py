"""AWS DMS on S3, as CSV or as Parquet.

    shop/orders/LOAD00000001.csv                    id,name,AR_H_CHANGE_SEQ
                                                    1,Lee,
    shop/orders/2024/03/01/20240301-090000123.csv   Op,id,name,AR_H_CHANGE_SEQ,BI_id
                                                    U,1,Ann,20240301090000000000000000000000017,1

The format gets each row as a JSON object. Rows do not name their table; the folders of their file do, if the archive has such folders.
Field layouts: AWS DMS user guide, Amazon S3 as a target, and transformation rules.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final, NamedTuple

import msgspec

from cdc_ops.core.events.change_feed import LANDED_NUMBER
from cdc_ops.core.events.format_spec import EventOperation, FormatOptions, FormatSpec, RecordKind, setting
from cdc_ops.core.schema.logical_types import LogicalType, logical_type_of
from cdc_ops.core.schema.tables import Column
from cdc_ops.events.conversion.bulk import reader_of
from cdc_ops.events.conversion.json_text import members_of
from cdc_ops.events.conversion.moments import instant
from cdc_ops.events.conversion.octets import base64
from cdc_ops.events.conversion.values import decimal, from_text
from cdc_ops.events.format import Format, NoValue, Read, Reader
from cdc_ops.events.formats.dms.specs import BEFORE, CHANGE_SEQ, DMS_CSV, DMS_PARQUET, NONE, PREFIX, TIMESTAMP
from cdc_ops.events.images import completed, text_in
from cdc_ops.events.record import NOT_JSON, Envelope, FieldType, Image, Record
from cdc_ops.events.said import known

_OP: Final = "Op"
_OPERATIONS: Final[dict[str | None, EventOperation]] = {
    "I": EventOperation.CREATE,
    "U": EventOperation.UPDATE,
    "D": EventOperation.DELETE,
}
_LOAD: Final = re.compile(r"(?:^|/)LOAD[0-9A-Fa-f]{5,}\.[^/]*$")
_CDC: Final = re.compile(r"(?:^|/)([0-9]{8})-([0-9]{6})([0-9]{0,9})\.[^/]*$")
_FOLDERS: Final = re.compile(r"(?:^|/)(?![0-9_-]+/)([^/]+)/(?![0-9_-]+/)([^/]+)/(?:[0-9_-]+/)*[^/]+$")
"""Matches schema and table; folders of digits are dates."""
_SEQUENCE: Final = decimal(Column(name=CHANGE_SEQ, source_type="decimal(35,0)", delta_type="decimal(35,0)", nullable=True, expression=""))


class _File(NamedTuple):
    """What the name of a file says.

    Args:
        is_load: It has rows of the full load.
        schema, table: "" if it does not say.
        time: When it was written, as a number of 23 digits; 0 if it does not say.
    """

    is_load: bool
    schema: str
    table: str
    time: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Dms:
    """The formats `aws-dms-csv` and `aws-dms-parquet`.

    Args:
        spec: What it declares.
        options: From the pipeline file.
        sequence: Column of the change's sequence, or `none`.
        timestamp: Column of the change's time.
        prefix: Of before-image columns; None if there are none.
        time: Reads the change's time.
    """

    spec: FormatSpec
    options: FormatOptions
    sequence: str
    timestamp: str
    prefix: str | None
    time: Read

    def envelopes(self, record: Record) -> Sequence[Envelope]:
        """See `Format`."""
        assert record.value is not None
        file = _file(record.file)
        try:
            row = members_of(record.value)
        except msgspec.DecodeError:
            return (Envelope(RecordKind.BAD, schema=file.schema, table=file.table, reason=NOT_JSON),)
        letter = text_in(row, _OP)
        op = _OPERATIONS.get(letter) if not file.is_load else EventOperation.READ if letter in ("I", None) else None
        happened = None if file.is_load else text_in(row, self.timestamp)
        envelope = Envelope(
            kind=RecordKind.CHANGE,
            op=op,
            snapshot=file.is_load,
            schema=file.schema,
            table=file.table,
            source_time=None if happened is None else known(self.time(happened)),
            position=self._position(record, row, file),
        )
        image, before = self._images(row)
        if op is EventOperation.UPDATE and before is not None and not before:
            envelope.kind, envelope.reason = RecordKind.BAD, "the record has no before-image columns"
        elif op is None:
            envelope.kind, envelope.reason = RecordKind.BAD, f"unknown Op {'NULL' if letter is None else letter}"
        elif op is EventOperation.DELETE:
            envelope.before = image
        else:
            envelope.before = completed(image, before) if op is EventOperation.UPDATE and before else None
            envelope.after = image
        return (envelope,)

    def reader(self, column: Column, kind: FieldType | None) -> Reader:
        """See `Format`."""
        if logical_type_of(column) is LogicalType.BINARY:
            return reader_of(base64(column))
        return reader_of(from_text(column, self.options.time_zone))

    def _images(self, row: Image) -> tuple[Image, Image | None]:
        """Returns the row, and the before image from the before-image columns."""
        own, prefix = (_OP, self.sequence, self.timestamp), self.prefix
        image = {name: cell for name, cell in row.items() if name not in own}
        if prefix is None:
            return image, None
        before = {name[len(prefix) :]: cell for name, cell in image.items() if name.startswith(prefix)}
        return {name: cell for name, cell in image.items() if not name.startswith(prefix)}, before

    def _position(self, record: Record, row: Image, file: _File) -> tuple[int | None, ...]:
        number: int | None = LANDED_NUMBER
        if not file.is_load and self.sequence != NONE:
            text = text_in(row, self.sequence)
            found = None if text is None else _SEQUENCE(text.strip())
            number = None if found is None or isinstance(found, NoValue) else int(found)
        return (int(not file.is_load), number, file.time, record.line)


@cache
def _file(path: str) -> _File:
    is_load = _LOAD.search(path) is not None
    folders, written = _FOLDERS.search(path), _CDC.search(path)
    schema, table = folders.groups() if folders is not None else ("", "")
    time = LANDED_NUMBER if is_load else 0 if written is None else int(f"{written[1]}{written[2]}{written[3].ljust(9, '0')}")
    return _File(is_load=is_load, schema=schema, table=table, time=time)


def open_format(options: FormatOptions) -> Format:
    """Opens the formats `aws-dms-csv` and `aws-dms-parquet`."""
    spec = DMS_CSV if options.name == DMS_CSV.name else DMS_PARQUET
    return Dms(
        spec=spec,
        options=options,
        sequence=setting(spec, options, CHANGE_SEQ),
        timestamp=setting(spec, options, TIMESTAMP),
        prefix=None if setting(spec, options, BEFORE) == NONE else setting(spec, options, PREFIX),
        time=instant(options.time_zone or "UTC"),
    )
