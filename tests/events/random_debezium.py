"""Random records of Debezium's MySQL connector, the same for a seed: valid, strange and damaged ones. Other tools: see `random_formats`."""

import json
import random
from typing import Any, ClassVar, Final

from cdc_ops.core.schema.server_types.mysql_types import mysql_mapping
from cdc_ops.core.schema.server_types.unsigned_bigints import widened
from cdc_ops.core.schema.tables import Column, TableName, TableSchema

COLUMNS: Final = {
    "id": "bigint",
    "code": "varchar(9)",
    "tiny": "tinyint",
    "small": "smallint unsigned",
    "whole": "int",
    "big": "bigint unsigned",
    "price": "decimal(10,2)",
    "wide": "decimal(38,6)",
    "rate": "double",
    "part": "float",
    "day": "date",
    "local": "datetime(3)",
    "fine": "datetime(6)",
    "seen": "timestamp(6)",
    "took": "time(3)",
    "built": "year",
    "flag": "bit(1)",
    "bits": "bit(10)",
    "doc": "json",
    "kind": "enum('new','paid')",
    "raw": "varbinary(20)",
    "padded": "binary(4)",
    "note": "text",
}
SETTINGS: Final = {
    "skipped.operations": "none",
    "snapshot.mode": "no_data",
    "event.converting.failure.handling.mode": "fail",
    "enable.time.adjuster": "false",
    "converter.replace.null.with.default": "false",
    "schemas.enable": "false",
    "time.precision.mode": "adaptive_time_microseconds",
    "binary.handling.mode": "bytes",
}
TEXT_SETTINGS: Final = {**SETTINGS, "decimal.handling.mode": "string"}
BYTES_SETTINGS: Final = {**SETTINGS, "decimal.handling.mode": "precise"}


def table_of(columns: dict[str, str], keys: tuple[str, ...]) -> TableSchema:
    """A table of MySQL, each column in a type that holds all of its values."""
    found = []
    for name, declared in columns.items():
        mapping = mysql_mapping(declared)
        assert mapping is not None
        found.append(
            Column(name=name, source_type=declared, delta_type=mapping.delta_type, nullable=True, expression=name, lossy=mapping.lossy)
        )
    return TableSchema(table=TableName(schema="shop", name="orders"), columns=widened(tuple(found)), primary_key=keys)


TABLE: Final = table_of(COLUMNS, ("id", "code"))

# Tokens as they may stand for a value of any column: plain ones, ones at the borders of types, and ones that no column has.
TOKENS: Final = (
    *("null", "true", "false", "0", "-0", "1", "-1", "7", "127", "128", "-128", "255", "256", "1900", "2024", "2155", "65535", "65536"),
    *("2147483647", "2147483648", "-2147483648", "-2147483649", "9223372036854775807", "9223372036854775808", "-9223372036854775808"),
    *("18446744073709551615", "18446744073709551616", "99999999999999999999999999999999999999", "007", "+1", "1.", ".5", "1e3", "1E+2"),
    *("0.5", "-0.0", "0.1", "12.50", "12.505", "1.7976931348623157e308", "5e-324", "16777217", "0.30000000000000004", "1e400", "NaN"),
    *("719162", "-719162", "-719163", "2932896", "2932897", "253402300799999", "253402300800000", "253402300799999999", "1767225600123"),
    *("253402300800000000", "-62135596800000", "-62135596800001", "3020399000000", "-3020399000000", "3600000000000", "86399999999"),
    *('""', '"a"', '" a "', '"Größe"', '"日本"', '"𝄞"', '"a\\"b"', '"a\\\\b"', '"\\u00e9"', '"\\ud834\\udd1e"', '"\\ud800"', '"\\u0000"'),
    *(
        '"a\\nb\\tc\\/d\\b\\f\\r"',
        '"a\x7fb"',
        '"a\tb"',
        '"0"',
        '"-1"',
        '"12.50"',
        '"-12.5"',
        '"0.00"',
        '"-0.00"',
        '"12.505"',
        '"12345678.90"',
    ),
    *('"123456789.00"', '"012.50"', '"1e2"', '".5"', '"5."', '"+5.00"', '" 5.00"', '"NAN"', '"POSITIVE_INFINITY"', '"true"', '"12,50"'),
    *('"99999999999999999999999999999999.999999"', '"100000000000000000000000000000000"', '"0.000001"', '"0.0000001"'),
    *(
        '"2024-02-29T12:00:00Z"',
        '"2024-02-29T12:00:00.123456Z"',
        '"2024-02-30T12:00:00Z"',
        '"1970-01-01T00:00:00Z"',
        '"1970-01-01T00:00:01Z"',
    ),
    *('"2024-02-29T12:00:00.1234567Z"', '"2024-02-29T12:00:00+02:00"', '"2024-02-29T23:59:60Z"', '"2024-02-29 12:00:00Z"', '"0000-00-00"'),
    *('"10000-01-01T00:00:00Z"', '"0001-01-01T00:00:00+18:00"', '"9999-12-31T23:59:59.999999-18:00"', '"2024-02-29T12:00:00+19:00"'),
    *(
        '"AQ=="',
        '"/w=="',
        '"AAE="',
        '"AQI="',
        '"AQI"',
        '"AQJ="',
        '"AQ=A"',
        '"A==="',
        '"=AAA"',
        '"AAAA"',
        '"gAAAAAAAAAA="',
        '"f/////////8="',
    ),
    *('"BNI="', '"+y4="', '"AAAAAAAAAAAA"', '"AQ=="', '"AwM="', '"/////////////////////w=="', '"YWJj ZA=="', '"YWJj\\nZA=="', '"YW-_"'),
    *(
        '"X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ=="',
        '"__debezium_unavailable_value"',
        '"__debt"',
        '"[\\"X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ==\\"]"',
    ),
    *('"5f5f646562657a69756d5f756e617661696c61626c655f76616c7565"', '"\\u005f_debezium_unavailable_value"', "{}", "[]", '{"a":1}', "[1,2]"),
    *(
        '"{\\"a\\":1,\\"b\\":[1,2]}"',
        '"{\\"a\\": 1, \\"b,:\\":  [1 ,2]}"',
        '"[1,\\"x:y,z\\\\\\"\\"]"',
        '"\\"open"',
        '"{a:1,,b}"',
        '"1,\\"a\\\\"',
    ),
)

_VALID: Final[dict[str, tuple[str, ...]]] = {
    "tiny": ("1", "-128", "127", "true"),
    "small": ("0", "65535"),
    "whole": ("-2147483648", "12", "2147483647"),
    "big": ("0", "9223372036854775807", "12"),
    "rate": ("0.1", "12", "-0.0", "1.7976931348623157e308"),
    "part": ("0.1", "12"),
    "day": ("0", "19782", "-719162", "2932896"),
    "local": ("1767225600123", "-1", "0"),
    "fine": ("1767225600123456", "-1", "0"),
    "seen": ('"2024-02-29T12:00:00Z"', '"2024-02-29T12:00:00.123456Z"', '"1970-01-01T00:00:01Z"'),
    "took": ("0", "-1000", "3020399000000", "86399999000", "-3020399000000"),
    "built": ("2024", "1901"),
    "flag": ("true", "false"),
    "bits": ('"AwM="', '"AQ=="', '"AAA="'),
    "doc": ('"{\\"a\\":1,\\"b\\":[1,2]}"', '"[]"', '"\\"x\\""'),
    "kind": ('"new"', '"paid"'),
    "raw": ('"AQI="', '""', '"/w=="'),
    "padded": ('"AQI="', '"AQIDBA=="', '""'),
    "note": ('"a"', '""', '"Größe 日本 𝄞"', '"a\\"b\\\\c\\nd"', '"\\u00e9"'),
}
_DECIMALS: Final = {
    "string": {"price": ('"12.50"', '"-0.01"', '"99999999.99"'), "wide": ('"0.000001"', '"12345678901234567890123456789012.123456"')},
    "precise": {"price": ('"BNI="', '"/w=="', '"AA=="'), "wide": ('"D0JA"', '"f/////////8="')},
}


class Records:
    """Makes records of `TABLE`, the same ones for a seed.

    Args:
        seed: Of the choices.
        decimals: `string` or `precise`, as `decimal.handling.mode`.
    """

    columns: ClassVar[dict[str, str]] = COLUMNS
    valid: ClassVar[dict[str, tuple[str, ...]]] = _VALID
    tokens: ClassVar[tuple[str, ...]] = TOKENS
    extra: ClassVar[tuple[str, ...]] = (
        *("ddl", "status", "id", "databaseName", "schema", "payload", "lsn", "__cdc_ops_end", "txId", "scn", "ts_ms", "event_serial_no"),
    )
    """Names of members that formats look at, though records of the table have none of them."""

    def __init__(self, seed: int, decimals: str = "string") -> None:
        self._random = random.Random(seed)
        self._valid = {**_DECIMALS[decimals], **self.valid}

    def lines(self, count: int) -> list[bytes]:
        """Records: half of them valid, the others with a strange value, member or byte."""
        return [self._line(number) for number in range(count)]

    def _line(self, number: int) -> bytes:
        pick = self._random
        operation = pick.choice("cuuudr")
        images = self._images(operation, number)
        kind = pick.randrange(10)
        if kind == 5:
            side = pick.choice([name for name in ("before", "after") if images[name] is not None])
            for name in pick.sample([*self.columns], pick.choice((1, 1, 2))):
                images[side][name] = pick.choice(self.tokens)
        record = self._record(operation, number, images)
        if kind == 6:
            record = self._strange(record)
        text = self._written(record).encode()
        if kind == 7:
            text = self._damaged(text)
        if kind == 8:
            text = pick.choice(
                (b"", b"null", b" ", b"{}", b"[]", b"12", text + b"}", text + b" x", text[: len(text) // 2], b"\xef\xbb\xbf" + text)
            )
        return text.replace(b"\n", b" ")

    def _images(self, operation: str, number: int) -> dict[str, Any]:
        pick = self._random
        key = {
            "id": str(number % 97),
            "code": json.dumps(f"k{number % 5}ü" if number % 3 else f"k{number % 5}", ensure_ascii=pick.random() < 0.2),
        }
        after = {name: key[name] if name in key else pick.choice((*self._valid[name], "null")) for name in self.columns}
        before = {name: key[name] if name in key else pick.choice((*self._valid[name], "null")) for name in self.columns}
        if operation == "u" and pick.random() < 0.1:
            before["id"] = "98"
        if operation in "ud" and pick.random() < 0.1:
            before = {name: before[name] for name in key}
        if operation == "u" and pick.random() < 0.3:
            return {"before": None, "after": after}
        return {"before": before if operation in "ud" else None, "after": None if operation == "d" else after}

    def _record(self, operation: str, number: int, images: dict[str, Any]) -> dict[str, Any]:
        pick = self._random
        source = {
            "version": '"3.6.1.Final"',
            "connector": pick.choice(('"mysql"', '"mysql"', '"mysql"', '"mariadb"')),
            "ts_ms": str(1767225600000 + number),
            "snapshot": pick.choice(('"false"', '"false"', "null", '"true"', '"last"', "false", "true", '""')),
            "db": '"shop"',
            "sequence": "null",
            "table": '"orders"' if pick.random() < 0.97 else '"others"',
            "gtid": pick.choice(("null", "null", '"3E11FA47:23"', '"0-1-270"')),
            "file": '"mysql-bin.000007"',
            "pos": str(number),
            "row": pick.choice(("0", "1", "null")),
        }
        transaction = pick.choice(("null", "null", {"id": '"t:1"', "total_order": str(number), "data_collection_order": "1"}))
        return {
            "before": images["before"],
            "after": images["after"],
            "source": source,
            "op": f'"{operation}"',
            "ts_ms": str(number),
            "transaction": transaction,
        }

    def _strange(self, record: dict[str, Any]) -> dict[str, Any]:
        """Changes a member: takes it away, gives it a strange value or another name, or adds one."""
        pick = self._random
        place: dict[str, Any] = pick.choice([record, *_inner(record)])
        name = pick.choice([*place, "none"])
        if name == "none":
            name, place["none"] = "none", "null"
        strange = (
            *TOKENS[:12],
            '"x"',
            '"t"',
            '"m"',
            '"mysql-bin"',
            '"bin.1"',
            '"123456789012345678901"',
            "123456789012345678901",
            "9223372036854775807",
            "{}",
            '{"total_order":"x"}',
            '{"id":7}',
        )
        match pick.randrange(6):
            case 0:
                del place[name]
            case 1:
                place[name] = pick.choice(strange)
            case 2:
                place[name + " "] = place[name]
            case 3:
                place["strange"] = pick.choice(strange)
            case 4:
                place[pick.choice(self.extra)] = pick.choice(strange)
            case _:
                return (
                    {pick.choice(("schema", "payload")): pick.choice(("null", "{}")), **record}
                    if pick.random() < 0.5
                    else {"payload": record}
                )
        return record

    def _damaged(self, text: bytes) -> bytes:
        """Changes, doubles or removes some bytes."""
        pick, found = self._random, bytearray(text)
        for _ in range(pick.choice((1, 1, 2, 5))):
            place = pick.randrange(len(found))
            match pick.randrange(4):
                case 0:
                    found[place] = pick.randrange(256)
                case 1:
                    del found[place]
                case 2:
                    found.insert(place, pick.choice(b'"{}[]:,\\ 0-.eE\x00\x1f\xff'))
                case _:
                    end = min(len(found), place + pick.randrange(40))
                    found[end:end] = found[place:end]
        return bytes(found)

    def _written(self, value: Any) -> str:
        if value is None:
            return "null"
        if isinstance(value, str):
            return value
        if isinstance(value, list):
            return "[" + ",".join(map(self._written, value)) + "]"
        blank = self._random.choice(("", "", "", " "))
        items = list(value.items())
        if self._random.random() < 0.05:
            self._random.shuffle(items)
        if self._random.random() < 0.01 and items:
            items.append(self._random.choice(items))
        return "{" + ",".join(f"{blank}{json.dumps(name)}:{blank}{self._written(inner)}" for name, inner in items) + blank + "}"


def _inner(record: dict[str, Any]) -> list[dict[str, Any]]:
    """The objects within a record."""
    values = [inner for value in record.values() for inner in (value if isinstance(value, list) else [value]) if isinstance(inner, dict)]
    return [*values, *(one for value in values for one in _inner(value))]
