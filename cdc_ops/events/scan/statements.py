"""Finds the statements among events that may have changed a table."""

import re
from collections.abc import Callable
from typing import Final

from cdc_ops.core.schema.tables import TableName
from cdc_ops.events.record import Envelope

READ_LENGTH: Final = 20_000
"""Characters of a statement that are read; one that has as many may be cut, and is not understood."""


def statement_finder(table: TableName) -> Callable[[Envelope], str | None]:
    """Returns what finds the text of a `ddl` envelope's statement, cut; None if it does not concern the table.

    What a snapshot writes of a table changed nothing. Of a statement whose record names no table, e.g. one that renames several, it is
    enough that it has the table's name in it, or drops a database.
    """
    named = re.compile(rf"(^|\W){re.escape(table.name)}(\W|$)|\bdrop\s+(database|schema)\b", re.IGNORECASE | re.DOTALL | re.ASCII)

    def find(envelope: Envelope) -> str | None:
        text = envelope.ddl
        if text is None or envelope.snapshot:
            return None
        of_it = (envelope.schema, envelope.table) == (table.schema, table.name) if envelope.table else named.search(text) is not None
        return text.strip(" ")[:READ_LENGTH] if of_it else None

    return find
