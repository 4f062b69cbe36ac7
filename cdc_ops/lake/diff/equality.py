"""When two rows are equal: the one definition that verify, reconcile and the lookback window share. Spark expressions only.

Values of one type are equal as a MERGE sees them: NULL equals NULL, NaN equals NaN, 0.0 equals -0.0, texts and binaries are equal byte by
byte, blanks at the end included. Values of different types are compared

    in the type that holds both, where there is one     int 7 = bigint 7, decimal(4,1) 1.5 = decimal(20,2) 1.50, float 0.5 = double 0.5
    in both types, if both are numbers                  bigint 5 = double 5.0; 2^53 + 1 is not: a double does not hold it
    as texts, if not                                    boolean true = string 'true', and is not int 1

A column that the lake does not have is NULL there.

What is compared of a column says `Equality.comparable`, and nothing else does. Values are compared themselves where they are at hand anyway
(reconcile, which needs the rows that differ; the lookback window), and by a digest of 128 bits where only the answer is wanted (verify, and
tables without keys): the values of all columns would have to be sorted and sent for it. Of 1 million rows of 20 columns, a join on values
that also counts duplicates took half as much processor time again as one on digests.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Self

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, NumericType

from cdc_ops.core.schema.type_widening import common_type
from cdc_ops.core.text import quoted

DIGEST_SEEDS: Final = (1, 2)
"""Each gives a digest 64 bits that do not follow from those of the other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Equality:
    """When rows of two tables are equal.

    Args:
        source, lake: The types of their columns, by names in lower case.
    """

    source: Mapping[str, DataType]
    lake: Mapping[str, DataType]

    @classmethod
    def between(cls, source: DataFrame, lake: DataFrame) -> Self:
        """Returns the equality of the rows of two tables."""
        return cls(source=_types(source), lake=_types(lake))

    def comparable(self, name: str, value: Column) -> tuple[Column, ...]:
        """Returns what is compared of a column: the same expressions on both sides, of the same types on both sides.

        Args:
            name: The column, which the source has.
            value: Its value on either side.
        """
        source = self.source[name.lower()]
        lake = self.lake.get(name.lower(), source)
        if source == lake:
            return (value,)
        if (common := common_type(source.simpleString(), lake.simpleString())) is not None:
            return (value.cast(common),)
        if isinstance(source, NumericType) and isinstance(lake, NumericType):
            # What a type cannot hold is NULL in it, and then differs in its own type: only NULL is NULL in both.
            return value.try_cast(source), value.try_cast(lake)
        return (value.cast("string"),)

    def source_value(self, name: str) -> Column:
        """Returns a column of the source."""
        return F.col(quoted(name))

    def lake_value(self, name: str, column: str = "") -> Column:
        """Returns a column of the lake, NULL if the lake does not have it.

        Args:
            name: The column, which the source has.
            column: What it is called where the lake's rows were renamed; "" = as in the lake.
        """
        return F.col(quoted(column or name)) if name.lower() in self.lake else F.lit(None).cast(self.source[name.lower()])

    def equal_values(self, name: str, source: Column, lake: Column) -> Column:
        """Returns whether two values of a column are equal; never NULL."""
        return self._values((name,), lambda _: source).eqNullSafe(self._values((name,), lambda _: lake))

    def equal_rows(self, names: Iterable[str], source: str, lake: str) -> Column:
        """Returns whether two rows are equal in some columns; never NULL.

        Args:
            names: The columns.
            source, lake: Structs of both sides, with fields of these names.
        """
        columns = tuple(names)

        def values(row: str) -> Column:
            return self._values(columns, lambda name: F.col(f"{row}.{quoted(name)}"))

        return values(source).eqNullSafe(values(lake))

    def digest(self, names: Iterable[str], value: Callable[[str], Column]) -> Column:
        """Returns 128 bits that are the same for rows that are equal in some columns, and differ for others.

        Args:
            names: The columns.
            value: The value of a column.
        """
        values = [part for name in names for part in self.comparable(name, value(name))]
        # A NULL leaves xxhash64 as it is, so that (NULL, 1) and (1, NULL) would be the same without the flags.
        flags = [part.isNull() for part in values]
        return F.struct(*(F.xxhash64(F.lit(seed), *values, *flags).alias(f"hash_{seed}") for seed in DIGEST_SEEDS))

    def _values(self, names: tuple[str, ...], value: Callable[[str], Column]) -> Column:
        return F.struct(*(part for name in names for part in self.comparable(name, value(name))))


def _types(rows: DataFrame) -> dict[str, DataType]:
    return {field.name.lower(): field.dataType for field in rows.schema.fields}
