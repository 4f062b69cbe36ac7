"""Names of the schemas by which Debezium's connectors tell how a value is written. Spark-free."""

from typing import Final

from cdc_ops.core.schema.logical_types import LogicalType, fraction_digits, logical_type_of
from cdc_ops.core.schema.server_types.mysql_types import DeclaredType
from cdc_ops.core.schema.tables import Column

CONNECT: Final = "org.apache.kafka.connect.data."
TIME: Final = "io.debezium.time."
PRECISE: Final = f"{CONNECT}Decimal"
VARIABLE: Final = "io.debezium.data.VariableScaleDecimal"
YEAR_ZERO: Final = 1900
"""The year that the connectors write for the year 0000 in the log: YEAR holds 1901 to 2155, and 0."""
_MICRO_DIGITS: Final = 6


def declared_name(column: Column, mode: str) -> str:
    """Returns the schema name that a connector uses for a column under a `time.precision.mode`."""
    base, fine = DeclaredType.parse(column.source_type).base, fraction_digits(column) > 3
    is_time = logical_type_of(column) is LogicalType.TIME
    if base == "date":
        return f"{TIME}IsoDate" if mode == "isostring" else f"{TIME}Date"
    kind = "Time" if is_time else "Timestamp"
    match mode:
        case "isostring":
            return f"{TIME}Iso{kind}"
        case "connect":
            return f"{CONNECT}{kind}"
        case "nanoseconds":
            return f"{TIME}Nano{kind}"
        case "microseconds":
            return f"{TIME}Micro{kind}"
        case "adaptive_time_microseconds" if is_time:
            return f"{TIME}MicroTime"
        case _ if fraction_digits(column) > _MICRO_DIGITS:
            return f"{TIME}Nano{kind}"
        case _:
            return f"{TIME}Micro{kind}" if fine else f"{TIME}{kind}"
