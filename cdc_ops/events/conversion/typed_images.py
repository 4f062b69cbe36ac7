"""Images of one table as JSON -> their columns, parsed at once into the types of their values; none of them becomes a dictionary.

Only images that have a table's columns, those alone and none twice, and whose values are plain are read so.
"""

from collections.abc import Collection, Mapping, Sequence
from operator import attrgetter
from typing import Any, Final, Union

import msgspec
from msgspec import UNSET, Raw, UnsetType

from cdc_ops.events.conversion.json_text import NULL
from cdc_ops.events.format import Bulk

_ENCODER: Final = msgspec.json.Encoder()


class TypedImages:
    """Parses images of one table.

    Args:
        bulks: By the names of the table's columns, how each is read at once; None where each value is read by itself, as JSON.
        unread: Columns whose values nobody asks for; images may lack them.
    """

    def __init__(self, bulks: Mapping[str, Bulk | None], unread: Collection[str] = ()) -> None:
        wanted = [name for name in bulks if name not in unread]
        self.typed = frozenset(name for name in wanted if (bulk := bulks[name]) is not None and float not in bulk.kinds)
        """The columns whose values are parsed. Numbers with a point are not: one number has many spellings."""
        self._wanted = {name: f"f{index}" for index, name in enumerate(wanted)}
        fields: list[tuple[str, Any] | tuple[str, Any, Any]] = [
            (field, Union[*bulks[name].kinds, None] if name in self.typed else Raw)  # type: ignore[union-attr]
            for name, field in self._wanted.items()
        ]
        skipped = {name: f"u{index}" for index, name in enumerate(unread)}
        fields += [(field, Raw | UnsetType, UNSET) for field in skipped.values()]
        names = {field: name for name, field in (*self._wanted.items(), *skipped.items())}
        row = msgspec.defstruct("Row", fields, rename=names, gc=False)
        self._nothing = row(*[None] * len(wanted))
        self._decoder: Any = msgspec.json.Decoder(list[row | None])  # type: ignore[valid-type]

    def columns(self, images: Sequence[Raw | None]) -> dict[str, Sequence[Any]]:
        """Returns the values of each column that is asked for, as `Bulk.read` wants them or as JSON; None where there is no image.

        Raises:
            ValueError: the images are not those of this table, or a value is spelled in another way than it is written here.
        """
        data = b"[%b]" % b",".join([NULL if image is None else image for image in images])
        rows = self._decoder.decode(data)
        # Written again, nothing becomes longer; blanks, escapes, -0, a column that is there twice and one of no table become shorter.
        if len(_ENCODER.encode(rows)) != len(data):
            raise ValueError("not as they are written here")
        some = [row or self._nothing for row in rows]
        return {name: list(map(attrgetter(field), some)) for name, field in self._wanted.items()}
