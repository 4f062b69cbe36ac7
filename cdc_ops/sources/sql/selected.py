"""A column as a native reader selects it, and how its values become what travels and what is stored. Pure."""

from dataclasses import dataclass

from cdc_ops.core.schema.server_types.mysql_types import COLUMN, TypeMapping
from cdc_ops.core.schema.tables import Column
from cdc_ops.sources.base import NativeColumn


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


def select_statements(columns: tuple[Selected, ...], table: str, slices: tuple[str, ...], flags: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Returns one SELECT per slice.

    Args:
        columns: What is selected.
        table: Its quoted name.
        slices: Conditions, one per connection; () for the whole table.
        flags: What is selected besides, with its alias.
    """
    select = f"SELECT {', '.join([*(f'{one.expression} AS {one.name}' for one in columns), *flags])} FROM {table}"
    return tuple(f"{select}{f' WHERE {where}' if where else ''}" for where in slices or ("",))
