"""How each Postgres type is stored, selected, carried and decoded: pure text in, pure text out, like `typemap` for MySQL.

All expressions were tried with the Postgres JDBC driver; sessions are in UTC, with `bytea_output = hex` and `intervalstyle = postgres`.
"""

import re
from typing import Final

from cdc_ops.core.typemap import COLUMN, MAX_DECIMAL_DIGITS, TypeMapping

_AS_TEXT: Final = f"CAST({COLUMN} AS text)"

# Neither infinity has a stored form, nor have the last 29 of Postgres's 294276 years, which no count of microseconds in 64 bits reaches.
_LATEST: Final = "294247-01-01"
_MICROS: Final = "CAST(EXTRACT(EPOCH FROM {column}) * 1000000 AS bigint)"

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
        template=f"CASE WHEN isfinite({COLUMN}) THEN {COLUMN} - DATE'1970-01-01' END",
        carrier="int",
        decoder=f"date_from_unix_date({COLUMN})",
    ),
    "timestamp without time zone": TypeMapping(
        delta_type="timestamp_ntz",
        template=f"CASE WHEN isfinite({COLUMN}) AND {COLUMN} < TIMESTAMP'{_LATEST}' THEN {_MICROS} END",
        carrier="bigint",
        # Both are exact; the first is quicker, but right only where the session's zone is UTC. Spark chooses while it plans.
        decoder=(
            f"IF(current_timezone() = 'UTC', CAST(timestamp_micros({COLUMN}) AS TIMESTAMP_NTZ),"
            f" timestampadd(MICROSECOND, {COLUMN}, TIMESTAMP_NTZ'1970-01-01 00:00:00'))"
        ),
    ),
    "timestamp with time zone": TypeMapping(
        delta_type="timestamp",
        template=f"CASE WHEN isfinite({COLUMN}) AND {COLUMN} < TIMESTAMPTZ'{_LATEST} 00:00:00+00' THEN {_MICROS} END",
        carrier="bigint",
        decoder=f"timestamp_micros({COLUMN})",
    ),
}

_NUMERIC: Final = re.compile(r"^numeric\((\d+),(-?\d+)\)$")
_PRECISION: Final = re.compile(r"\(\d+\)")


def postgres_mapping(declared: str) -> TypeMapping:
    """Maps a Postgres type as `format_type` prints it; of a domain, the type beneath it.

    What has no stored form of its own (uuid, json, ranges, enums, intervals, numeric without bounds) is kept as the server's text, which is
    exact; arrays as JSON. Types of extensions that have no text are refused where the catalog is read.
    """
    text = declared.strip().lower()
    if text.endswith("]"):
        return TypeMapping(delta_type="string", template=f"CAST(to_json({COLUMN}) AS text)")
    if found := _NUMERIC.match(text):
        precision, scale = int(found[1]), int(found[2])
        if precision <= MAX_DECIMAL_DIGITS and 0 <= scale <= precision:
            # NaN is a value of every numeric, but not of a decimal.
            return TypeMapping(delta_type=f"decimal({precision},{scale})", template=f"NULLIF({COLUMN}, 'NaN')")
    return _POSTGRES_FIXED.get(_PRECISION.sub("", text), TypeMapping(delta_type="string", template=_AS_TEXT))
