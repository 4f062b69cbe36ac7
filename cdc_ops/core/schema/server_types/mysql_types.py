"""How each MySQL and MariaDB type is stored, selected, carried and decoded: pure text in, pure text out.

A mapping says how a column is *stored* (Spark SQL DDL), how it must be *selected*, as what it *travels* and how Spark *decodes* that, so
that no driver or SQL dialect between the two can bend a value. Each expression that is more than the bare column has its reason beside
it; all were tried with both JDBC drivers.
"""

import re
from dataclasses import dataclass, replace
from typing import Final

from cdc_ops.core.schema.value_policies import DEFAULT_TYPES, OnOverflow, OnUnstorable, TypePolicies

COLUMN: Final = "{column}"
"""Stands for the quoted column in an expression, of the source's dialect or of Spark's."""

UNSTORABLE_MICROS: Final = 9223372036854775807
"""Negated, it replaces a timestamp that cannot be stored: no server has this number of microseconds since 1970."""

UNSTORABLE_DAY: Final = -1
"""It replaces a MySQL date that does not exist in the calendar (0000-00-00): no server has this number of days."""

NOT_STORED: Final = "not_stored"
"""The `finish` of what travels only to say which values are none."""

MAX_DECIMAL_DIGITS: Final = 38
"""The most digits of Spark's decimal; columns with more digits are stored as the source's own text."""

_DECLARED: Final = re.compile(r"^\s*([a-z_][a-z0-9_]*)\s*(?:\(\s*([^()]*?)\s*\))?(.*)$", re.IGNORECASE | re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeMapping:
    """How a declared type is stored and selected.

    Args:
        delta_type: Stored type as Spark SQL DDL.
        template: Expression of the source's dialect; `{column}` stands for the quoted column.
        carrier: Type in which the expression's value travels over JDBC; "" = the stored type.
        decoder: Spark SQL that makes the stored value of what travelled; a cast to the stored type follows it.
        unstorable: Spark SQL that is true of what travels for a value that the stored type cannot hold; "" = it holds all of them.
        flag: Expression of the source's dialect that is true for such a value, where what travels cannot say so; "" = it can.
        policy: What becomes of such values.
        refusal: Why a column of this type is not copied at all, "" = it is.
        native: Expression of the source's dialect for the native reader, whose form then makes the value that travels; "" = `template`.
        form: How the native reader makes the value that travels of what the server sends; "" = as the type that travels is written.
        finish: How plain values that travel are stored without Spark (`cdc_ops.decode.stored`); "" = as they are, if there is no decoder.
    """

    delta_type: str
    template: str = COLUMN
    carrier: str = ""
    decoder: str = COLUMN
    unstorable: str = ""
    flag: str = ""
    policy: OnUnstorable = OnUnstorable.NULL
    refusal: str = ""
    native: str = ""
    form: str = ""
    finish: str = ""

    @property
    def carried_as(self) -> str:
        """The type in which the value travels, as Spark SQL DDL."""
        return self.carrier or self.delta_type

    @property
    def lossy(self) -> bool:
        """True if values that the stored type cannot hold become NULL."""
        return bool(self.unstorable or self.flag) and self.policy is OnUnstorable.NULL

    def expression(self, quoted_column: str) -> str:
        """Returns the source's expression for one column, whose name is already quoted."""
        return self.template.replace(COLUMN, quoted_column)

    def decoded(self, quoted_column: str) -> str:
        """Returns Spark's expression for one column, whose name is already quoted; values that cannot be stored are NULL."""
        decoder = f"IF({self.unstorable}, NULL, {self.decoder})" if self.unstorable else self.decoder
        return decoder.replace(COLUMN, quoted_column)

    def is_unstorable(self, quoted_column: str) -> str:
        """Returns Spark's condition for a value that cannot be stored, "" if the stored type holds all values."""
        return self.unstorable.replace(COLUMN, quoted_column)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredType:
    """The parts of a declared type.

    Args:
        base: Lower-case name without arguments, e.g. `decimal`.
        numbers: Numeric arguments, e.g. `(10, 2)`; empty for `enum('a','b')`.
        unsigned: True for MySQL's unsigned numbers.
    """

    base: str
    numbers: tuple[int, ...] = ()
    unsigned: bool = False

    @classmethod
    def parse(cls, declared: str) -> "DeclaredType":
        """Parses a declared type; the base of a text that is not a type is the whole text."""
        found = _DECLARED.match(declared)
        if not found:
            return cls(base=declared.strip().lower())
        base, arguments, rest = found.groups()
        parts = [part.strip() for part in (arguments or "").split(",")]
        numbers = tuple(int(part) for part in parts) if all(part.isdecimal() for part in parts) else ()
        return cls(base=base.lower(), numbers=numbers, unsigned=any(word in rest.lower().split() for word in ("unsigned", "zerofill")))


# ---------------------------------------------------------------------------------------------------------- MySQL and MariaDB

_AS_TEXT: Final = f"CAST({COLUMN} AS CHAR)"
_DAY: Final = f"DAYOFMONTH({COLUMN})"
_IS_REAL: Final = f"MONTH({COLUMN}) AND ({_DAY} BETWEEN 1 AND 28 OR {_DAY} BETWEEN 29 AND DAYOFMONTH(LAST_DAY({COLUMN})))"
"""False for zero, partial and impossible dates (0000-00-00, 2024-00-15, 2024-02-31), which the servers would count as days near them.

The end of the month, which is dear to find, is only asked for in the last days of one.
"""

_DAYS: Final = TypeMapping(
    delta_type="date",
    # Not `IF({COLUMN} IS NULL, ...)`: of a NOT NULL column the servers may call a zero date NULL. Of NULL, 0 * ... is NULL.
    template=f"IF({_IS_REAL}, TO_DAYS({COLUMN}), 0 * {_DAY} - 1)",
    carrier="int",
    unstorable=f"{COLUMN} = -1",
    # 719528 is 1970-01-01. The servers give the year 0 no 29 February, which the calendar does: one day less before it.
    decoder=f"date_from_unix_date({COLUMN} - IF({COLUMN} < 60, 719529, 719528))",
    native=COLUMN,
    form="days",
    finish="days",
)
_LEAP_OF_YEAR_0: Final = -62162035200000000
"""0000-03-01 in microseconds since 1970."""
_MICROS: Final = f"({COLUMN} - IF({COLUMN} < {_LEAP_OF_YEAR_0}, 86400000000, 0))"
_WALL_CLOCK: Final = TypeMapping(
    delta_type="timestamp_ntz",
    template=(f"IF({_IS_REAL}, TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', {COLUMN}), 0 * {_DAY} - {UNSTORABLE_MICROS})"),
    carrier="bigint",
    unstorable=f"{COLUMN} = -{UNSTORABLE_MICROS}",
    # Both are exact; the first is quicker, but right only where the session's zone is UTC. Spark chooses while it plans.
    decoder=(
        f"IF(current_timezone() = 'UTC', CAST(timestamp_micros({_MICROS}) AS TIMESTAMP_NTZ),"
        f" timestampadd(MICROSECOND, {_MICROS}, TIMESTAMP_NTZ'1970-01-01 00:00:00'))"
    ),
    native=COLUMN,
    form="wall_clock",
    finish="wall_clock",
)
_INSTANT: Final = TypeMapping(
    delta_type="timestamp",
    template=f"CAST(UNIX_TIMESTAMP({COLUMN}) * 1000000 AS SIGNED)",
    carrier="bigint",
    decoder=f"timestamp_micros({COLUMN})",
    unstorable=f"{COLUMN} = 0",  # zero is the one TIMESTAMP that is none
    native=COLUMN,
    form="instant",
    finish="instant",
)
UNSIGNED_BIGINT_WIDE: Final = TypeMapping(
    delta_type="decimal(20,0)",
    # The same 64 bits, and no big number is made for each value.
    template=f"CAST({COLUMN} AS SIGNED)",
    carrier="bigint",
    decoder=(
        f"IF({COLUMN} >= 0, CAST({COLUMN} AS DECIMAL(20,0)), CAST(CAST({COLUMN} AS DECIMAL(20,0)) + 18446744073709551616 AS DECIMAL(20,0)))"
    ),
    finish="unsigned",
)
"""Of columns with a value that a BIGINT does not hold; what others are read with, `core.schema.server_types.unsigned_bigints` says."""
_UNSIGNED_BIGINT: Final = replace(UNSIGNED_BIGINT_WIDE, delta_type="bigint")

_MYSQL_FIXED: Final[dict[str, TypeMapping]] = {
    # Without their `tinyInt1isBit=false` the drivers make booleans of TINYINT(1), and 2 becomes true.
    "tinyint": TypeMapping(delta_type="tinyint"),
    "smallint": TypeMapping(delta_type="smallint"),
    "mediumint": TypeMapping(delta_type="int"),
    "int": TypeMapping(delta_type="int"),
    "bigint": TypeMapping(delta_type="bigint"),
    # Exact over the binary protocol only: as text the servers print six digits of it, but all of a product of doubles.
    "float": TypeMapping(delta_type="float", native=f"{COLUMN} * 1e0"),
    "double": TypeMapping(delta_type="double", native=f"{COLUMN} * 1e0"),
    "year": TypeMapping(delta_type="smallint"),
    # As what the drivers make of them, these three pass through the JVM's own time zone, and the Julian calendar before 1582. As numbers
    # since 1970 they do not, and are read more quickly.
    "date": _DAYS,
    "datetime": _WALL_CLOCK,
    "timestamp": _INSTANT,
    "time": TypeMapping(delta_type="string", template=_AS_TEXT),  # -838:59:59 to 838:59:59 is no time of day
    "varchar": TypeMapping(delta_type="string"),
    "tinytext": TypeMapping(delta_type="string"),
    "text": TypeMapping(delta_type="string"),
    "mediumtext": TypeMapping(delta_type="string"),
    "longtext": TypeMapping(delta_type="string"),
    # Spark pads what a driver calls CHAR to its declared length; a cast makes it a VARCHAR.
    "char": TypeMapping(delta_type="string", template=_AS_TEXT, native=COLUMN),
    "enum": TypeMapping(delta_type="string", template=_AS_TEXT, native=COLUMN),
    "set": TypeMapping(delta_type="string", template=_AS_TEXT),
    "json": TypeMapping(delta_type="string", template=_AS_TEXT),
    "inet4": TypeMapping(delta_type="string", template=_AS_TEXT),
    "inet6": TypeMapping(delta_type="string", template=_AS_TEXT),
    "uuid": TypeMapping(delta_type="string", template=_AS_TEXT),  # the MariaDB driver has no JDBC type for it, which fails the table
    "binary": TypeMapping(delta_type="binary"),
    "varbinary": TypeMapping(delta_type="binary"),
    "tinyblob": TypeMapping(delta_type="binary"),
    "blob": TypeMapping(delta_type="binary"),
    "mediumblob": TypeMapping(delta_type="binary"),
    "longblob": TypeMapping(delta_type="binary"),
    "vector": TypeMapping(delta_type="binary"),
}

_MYSQL_UNSIGNED: Final[dict[str, TypeMapping]] = {
    "tinyint": TypeMapping(delta_type="smallint"),
    "smallint": TypeMapping(delta_type="int"),
    "mediumint": TypeMapping(delta_type="int"),
    "int": TypeMapping(delta_type="bigint"),
    "bigint": _UNSIGNED_BIGINT,
}

_MYSQL_ALIASES: Final[dict[str, str]] = {"integer": "int", "dec": "decimal", "numeric": "decimal", "fixed": "decimal", "real": "double"}

_GEOMETRIES: Final = frozenset(
    (
        *("geometry", "point", "linestring", "polygon", "multipoint", "multilinestring", "multipolygon"),
        *("geometrycollection", "geomcollection"),
    )
)
"""Stored as the server keeps them: SRID as four bytes, little-endian, then WKB."""


_MYSQL_DATES: Final = frozenset(("date", "datetime", "timestamp"))


def mysql_mapping(declared: str, types: TypePolicies = DEFAULT_TYPES) -> TypeMapping | None:
    """Maps a declared MySQL or MariaDB type, as `information_schema.columns.COLUMN_TYPE` prints it.

    Args:
        declared: The type.
        types: What becomes of values that no stored type holds.

    Returns:
        The mapping, or None for a type that nobody knows.
    """
    kind = DeclaredType.parse(declared)
    base = _MYSQL_ALIASES.get(kind.base, kind.base)
    if base == "decimal":
        return _mysql_decimal(kind, types)
    if base in _MYSQL_DATES:
        return under_policy(_MYSQL_FIXED[base], types.zero_dates, _AS_TEXT)
    if base == "bit":
        # Spark corrupts BIT(n) of more than one bit, and the MariaDB driver returns 64 set bits as -1.
        wide = kind.numbers[:1] == (64,)
        return TypeMapping(delta_type="decimal(20,0)" if wide else "bigint", template=f"CAST({COLUMN} AS UNSIGNED)")
    if base in _GEOMETRIES:
        return TypeMapping(delta_type="binary")
    if kind.unsigned and base in _MYSQL_UNSIGNED:
        return _MYSQL_UNSIGNED[base]
    return _MYSQL_FIXED.get(base)


def is_unsigned_bigint(declared: str) -> bool:
    """True for a declared BIGINT UNSIGNED, of any display width.

    >>> is_unsigned_bigint("bigint(20) unsigned"), is_unsigned_bigint("bigint"), is_unsigned_bigint("int unsigned")
    (True, False, False)
    """
    kind = DeclaredType.parse(declared)
    return kind.base == "bigint" and kind.unsigned


def under_policy(mapping: TypeMapping, policy: OnUnstorable, as_text: str) -> TypeMapping:
    """Returns a mapping with the table's policy for values that it cannot store; `as_text` selects the source's own text."""
    if policy is OnUnstorable.STRING:
        return TypeMapping(delta_type="string", template=as_text)
    return replace(mapping, policy=policy)


def overflowing(policy: OnOverflow, as_text: str) -> TypeMapping:
    """Returns the mapping of a decimal that may have more digits than Spark's decimal."""
    why = f"It may have more than {MAX_DECIMAL_DIGITS} digits, and 'decimal_overflow: fail' forbids text."
    return TypeMapping(delta_type="string", template=as_text, refusal=why if policy is OnOverflow.FAIL else "")


def _mysql_decimal(kind: DeclaredType, types: TypePolicies) -> TypeMapping:
    precision, scale = (*kind.numbers, 10, 0)[:2] if not kind.numbers else (*kind.numbers, 0)[:2]
    if precision > MAX_DECIMAL_DIGITS:
        return overflowing(types.decimal_overflow, _AS_TEXT)
    return TypeMapping(delta_type=f"decimal({precision},{scale})")
