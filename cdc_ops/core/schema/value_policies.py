"""What happens to values that no stored type can hold: the policies of a table, and counts, so that no NULL comes in silence."""

import enum
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final


class OnUnstorable(enum.StrEnum):
    """What becomes of a value that its column's stored type cannot hold."""

    NULL = "null"
    """NULL takes its place; each one is counted, and the run names column and number."""
    STRING = "string"
    """The column is stored as the source's own text, all its values included."""
    FAIL = "fail"
    """The table stops, with the key of such a row."""


class OnOverflow(enum.StrEnum):
    """What becomes of a column whose declared type has more digits than a stored decimal."""

    STRING = "string"
    """It is stored as the source's own text."""
    FAIL = "fail"
    """The table stops at the plan."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TypePolicies:
    """The policies of one table.

    Args:
        zero_dates: For dates and times that are none: zero, partial and impossible ones of MySQL, infinite ones of Postgres.
        nan_values: For NaN in a Postgres `numeric(p,s)`.
        decimal_overflow: For decimals of more than 38 digits.
        ordering: Lower-case names of columns that keep their stored type, because rows are ordered by them: the cursor. `string` is
            `null` for them.
    """

    zero_dates: OnUnstorable = OnUnstorable.NULL
    nan_values: OnUnstorable = OnUnstorable.NULL
    decimal_overflow: OnOverflow = OnOverflow.STRING
    ordering: tuple[str, ...] = ()

    def of(self, column: str) -> "TypePolicies":
        """Returns what holds for one column."""
        if column.lower() in self.ordering and self.zero_dates is OnUnstorable.STRING:
            return replace(self, zero_dates=OnUnstorable.NULL)
        return self


DEFAULT_TYPES: Final = TypePolicies()


@dataclass(frozen=True, slots=True, kw_only=True)
class NulledValues:
    """Values of one column that became NULL because nothing stored can hold them.

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
    """All values of one operation that became NULL; `counted` is False where nobody could count them any more."""

    columns: tuple[NulledValues, ...] = ()
    counted: bool = True

    @classmethod
    def total(cls, parts: Iterable["NullifiedValues"]) -> "NullifiedValues":
        """Adds several operations up."""
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
        """What the run says of it, "" if there is nothing to say."""
        named = ", ".join(f"{one.values:,} in column {one.column!r} ({one.source_type})" for one in self.columns if one.values)
        unknown = "" if self.counted else "an application died after its commit: values that became NULL were not counted"
        if not named:
            return unknown
        text = f"values that no stored type can hold became NULL: {named}; 'zero_dates: string' or 'nan_values: string' keeps their text"
        return f"{text}; {unknown}" if unknown else text


NOTHING_NULLIFIED: Final = NullifiedValues()
