"""How each Postgres type is stored, selected, carried and decoded: pure text in, pure text out, like `mysql_types` for MySQL.

All expressions were tried with the Postgres JDBC driver; sessions are in UTC, with `bytea_output = hex` and `intervalstyle = postgres`.
"""

import re
from typing import Final

from cdc_ops.core.schema.server_types.mysql_types import (
    COLUMN,
    MAX_DECIMAL_DIGITS,
    UNSTORABLE_MICROS,
    TypeMapping,
    overflowing,
    under_policy,
)
from cdc_ops.core.schema.value_policies import DEFAULT_TYPES, TypePolicies

_AS_TEXT: Final = f"CAST({COLUMN} AS text)"

# Neither infinity has a stored form, nor have the last 29 of Postgres's 294276 years, which no count of microseconds in 64 bits reaches.
_LATEST: Final = "294247-01-01"
NO_DAY: Final = 2147483647
"""Negated, it replaces an infinite date: Postgres has no date with this number of days since 1970."""
_MICROS: Final = "CAST(EXTRACT(EPOCH FROM {column}) * 1000000 AS bigint)"
_NO_MOMENT: Final = f" WHEN {COLUMN} IS NOT NULL THEN -{UNSTORABLE_MICROS} END"

_POSTGRES_FIXED: Final[dict[str, TypeMapping]] = {
    "boolean": TypeMapping(delta_type="boolean"),
    "smallint": TypeMapping(delta_type="smallint"),
    "integer": TypeMapping(delta_type="int"),
    "bigint": TypeMapping(delta_type="bigint"),
    "oid": TypeMapping(delta_type="bigint", template=f"CAST({COLUMN} AS bigint)"),
    "real": TypeMapping(delta_type="float"),
    "double precision": TypeMapping(delta_type="double"),
    "text": TypeMapping(delta_type="string"),
    "bytea": TypeMapping(delta_type="binary"),
    # As what the driver makes of them, these three pass through the JVM's own time zone, and the Julian calendar before 1582. As numbers
    # since 1970 they do not.
    "date": TypeMapping(
        delta_type="date",
        template=f"CASE WHEN isfinite({COLUMN}) THEN {COLUMN} - DATE'1970-01-01' WHEN {COLUMN} IS NOT NULL THEN -{NO_DAY} END",
        carrier="int",
        unstorable=f"{COLUMN} = -{NO_DAY}",
        decoder=f"date_from_unix_date({COLUMN})",
        native=COLUMN,
        form="days",
        finish="epoch_days",
    ),
    "timestamp without time zone": TypeMapping(
        delta_type="timestamp_ntz",
        template=f"CASE WHEN isfinite({COLUMN}) AND {COLUMN} < TIMESTAMP'{_LATEST}' THEN {_MICROS}{_NO_MOMENT}",
        carrier="bigint",
        unstorable=f"{COLUMN} = -{UNSTORABLE_MICROS}",
        # Both are exact; the first is quicker, but right only where the session's zone is UTC. Spark chooses while it plans.
        decoder=(
            f"IF(current_timezone() = 'UTC', CAST(timestamp_micros({COLUMN}) AS TIMESTAMP_NTZ),"
            f" timestampadd(MICROSECOND, {COLUMN}, TIMESTAMP_NTZ'1970-01-01 00:00:00'))"
        ),
        native=COLUMN,
        form="micros",
        finish="epoch_micros",
    ),
    "timestamp with time zone": TypeMapping(
        delta_type="timestamp",
        template=f"CASE WHEN isfinite({COLUMN}) AND {COLUMN} < TIMESTAMPTZ'{_LATEST} 00:00:00+00' THEN {_MICROS}{_NO_MOMENT}",
        carrier="bigint",
        unstorable=f"{COLUMN} = -{UNSTORABLE_MICROS}",
        decoder=f"timestamp_micros({COLUMN})",
        native=COLUMN,
        form="micros",
        finish="epoch_micros",
    ),
}

_NUMERIC: Final = re.compile(r"^numeric\((\d+),(-?\d+)\)$")
_PRECISION: Final = re.compile(r"\(\d+\)")


_DATES: Final = frozenset(("date", "timestamp without time zone", "timestamp with time zone"))


def postgres_mapping(declared: str, types: TypePolicies = DEFAULT_TYPES) -> TypeMapping:
    """Maps a Postgres type as `format_type` prints it; for a domain, its base type.

    What has no stored form of its own (uuid, json, ranges, enums, intervals, numeric without bounds) is kept as the server's text, which is
    exact; arrays as JSON. Types of extensions that have no text are refused where the catalog is read.

    Args:
        declared: The type.
        types: What becomes of values that no stored type holds.
    """
    text = declared.strip().lower()
    if text.endswith("]"):
        return TypeMapping(delta_type="string", template=f"CAST(to_json({COLUMN}) AS text)")
    if text == "numeric" or text.startswith("numeric("):
        return _numeric(text, types)
    base = _PRECISION.sub("", text)
    if base in _DATES:
        return under_policy(_POSTGRES_FIXED[base], types.zero_dates, _AS_TEXT)
    return _POSTGRES_FIXED.get(base, TypeMapping(delta_type="string", template=_AS_TEXT))


def _numeric(text: str, types: TypePolicies) -> TypeMapping:
    found = _NUMERIC.match(text)
    precision, scale = (int(found[1]), int(found[2])) if found else (MAX_DECIMAL_DIGITS + 1, 0)
    if precision > MAX_DECIMAL_DIGITS:
        return overflowing(types.decimal_overflow, _AS_TEXT)
    if not 0 <= scale <= precision:
        return TypeMapping(delta_type="string", template=_AS_TEXT)
    # NaN is a value of every numeric, but not of a decimal.
    mapping = TypeMapping(delta_type=f"decimal({precision},{scale})", template=f"NULLIF({COLUMN}, 'NaN')", flag=f"{COLUMN} = 'NaN'")
    return under_policy(mapping, types.nan_values, _AS_TEXT)
