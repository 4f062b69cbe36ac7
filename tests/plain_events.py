"""Records for the two ways in which change events are read: valid, hostile and damaged ones, and the comparison of what comes out."""

import json
import random
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from cdc_ops.decode.json.reader import PlainReader
from cdc_ops.formats.feed.canonical import canonical_feed
from cdc_ops.formats.feed.plain import plain_format
from cdc_ops.formats.registry import open_format
from pyspark.sql import SparkSession

from cdc_ops.core.events.change_feed import RECORD_COLUMNS
from cdc_ops.core.events.format_spec import FormatOptions
from cdc_ops.core.schema.mysql_types import mysql_mapping
from cdc_ops.core.schema.tables import Column, TableName, TableSchema
from cdc_ops.core.schema.unsigned_bigints import widened

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

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
    """Names of members that the exact way looks at, though records of the table have none of them."""

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


_RECORD_TYPES: Final = ", ".join(f"{name} {kind}" for name, kind in RECORD_COLUMNS if name != "value")


def exact_rows(
    spark: SparkSession, table: TableSchema, options: FormatOptions, lines: Sequence[bytes], first: int, wanted: Iterable[int]
) -> dict[int, list[dict[str, Any]]]:
    """The feed of records by the exact way, by their lines; only of those lines that are wanted.

    Lines below 0 are the same without offsets: line -1 is line 0, line -2 is line 1.
    """
    form = open_format(options.name)
    rows = [(bytearray(line), "f", number, 0, first + number if first >= 0 else None) for number, line in enumerate(lines)]
    if any(line < 0 for line in wanted):
        rows += [(bytearray(line), "f", -1 - number, 0, None) for number, line in enumerate(lines)]
    records = spark.createDataFrame(rows, f"value binary, {_RECORD_TYPES}").selectExpr("CAST(value AS STRING) AS value", "* EXCEPT (value)")
    feed = canonical_feed(form, form.envelopes(records, options), table, table.primary_key, options, before=False)
    names = ("kind", "op", "table", "key", "previous_key", "after", "present", "nulled", "unmapped", "position", "source_time", "line")
    taken, found = feed.select(*names).toArrow(), dict[int, list[dict[str, Any]]]()
    for row in taken.filter(pc.is_in(taken["line"], pa.array(list(wanted), pa.int64()))).to_pylist():
        found.setdefault(row["line"], []).append(row)
    return found


def plain_rows(table: TableSchema, options: FormatOptions, lines: Sequence[bytes], first: int) -> dict[int, dict[str, Any]]:
    """The feed of those records that the compiled decoder takes, by their lines."""
    keys = table.primary_key
    form = plain_format(table, keys, options)
    assert form is not None
    reader, found = PlainReader(form=form), dict[int, dict[str, Any]]()
    for begin in range(0, len(lines), 1000):  # several batches, so that nothing of one is left in the next
        some = lines[begin : begin + 1000]
        data = np.frombuffer(b"\n".join(some), np.uint8)
        ends = np.cumsum([len(line) + 1 for line in some]) - 1
        starts = ends - [len(line) for line in some]
        rows, plain = reader.read(data, starts, ends, np.arange(begin, begin + len(some)), first)
        assert rows.num_rows == plain.sum()
        order = [part.name for part in open_format(options.name).spec.order]
        for row in rows.to_pylist():
            found[row["line"]] = _as_feed(row, table, keys, order)
    return found


def _as_feed(row: dict[str, Any], table: TableSchema, keys: tuple[str, ...], order: list[str]) -> dict[str, Any]:
    deleted = row["operation"] == ord("d")
    return {
        "kind": "change",
        "op": chr(row["operation"]),
        "table": {"schema": table.table.schema, "name": table.table.name},
        "key": {name: row[f"k{index}"] for index, name in enumerate(keys)},
        "previous_key": None,
        "after": None if deleted else {name: row[f"c{index}"] for index, name in enumerate(table.names)},
        "present": [] if deleted else [*table.names],
        "nulled": [],
        "unmapped": [],
        "position": {name: row[f"p{index}"] for index, name in enumerate(order)},
        "source_time": row["moment"],
        "line": row["line"],
    }


def differences(
    exact: dict[int, list[dict[str, Any]]], plain: dict[int, dict[str, Any]], *, named: bool = True
) -> Iterator[tuple[int, Any, Any]]:
    """Lines that the compiled decoder reads otherwise than the exact way; numbers are compared by their text, which tells 0.0 from -0.0."""
    for line, row in plain.items():
        other = [dict(one) for one in exact.get(line, [])]
        for one in other:
            if one["table"] == {"schema": None, "name": None} and not named:
                one["table"] = row["table"]
            if one["source_time"] is not None:
                one["source_time"] = (one["source_time"] - _EPOCH) // timedelta(microseconds=1)
        if [repr(one) for one in other] != [repr(row)]:
            yield line, row, other
