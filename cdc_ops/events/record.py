"""A record of an archive, and the envelope that a format makes of it: what it says, before any table is known."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from msgspec import Raw, Struct

from cdc_ops.core.events.format_spec import RecordKind

Cell: TypeAlias = str | Raw | None
"""A value in a record: its text, the JSON that stands there (see `json_text.text_of`), or None for NULL."""

Image = dict[str, Cell]
"""A row before or after an event, by the names of its columns; a column that the record lacks has no entry."""


class DoubledImage(Image):
    """An image that has a column twice: nobody could tell which of the values counts."""


class Record(Struct, gc=False):
    """One record of an archived file.

    Args:
        value: Its bytes, None for a record without a value.
        file: Path of its file, relative to the archive.
        line: Its number in the file, from 0.
        partition: Kafka's, None where the archive does not keep it.
        offset: Kafka's, None where the archive does not keep it.
    """

    value: bytes | None
    file: str
    line: int
    partition: int | None = None
    offset: int | None = None


@dataclass(frozen=True, slots=True)
class FieldType:
    """How a record says that a value is written: Kafka Connect's type.

    Args:
        type: The type, e.g. `int64`.
        name: Of a logical type, "" for none.
        scale: Of a decimal, None if it is not said.
    """

    type: str
    name: str = ""
    scale: int | None = None


class FieldTypes(dict[str, FieldType]):
    """The types of a record's values by the names of their columns; records with the same schema share one object."""

    __slots__ = ()


class Envelope(Struct, gc=False):
    """What a record says; a record of several rows has an envelope for each.

    Args:
        kind: What it is.
        position: The numbers of `FormatSpec.order`, None for one that the record lacks.
        op: The operation of a change, as the format's letters say it; None if it says none.
        schema, table: Of which table it is; "" if it does not say.
        before, after: The row before and after; None for none. An object of JSON (`Raw`) is not taken apart yet: see `images.take_apart`.
        types: How values are written, None for records that do not say it.
        snapshot: The row comes from a snapshot.
        transaction: The tool's name of the transaction.
        source_time: When the source says that it happened: microseconds since 1970 in UTC.
        ddl: The statement of a `ddl` record.
        reason: Why a record is `bad`.
        completes: Once its images are taken apart, `after` is to be completed from `before`.
    """

    kind: RecordKind
    position: tuple[int | None, ...] = ()
    op: str | None = None
    schema: str = ""
    table: str = ""
    before: Image | Raw | None = None
    after: Image | Raw | None = None
    types: Mapping[str, FieldType] | None = None
    snapshot: bool = False
    transaction: str | None = None
    source_time: int | None = None
    ddl: str | None = None
    reason: str | None = None
    completes: bool = False


NOT_UTF8 = "the record is not valid UTF-8; 'raw' has its bytes as base64"
NOT_JSON = "the record is not JSON of this format"
"""Why a record is bad before a format has looked at it."""


class NotOfFormatError(Exception):
    """A record is not what its format writes; the text is the reason."""


MOST_OF_TOMBSTONE: Final = 16
"""Bytes of a record that may be one without a value: `null` among blanks."""


def is_tombstone(value: bytes | None) -> bool:
    """True for records without a value (none, blanks, or `null`), which follow a delete so that Kafka's compaction forgets the key."""
    return value is None or (len(value) <= MOST_OF_TOMBSTONE and value.strip(b" ") in (b"", b"null"))
