"""Gives images the names that columns have now, where events were written under earlier ones."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

from cdc_ops.core.events.ddl_changes import Renaming
from cdc_ops.core.events.format_spec import FormatSpec
from cdc_ops.core.schema.tables import TableSchema
from cdc_ops.events.places import Place, place_maker
from cdc_ops.events.record import DoubledImage, Envelope, FieldType, FieldTypes, Image

Rename = Callable[[Envelope], None]
_MOST_TYPES: Final = 1024
"""Schemas whose renamed types are kept; records of one schema follow each other."""


def renamer(spec: FormatSpec, schema: TableSchema, renamed: Sequence[tuple[str, str]], renamings: Sequence[Renaming]) -> Rename | None:
    """Returns what renames the entries of an envelope's images, None if nothing is to be renamed.

    Args:
        spec: The format's declaration.
        schema: The table, as the source has it.
        renamed: Pairs of old and new names from the pipeline file. One applies if the table has the new name and not the old one, to images
            that have the old name and not the new one.
        renamings: Renames by statements, each with the places between which it applies; statements may spell names in another case.
    """
    pairs = [(old, column.name) for old, new in renamed if (column := schema.column(new)) is not None and schema.column(old) is None]
    if not pairs and not renamings:
        return None
    nowhere: tuple[int | None, ...] = (None,) * len(spec.order)
    spelled = _RenamedTypes()
    place_of = place_maker(spec.order, [field.name for field in spec.order if field.of_delivery])

    def rename(envelope: Envelope) -> None:
        for old, new in pairs:
            _apply(envelope, partial(_as_it_is, old=old, new=new), new, spelled)
        place = place_of(envelope.position or nowhere) if renamings else nowhere
        known: Place = () if None in place else tuple(number for number in place if number is not None)
        for one in renamings:
            if known and one.since <= known < one.until:
                _apply(envelope, partial(_spelled, old=one.old, new=one.new), one.new, spelled)

    return rename


def _as_it_is(names: Sequence[str], old: str, new: str) -> str | None:
    """Returns the old name if an image has it, and not the new one."""
    return old if old in names and new not in names else None


def _spelled(names: Sequence[str], old: str, new: str) -> str | None:
    """Returns how an image spells the old name, None if it lacks it or has the new one."""
    lower = {name.lower(): name for name in names}
    return lower.get(old) if new.lower() not in lower else None


def _apply(envelope: Envelope, find: Callable[[Sequence[str]], str | None], new: str, spelled: "_RenamedTypes") -> None:
    for side in ("before", "after"):
        image: Image | None = getattr(envelope, side)
        if image is None or isinstance(image, DoubledImage):
            continue
        old = find(list(image))
        if old is not None:
            setattr(envelope, side, {new if name == old else name: cell for name, cell in image.items()})
    types = envelope.types
    if types is not None and (old := find(list(types))) is not None:
        envelope.types = spelled.of(types, old, new)


class _RenamedTypes:
    """The types of records under new names. Records that shared an object share one still, so that their values are read at once."""

    def __init__(self) -> None:
        self._found: dict[tuple[int, str, str], tuple[Mapping[str, FieldType], FieldTypes]] = {}

    def of(self, types: Mapping[str, FieldType], old: str, new: str) -> FieldTypes:
        """Returns types with another name for one of them."""
        key = (id(types), old, new)
        if key not in self._found:
            if len(self._found) == _MOST_TYPES:
                self._found.clear()
            # What was renamed stays with it: no other object gets its id.
            self._found[key] = (types, FieldTypes({new if name == old else name: kind for name, kind in types.items()}))
        return self._found[key][1]
