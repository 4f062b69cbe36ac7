"""The types of Postgres, each with values that are hard to keep; the rules follow docs/types.md, written by hand."""

from typing import Final

from tests.torture.model import Canon, Kind

_TEXT: Final = "({})::text"
_FINITE_DAYS: Final = "CASE WHEN isfinite({0}) THEN ({0} - DATE '1970-01-01')::text END"
_FINITE_MICROS: Final = (
    "CASE WHEN isfinite({0}) AND {0} < TIMESTAMP '294247-01-01' THEN trunc(extract(epoch FROM {0}) * 1000000)::bigint::text END"
)


def _text(declared: str, *values: str, key: bool = True, shown: str = _TEXT, folder: bool = True) -> Kind:
    return Kind(declared=declared, values=values, shown=shown, canon=Canon.TEXT, stored=("string",), key=key, folder=folder)


def _integer(declared: str, stored: str, *values: str) -> Kind:
    return Kind(declared=declared, values=values, shown=_TEXT, canon=Canon.INTEGER, stored=(stored,))


def _decimal(precision: int, scale: int, *values: str) -> Kind:
    kind = f"numeric({precision},{scale})"
    shown = "CASE WHEN {0} <> 'NaN' THEN ({0})::text END"
    return Kind(declared=kind, values=values, shown=shown, canon=Canon.DECIMAL, stored=(f"decimal({precision},{scale})",), raw=_TEXT)


KINDS: Final[dict[str, Kind]] = {
    "int": _integer("integer", "integer", "0", "1", "-1", "7", "42", "2147483647", "-2147483648"),
    "smallint": _integer("smallint", "short", "0", "-32768", "32767", "9"),
    "bigint": _integer("bigint", "long", "0", "9223372036854775807", "-9223372036854775808", "9007199254740993", "-9007199254740993"),
    "oid": _integer("oid", "long", "0", "4294967295"),
    "boolean": Kind(declared="boolean", values=("true", "false"), shown=_TEXT, canon=Canon.BOOLEAN, stored=("boolean",)),
    "dec38": _decimal(
        38,
        18,
        "0.123456789012345678",
        "5",
        "12345678901234566.890000000000000001",
        "-0.000000000000000001",
        "99999999999999999999.999999999999999999",
    ),
    "dec18": _decimal(18, 4, "90071992547409.9231", "-90071992547409.9232", "0.0001", "1", "99999999999999.9999"),
    "dec12": _decimal(12, 2, "12.30", "-0.01", "0", "'NaN'", "9999999999.99"),
    "numeric": _text(
        "numeric", "1.50", "'NaN'", "1e100", "0.1000000000000000000000000000000000000000000001", "12345", "'-Infinity'", key=False
    ),
    "dec50": _text("numeric(50,3)", "12345678901234567890123456789012345678901234567.125", "0.5"),
    "real": Kind(
        declared="real",
        values=("0.1", "3.4028235e38", "'NaN'", "'-Infinity'", "1e-45", "-0.0", "16777217"),
        shown="encode(float4send({}), 'hex')",
        canon=Canon.FLOAT,
        stored=("float",),
        key=False,
    ),
    "double": Kind(
        declared="double precision",
        values=("0.1", "1.7976931348623157e308", "'NaN'", "'Infinity'", "5e-324", "-0.0", "9007199254740993", "1e-323", "2"),
        shown="encode(float8send({}), 'hex')",
        canon=Canon.DOUBLE,
        stored=("double",),
        key=False,
    ),
    "text": _text(
        "text",
        "''",
        "'a b'",
        "'DE'",
        "'a ''q'' \\ b'",
        "E'tab\\tnew\\nline\\r'",
        "'é漢😀'",
        "'__HIVE_DEFAULT_PARTITION__'",
        "'null'",
        "'a/b%2F=:'",
        "E'\\u0001'",
        "repeat('x', 40) || 'a'",
        "repeat('x', 40) || 'b'",
        "repeat('ü', 33)",
        "repeat(U&'\\+01F600', 40)",
        "'A'",
        "' '",
        "'b '",
    ),
    "varchar": _text("varchar(20)", "''", "'x'", "'É'", "'e '", "' lead'", "'_'"),
    "char": _text("character(5)", "'ab'", "'abcde'", "''", "'z'"),
    "citext": _text("citext", "'MiXed'", "'x'", "''", "'É'"),
    "long text": _text("text", "repeat('lang', 3000)", "repeat(md5('a'), 800)", "'kurz'", key=False, folder=False),
    "bytea": Kind(
        declared="bytea",
        values=("'\\x00ff10'", "''", "'\\xff'", "'\\x80'", "'\\x7f'", "decode(repeat('ab', 50), 'hex')"),
        shown="encode({}, 'hex')",
        canon=Canon.BYTES,
        stored=("binary",),
        folder=False,
    ),
    "uuid": _text("uuid", "'00000000-0000-0000-0000-0000000000ff'", "'f47ac10b-58cc-4372-a567-0e02b2c3d479'"),
    "json": _text("json", """'{"b": 1,  "a":1.10, "a": 12345678901234567890123}'""", "'null'", key=False, folder=False),
    "jsonb": _text("jsonb", """'{"b": 1,  "a": 1.10, "n": 12345678901234567890123}'""", "'null'", "'[]'", key=False, folder=False),
    "int[]": _text("integer[]", "'{1,NULL,3}'", "'{{1,2},{3,4}}'", "'{}'", key=False, shown="to_json({})::text", folder=False),
    "text[]": _text(
        "text[]",
        """'{"a,b","c\\"d",NULL}'""",
        "'{}'",
        "array_fill('abcdefghij'::text, ARRAY[900])",
        key=False,
        shown="to_json({})::text",
        folder=False,
    ),
    "interval": _text("interval", "'1 year 2 mons -3 days 04:05:06.789'", "'-00:00:00.000001'", "'0'", key=False),
    "time": _text("time", "'24:00:00'", "'23:59:59.999999'", "'00:00:00'"),
    "timetz": _text("timetz", "'12:00:00+05:30'", "'24:00:00-00'"),
    "bit": _text("bit(3)", "B'101'", "B'000'"),
    "money": _text("money", "12.34", "'-92233720368547758.08'"),
    "inet": _text("inet", "'10.0.0.1'", "'::1/64'", "'::1'"),
    "range": _text("int4range", "'[1,5)'", "'empty'", key=False),
    "point": _text("point", "'(0.1,2)'", "'(1e-300,2)'", key=False, folder=False),
    "tsvector": _text("tsvector", "'a fat cat'", "''", key=False, folder=False),
    "mood": _text("mood", "'sad'", "'happy'"),
    "price": Kind(declared="price", values=("12.50", "-0.01"), shown=_TEXT, canon=Canon.DECIMAL, stored=("decimal(10,2)",)),
    "date": Kind(
        declared="date",
        values=(
            "'0001-01-01'",
            "'1582-10-10'",
            "'9999-12-31'",
            "'1900-02-28'",
            "'2024-02-29'",
            "'infinity'",
            "'-infinity'",
            "'1970-01-01'",
        ),
        shown=_FINITE_DAYS,
        canon=Canon.DAYS,
        stored=("date",),
        raw=_TEXT,
    ),
    "timestamp": Kind(
        declared="timestamp",
        values=(
            "'0001-01-01'",
            "'1582-10-10 01:02:03.000004'",
            "'9999-12-31 23:59:59.999999'",
            "'infinity'",
            "'2024-03-31 02:30:00.1234'",
            "'1969-12-31 23:59:59.999999'",
        ),
        shown=_FINITE_MICROS,
        canon=Canon.MICROS,
        stored=("timestamp_ntz",),
        raw=_TEXT,
    ),
    "timestamptz": Kind(
        declared="timestamptz",
        values=(
            "'1582-10-10 01:02:03.000004+01'",
            "'2024-03-31 02:30:00.123456+02'",
            "'-infinity'",
            "'2024-10-27 01:30:00.000001+00'",
            "'1900-01-01 00:00:00+00'",
        ),
        shown=_FINITE_MICROS.replace("TIMESTAMP '", "TIMESTAMPTZ '"),
        canon=Canon.MICROS,
        stored=("timestamp",),
        raw=_TEXT,
    ),
}
PRELUDE: Final = (
    "CREATE EXTENSION IF NOT EXISTS citext",
    "CREATE TYPE mood AS ENUM ('sad', 'happy')",
    "CREATE DOMAIN price AS numeric(10,2)",
)
