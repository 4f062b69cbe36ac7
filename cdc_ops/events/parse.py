"""Takes records apart by their format; whatever a record is, it comes out as at least one envelope."""

from collections.abc import Sequence
from contextlib import suppress
from typing import Final

import msgspec
import pyarrow as pa

from cdc_ops.core.events.format_spec import RecordKind
from cdc_ops.events.format import Format, ReadsAtOnce
from cdc_ops.events.images import take_apart
from cdc_ops.events.record import MOST_OF_TOMBSTONE, NOT_JSON, NOT_UTF8, Envelope, NotOfFormatError, Record, is_tombstone

_NOT_OF_FORMAT: Final = (NotOfFormatError, msgspec.DecodeError, RecursionError)


def envelopes_of(form: Format, record: Record) -> Sequence[Envelope]:
    """Returns what a record says. One that is not UTF-8 or not of its format is `bad`, one without a value a `control` record."""
    [found] = envelopes_of_each(form, [record])
    take_apart(found)
    return found


def envelopes_of_each(form: Format, records: Sequence[Record]) -> Sequence[Sequence[Envelope]]:
    """Returns what `envelopes_of` returns of each of some records; images may be left as they stand, see `images.take_apart`."""
    unusual = _without_texts([record.value for record in records])
    texts = [record for index, record in enumerate(records) if index not in unusual] if unusual else records
    envelopes = _of_texts(form, texts)
    if not unusual:
        return envelopes
    rest = iter(envelopes)
    return [unusual[index] if index in unusual else next(rest) for index in range(len(records))]


def _without_texts(values: Sequence[bytes | None]) -> dict[int, Sequence[Envelope]]:
    """Returns the envelopes of records that have no text for their format, by their numbers; nearly all have one."""
    if None not in values and min(map(len, values), default=0) > MOST_OF_TOMBSTONE:  # type: ignore[arg-type]
        with suppress(pa.ArrowException):
            pa.array(values, pa.binary()).cast(pa.string())  # all of them are UTF-8
            return {}
    return {index: found for index, value in enumerate(values) if (found := _without_text(value)) is not None}


def _without_text(value: bytes | None) -> Sequence[Envelope] | None:
    """Returns the envelope of a record that has no text for its format, None if it has one."""
    if value is None or is_tombstone(value):
        return (Envelope(RecordKind.CONTROL),)
    if not value.isascii():
        try:
            value.decode()
        except UnicodeDecodeError:
            return (Envelope(RecordKind.BAD, reason=NOT_UTF8),)
    return None


def _of_texts(form: Format, records: Sequence[Record]) -> Sequence[Sequence[Envelope]]:
    if len(records) > 1 and isinstance(form, ReadsAtOnce):
        try:
            return form.envelopes_of_each(records)
        except _NOT_OF_FORMAT:  # one of them is not: each by itself
            pass
    return [_of_text(form, record) for record in records]


def _of_text(form: Format, record: Record) -> Sequence[Envelope]:
    try:
        return form.envelopes(record)
    except NotOfFormatError as error:
        return (Envelope(RecordKind.BAD, reason=str(error)),)
    except (msgspec.DecodeError, RecursionError):
        return (Envelope(RecordKind.BAD, reason=NOT_JSON),)
