"""Images of rows without the values that Debezium marks as unchanged (`unchanged`)."""

from typing import Final

import msgspec

from cdc_ops.core.events.format_spec import WHOLE_ROW
from cdc_ops.events.conversion.json_text import text_of
from cdc_ops.events.formats.debezium.declared.losses import PLACEHOLDER
from cdc_ops.events.formats.debezium.unchanged import UNCHANGED_FORMS
from cdc_ops.events.record import Cell, Image

INCOMPLETE: Final = (
    "the update changes the key, and its after image lacks values: let the database log whole rows (Postgres: REPLICA IDENTITY FULL)"
)
_FORMS: Final = frozenset(UNCHANGED_FORMS)
_TEXTS: Final = (PLACEHOLDER.encode(), *(form.encode() for form in UNCHANGED_FORMS if form.isalnum() or form.endswith("=")))
_UUID: Final = next(form for form in UNCHANGED_FORMS if form.count("-") == 4).strip('[]"').encode()
_NUMBERS: Final = (b"122", b"118", b"109", b"95")
"""What a record with a placeholder without `\\u` has: a text, or in an array of UUIDs this one, in one of numbers all of these."""


def may_lack_values(record: bytes) -> bool:
    """True if a record may have values that are marked as unchanged: a quick look at its bytes, which nearly all records pass."""
    for text in _TEXTS:
        if text in record:
            return True
    if b"[" in record and (_UUID in record or all(number in record for number in _NUMBERS)):
        return True
    return b"\\" in record and b"\\u" in record


def lacks_values(op: str | None, after: Image | None) -> bool:
    """True for an insert without some of its values: an update that changed the key, and did not change large values of the row.

    Args:
        op: The operation.
        after: The image as it came.
    """
    return op in WHOLE_ROW and after is not None and any(map(_is_unchanged, after.values()))


def unchanged_left_out(image: Image | None) -> Image | None:
    """Returns an image without the columns that Debezium marks as unchanged."""
    if image is None or not any(map(_is_unchanged, image.values())):
        return image
    return type(image)((name, cell) for name, cell in image.items() if not _is_unchanged(cell))


def _is_unchanged(cell: Cell) -> bool:
    text = text_of(cell)
    if text is None or text in _FORMS:
        return text is not None
    return text[0:1] in ("[", "{") and " " in text and not isinstance(cell, str) and _compact(cell) in _FORMS


def _compact(cell: Cell) -> str:
    """Returns an array or object without blanks between its parts, "" for a text that looks like one."""
    found = bytes(cell)  # type: ignore[arg-type]
    return "" if found[:1] == b'"' else msgspec.json.format(found, indent=-1).decode()
