"""Images of rows without the values that Debezium marks as unchanged (`formats.debezium.unchanged`)."""

from typing import Final

from cdc_ops.core.events.format_spec import WHOLE_ROW
from cdc_ops.core.formats.debezium_losses import PLACEHOLDER
from cdc_ops.events.json_text import text_of
from cdc_ops.events.record import Cell, DoubledImage, Image
from cdc_ops.formats.debezium.unchanged import UNCHANGED_FORMS

INCOMPLETE: Final = (
    "the update changes the key, and its after image lacks values: let the database log whole rows (Postgres: REPLICA IDENTITY FULL)"
)
_FORMS: Final = frozenset(UNCHANGED_FORMS)
_TEXTS: Final = (PLACEHOLDER.encode(), *(form.encode() for form in UNCHANGED_FORMS if form.isalnum() or form.endswith("=")))
_IN_ARRAYS: Final = tuple(
    text for form in UNCHANGED_FORMS if form.startswith("[") and PLACEHOLDER not in form and (text := form.strip('[]"').encode()) not in _TEXTS
)
"""What a record has that has a placeholder spelled without `\\u`: outside of arrays, and within them."""


def may_lack_values(record: bytes) -> bool:
    """True if a record may have values that are marked as unchanged: a quick look at its bytes, which nearly all records pass."""
    for text in _TEXTS:
        if text in record:
            return True
    if b"[" in record:
        for text in _IN_ARRAYS:
            if text in record:
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
    return text_of(cell) in _FORMS


def completed(before: Image | None, after: Image | None) -> Image | None:
    """Returns an image with its missing columns filled from the before image: an update keeps values that it does not name."""
    if before is None or after is None or len(before) <= len(after):
        return after
    if before.__class__ is DoubledImage or after.__class__ is DoubledImage:
        return after
    return {**{name: cell for name, cell in before.items() if name not in after}, **after}
