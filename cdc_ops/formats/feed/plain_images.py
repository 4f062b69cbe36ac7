"""Events with one image of a row for the compiled reader. Spark-free."""

from typing import Any, Final

from cdc_ops.core.schema.tables import TableSchema
from cdc_ops.decode.json.encodings import Encoded, Encoding
from cdc_ops.formats.feed.plain_columns import plain_fields

NOTHING: Final = Encoded(encoding=Encoding.NOTHING)
"""The encoding of a column of which only NULL is plain."""


class OneImage:
    """Events that have one image of a row, and of an update what was changed in it."""

    def __init__(self, schema: TableSchema, keys: tuple[str, ...], encoded: tuple[Encoded, ...], first: int) -> None:
        import numpy as np

        self._schema, self._encoded, self._first = schema, encoded, first
        self._fields, self._keys = plain_fields(schema, keys), [schema.names.index(key) for key in keys]
        self.database, self.table = (np.frombuffer(name.encode(), np.uint8) for name in (schema.table.schema, schema.table.name))
        self.old_keys = np.array([first + len(schema.columns) + key for key in self._keys], np.int64)

    def form(self, **others: Any) -> Any:
        """Returns how the events are read; None if the table has columns that cannot be."""
        if self._fields is None:
            return None
        from cdc_ops.decode.json.reader import PlainFormat

        return PlainFormat(
            slots=self._first + 2 * len(self._fields),
            first_columns=(self._first, self._first),
            schema_slot=None,
            columns=self._fields,
            keys=tuple(self._keys),
            encodings=lambda _: self._encoded,
            **others,
        )
