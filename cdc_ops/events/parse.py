"""Takes records apart by their format; whatever a record is, it comes out as at least one envelope."""

from collections.abc import Sequence

import msgspec

from cdc_ops.core.events.format_spec import RecordKind
from cdc_ops.events.format import Format
from cdc_ops.events.record import NOT_JSON, NOT_UTF8, Envelope, NotOfFormatError, Record, is_tombstone


def envelopes_of(form: Format, record: Record) -> Sequence[Envelope]:
    """Returns what a record says. One that is not UTF-8 or not of its format is `bad`, one without a value a `control` record."""
    value = record.value
    if value is None or is_tombstone(value):
        return (Envelope(RecordKind.CONTROL),)
    if not value.isascii():
        try:
            value.decode()
        except UnicodeDecodeError:
            return (Envelope(RecordKind.BAD, reason=NOT_UTF8),)
    try:
        return form.envelopes(record)
    except NotOfFormatError as error:
        return (Envelope(RecordKind.BAD, reason=str(error)),)
    except (msgspec.DecodeError, RecursionError):
        return (Envelope(RecordKind.BAD, reason=NOT_JSON),)
