"""What the native reader of MySQL and MariaDB selects: the values of the JDBC read, by expressions that cost the server less.

Over the text protocol a date is sent as it is stored, and the reader counts its days; JDBC drivers bend dates, so for them the server has
to count. What travels on to Spark is the same. Pure: no connection is opened; the reading itself is `cdc_ops.sources.mysql.wire`.
"""

from dataclasses import dataclass
from typing import Final

from cdc_ops.core.schema.mysql_types import COLUMN, TypeMapping
from cdc_ops.core.schema.tables import Column
from cdc_ops.sources.base import NativeColumn, NativeRead
from cdc_ops.sources.mysql.session import Address

_READER: Final = "cdc_ops.sources.mysql.wire:read_batches"
_BENT_AS_TEXT: Final = frozenset(("float", "double"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Selected:
    """A column of a read: the name under which it travels, what it is, and its quoted name at the source."""

    name: str
    column: Column
    mapping: TypeMapping
    quoted: str

    @property
    def is_computed(self) -> bool:
        """True for a column that is computed of others, whose expression has to stay."""
        return self.column.expression != self.mapping.expression(self.quoted)

    @property
    def expression(self) -> str:
        """What the native reader selects."""
        return self.column.expression if self.is_computed or not self.mapping.native else self.mapping.native.replace(COLUMN, self.quoted)

    @property
    def native(self) -> NativeColumn:
        """How its values are read."""
        form = "" if self.is_computed else self.mapping.form
        return NativeColumn(name=self.name, carried=self.mapping.carried_as, form=form, stored=self.column.delta_type, finish=self.finish)

    @property
    def finish(self) -> str:
        """How a task makes the stored value of a plain one, "" if only Spark can."""
        mapping = self.mapping
        if mapping.finish:
            return mapping.finish
        travels_as_stored = mapping.decoder == COLUMN and not mapping.unstorable and mapping.carried_as == self.column.delta_type
        return "same" if travels_as_stored else ""


def native_read(address: Address, table: str, columns: tuple[Selected, ...], slices: tuple[str, ...]) -> NativeRead:
    """Builds the read of some slices of a table.

    Args:
        address: Of the server.
        table: Its quoted name.
        columns: What is read; `why_not_native` has nothing against them.
        slices: Conditions, one per connection; () for the whole table.
    """
    select = f"SELECT {', '.join(f'{one.expression} AS {one.name}' for one in columns)} FROM {table}"
    return NativeRead(
        reader=_READER,
        url=address.url,
        statements=tuple(f"{select}{f' WHERE {where}' if where else ''}" for where in slices or ("",)),
        columns=tuple(one.native for one in columns),
    )


def why_not_native(columns: tuple[Selected, ...]) -> str:
    """Returns why columns are exact only over JDBC, "" if they are also natively: servers round computed FLOAT and DOUBLE as text."""
    bent = [one.column.name for one in columns if one.is_computed and one.mapping.carried_as in _BENT_AS_TEXT]
    return f"the server sends the computed FLOAT or DOUBLE column {bent[0]!r} exactly only over JDBC" if bent else ""
