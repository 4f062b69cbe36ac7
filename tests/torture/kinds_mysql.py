"""The types of MySQL and MariaDB, each with values that are hard to keep; the rules follow docs/types.md, written by hand."""

from typing import Final

from tests.torture.model import Canon, Kind

_PLAIN: Final = "CAST({} AS CHAR)"
_TEXT: Final = "HEX(CONVERT({} USING utf8mb4))"
_AS_TEXT: Final = "HEX(CAST({} AS CHAR CHARACTER SET utf8mb4))"


def _integer(declared: str, stored: str, *values: str, shown: str = _PLAIN) -> Kind:
    return Kind(declared=declared, values=values, shown=shown, canon=Canon.INTEGER, stored=tuple(stored.split("|")))


def _decimal(precision: int, scale: int, *values: str) -> Kind:
    stored = (f"decimal({precision},{scale})",)
    return Kind(declared=f"DECIMAL({precision},{scale})", values=values, shown=_PLAIN, canon=Canon.DECIMAL, stored=stored)


def _text(declared: str, *values: str, key: bool = True, shown: str = _TEXT, folder: bool = True) -> Kind:
    return Kind(declared=declared, values=values, shown=shown, canon=Canon.TEXT, stored=("string",), key=key, folder=folder)


def _bytes(declared: str, *values: str, key: bool = True) -> Kind:
    return Kind(declared=declared, values=values, shown="HEX({})", canon=Canon.BYTES, stored=("binary",), key=key, folder=False)


def _time(declared: str, canon: Canon, stored: str, *values: str) -> Kind:
    return Kind(declared=declared, values=values, shown=_PLAIN, canon=canon, stored=(stored,), raw=_AS_TEXT)


_BOTH: Final[dict[str, Kind]] = {
    "int": _integer("INT", "integer", "0", "1", "-1", "7", "42", "2147483647", "-2147483648"),
    "tinyint(1)": _integer("TINYINT(1)", "byte", "0", "1", "2", "-128"),
    "tinyint u": _integer("TINYINT UNSIGNED", "short", "0", "255"),
    "smallint": _integer("SMALLINT", "short", "-32768", "32767", "0"),
    "smallint u": _integer("SMALLINT UNSIGNED", "integer", "65535", "0"),
    "mediumint": _integer("MEDIUMINT", "integer", "-8388608", "8388607"),
    "int u": _integer("INT UNSIGNED", "long", "4294967295", "0", "2147483648"),
    "bigint": _integer("BIGINT", "long", "0", "9223372036854775807", "-9223372036854775808", "9007199254740993"),
    "bigint u": _integer(
        "BIGINT UNSIGNED", "long|decimal(20,0)", "0", "18446744073709551615", "9223372036854775808", "9223372036854775807", "5"
    ),
    "dec38": _decimal(38, 18, "0.123456789012345678", "5", "12345678901234566.890000000000000001", "-0.000000000000000001"),
    "dec18": _decimal(18, 4, "90071992547409.9231", "-90071992547409.9232", "0.0001", "1"),
    "dec12": _decimal(12, 2, "12.30", "-0.01", "0", "9999999999.99"),
    "dec65": _text("DECIMAL(65,30)", "12345678901234567890123456789012345.123456789012345678901234567890", "0.5", "-0.1", shown=_AS_TEXT),
    "float": Kind(
        declared="FLOAT",
        values=("0.1", "3.4028234e38", "1e-38", "16777217", "-0.5"),
        shown="CAST({} * 1e0 AS CHAR)",
        canon=Canon.FLOAT,
        stored=("float",),
        key=False,
    ),
    "double": Kind(
        declared="DOUBLE",
        values=("0.1", "1.7976931348623157e308", "2.2250738585072014e-308", "9007199254740993", "1e-300", "-0.5"),
        shown=_PLAIN,
        canon=Canon.DOUBLE,
        stored=("double",),
        key=False,
    ),
    "bit": _integer("BIT(10)", "long", "b'1'", "b'1111111111'", "0", shown="CAST({} + 0 AS CHAR)"),
    "bit64": _integer("BIT(64)", "decimal(20,0)", "0", "0xFFFFFFFFFFFFFFFF", "1", shown="CAST(CAST({} AS UNSIGNED) AS CHAR)"),
    "year": _integer("YEAR", "short", "1901", "0", "2155", "2024"),
    "date": _time(
        "DATE",
        Canon.DAYS,
        "date",
        "'1000-01-01'",
        "'9999-12-31'",
        "'2024-02-29'",
        "'0000-00-00'",
        "'2024-05-00'",
        "'2024-02-31'",
        "'1582-10-10'",
    ),
    "datetime": _time(
        "DATETIME(6)",
        Canon.MICROS,
        "timestamp_ntz",
        "'1000-01-01 00:00:00.000001'",
        "'9999-12-31 23:59:59.999999'",
        "'2024-03-31 02:30:00.5'",
        "'0000-00-00'",
        "'2024-00-15 01:02:03'",
        "'1582-10-10 12:00:00'",
    ),
    "datetime0": _time(
        "DATETIME", Canon.MICROS, "timestamp_ntz", "'2024-03-31 02:30:00'", "'2023-02-29 12:00:00'", "'0000-00-00'", "'1969-12-31 23:59:59'"
    ),
    "timestamp": _time(
        "TIMESTAMP(6) NULL",
        Canon.MICROS,
        "timestamp",
        "'2024-03-10 07:30:00'",
        "'2038-01-18 03:14:07.999999'",
        "'0000-00-00'",
        "'2024-10-27 00:30:00.123456'",
    ),
    "time": _text("TIME(6)", "'-838:59:59'", "'25:00:00.000001'", "'-00:00:00.000001'", "'00:00:00'", shown=_AS_TEXT),
    "char": _text("CHAR(5)", "'ab '", "''", "'z'", "'é'"),
    "varchar": _text(
        "VARCHAR(60)",
        "'v  '",
        "''",
        "'a b'",
        "'DE'",
        "'__HIVE_DEFAULT_PARTITION__'",
        "'é漢😀'",
        "'q''q\\\\'",
        "'a/b%2F=:'",
        "REPEAT('x', 40)",
        "CONCAT(REPEAT('x', 40), 'a')",
        "REPEAT('ü', 33)",
        "REPEAT('😀', 40)",
        "'null'",
        "' '",
        "'DE '",
        "'Straße'",
    ),
    "binary collation": _text("VARCHAR(40) COLLATE utf8mb4_bin", "'A'", "'a'", "'a '", "''", "'\\t'", "'\\n'", "'ä'"),
    "latin1": _text("VARCHAR(20) CHARACTER SET latin1", "'é€'", "''", "'a'"),
    "utf16": _text("VARCHAR(20) CHARACTER SET utf16", "'ü😀'", "'a'"),
    "text": _text("TEXT", "'a\\0b\\n😀'", "''", "REPEAT('lang', 3000)", key=False, folder=False),
    "enum": _text("ENUM('a','b''(','')", "'b''('", "'a'", "''"),
    "set": _text("SET('x','y','z')", "'x,z'", "''", "'y'"),
    "binary": _bytes("BINARY(4)", "X'6100'", "X''", "X'FFFFFFFF'"),
    "varbinary": _bytes("VARBINARY(10)", "X'00FF00'", "''", "X'FF'", "X'80'", "X'0000'"),
    "blob": _bytes("LONGBLOB", "X'00'", "''", "REPEAT(X'C3', 5000)", key=False),
    "geometry": _bytes("POINT", "ST_GeomFromText('POINT(1 2)')", "ST_GeomFromText('POINT(-0.5 1e10)')", key=False),
}
MARIADB: Final = _BOTH | {
    "json": _text("JSON", '\'{"a": 12345678901234567890.5, "b": [1e400]}\'', "'null'", key=False, folder=False),
    "inet6": _text("INET6", "'::1'", "'fe80::1'", shown=_AS_TEXT),
    "uuid": _text("UUID", "'123e4567-e89b-12d3-a456-426655440000'", "'00000000-0000-0000-0000-000000000001'", shown=_AS_TEXT),
}
MYSQL: Final = _BOTH | {
    "json": _text("JSON", '\'{"b": [1, "é"], "a": 18446744073709551615}\'', "'null'", "'[]'", key=False, folder=False, shown=_AS_TEXT),
    "0900": _text("VARCHAR(20) COLLATE utf8mb4_0900_ai_ci", "'Ä  '", "'a'", "''"),
}
