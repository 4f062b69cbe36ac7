"""Values that no stored type can hold: the policies of a table, and counts of values that became NULL."""

import enum
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final


class OnUnstorable(enum.StrEnum):
    """How a value is handled that its column's stored type cannot hold."""

    NULL = "null"
    """The value becomes NULL; the run reports how many, per column."""
    STRING = "string"
    """The whole column is stored as the source's own text."""
    FAIL = "fail"
    """The table stops; the error names the key of such a row."""


class OnOverflow(enum.StrEnum):
    """How a column is stored whose declared type has more digits than Spark's decimal."""

    STRING = "string"
    """The column is stored as the source's own text."""
    FAIL = "fail"
    """The plan fails."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TypePolicies:
    """The policies of one table.

    Args:
        zero_dates: For dates and times that are none: zero, partial and impossible ones of MySQL, infinite ones of Postgres.
        nan_values: For NaN in a Postgres `numeric(p,s)`.
        decimal_overflow: For decimals of more than 38 digits.
        ordering: Lower-case names of columns that keep their stored type, because rows are ordered by them: the cursor. `string` is
            `null` for them.
        keys: Lower-case names of the columns that identify a row. NULL is no key, and two keys that became NULL would be one: `null` is
            `fail` for them.
    """

    zero_dates: OnUnstorable = OnUnstorable.NULL
    nan_values: OnUnstorable = OnUnstorable.NULL
    decimal_overflow: OnOverflow = OnOverflow.STRING
    ordering: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()

    def for_column(self, column: str) -> "TypePolicies":
        """Returns the policy of one column."""
        found, name = self, column.lower()
        if name in self.ordering and self.zero_dates is OnUnstorable.STRING:
            found = replace(found, zero_dates=OnUnstorable.NULL)
        if name in self.keys:
            found = replace(found, zero_dates=_kept(found.zero_dates), nan_values=_kept(found.nan_values))
        return found


def _kept(policy: OnUnstorable) -> OnUnstorable:
    """Returns the policy of a key column."""
    return OnUnstorable.FAIL if policy is OnUnstorable.NULL else policy


DEFAULT_TYPES: Final = TypePolicies()


@dataclass(frozen=True, slots=True, kw_only=True)
class NulledValues:
    """Values of one column that became NULL because no stored type can hold them.

    Args:
        column: The column.
        source_type: Its type at the source.
        values: How many values of this operation.
    """

    column: str
    source_type: str
    values: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NullifiedValues:
    """All values of one operation that became NULL; `counted` is False if the count was lost."""

    columns: tuple[NulledValues, ...] = ()
    counted: bool = True

    @classmethod
    def total(cls, parts: Iterable["NullifiedValues"]) -> "NullifiedValues":
        """Returns the sum of several operations."""
        sums: dict[tuple[str, str], int] = {}
        counted = True
        for part in parts:
            counted = counted and part.counted
            for one in part.columns:
                sums[one.column, one.source_type] = sums.get((one.column, one.source_type), 0) + one.values
        columns = tuple(NulledValues(column=name, source_type=kind, values=number) for (name, kind), number in sums.items())
        return cls(columns=columns, counted=counted)

    @property
    def warning(self) -> str:
        """The warning of the run, "" if there is none."""
        named = ", ".join(f"{one.values:,} in column {one.column!r} ({one.source_type})" for one in self.columns if one.values)
        unknown = "" if self.counted else "an application ended after its commit: its values that became NULL were not counted"
        if not named:
            return unknown
        text = f"values that no stored type can hold became NULL: {named}; 'zero_dates: string' or 'nan_values: string' keeps their text"
        return f"{text}; {unknown}" if unknown else text


NOTHING_NULLIFIED: Final = NullifiedValues()
