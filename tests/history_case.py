"""Rows of event histories, made at random: events of a source that breaks all rules but one, that no two of them have one place."""

from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from random import Random
from typing import Any, Final

import pyarrow as pa

from tests.lake_case import schema

COLUMNS: Final = (
    ("id", "bigint"), ("part", "string"), ("n", "int"), ("text", "string"), ("price", "decimal(38,10)"), ("at", "timestamp"),
    ("local", "timestamp_ntz"), ("day", "date"), ("x", "double"), ("raw", "binary"),
)  # fmt: skip
KEYS: Final = ("id", "part")
NAMES: Final = tuple(name for name, _ in COLUMNS)
SCHEMA: Final = schema(*COLUMNS, keys=KEYS)
_FIRST, _LAST = datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59, 999999)
_VALUES: Final[dict[str, tuple[Any, ...]]] = {
    "n": (None, 0, -(2**31), 2**31 - 1),
    "text": (None, "", "x", "é" * 40),
    "price": (None, Decimal(0), Decimal("-" + "9" * 28 + ".9999999999"), Decimal("0.0000000001")),
    "at": (None, _FIRST.replace(tzinfo=UTC), _LAST.replace(tzinfo=UTC), datetime(1969, 12, 31, 23, 59, 59, 999999, UTC)),
    "local": (None, _FIRST, _LAST),
    "day": (None, date(1, 1, 1), date(9999, 12, 31), date(1970, 1, 1)),
    "x": (None, 1.5, float("inf"), 5e-324),
    "raw": (None, b"", b"\x00\xff"),
}
_ROW = pa.struct({
    "id": pa.int64(), "part": pa.string(), "n": pa.int32(), "text": pa.string(), "price": pa.decimal128(38, 10),
    "at": pa.timestamp("us", "UTC"), "local": pa.timestamp("us"), "day": pa.date32(), "x": pa.float64(), "raw": pa.binary(),
})  # fmt: skip
_KEY = pa.struct({"id": pa.int64(), "part": pa.string()})
ROWS: Final = pa.schema({
    "kind": pa.string(), "op": pa.string(), "op_seq": pa.int64(), "position": pa.list_(pa.int64()), "identity": pa.list_(pa.int64()),
    "table_version": pa.int64(), "key": _KEY, "previous_key": _KEY, "after": _ROW, "present": pa.list_(pa.string()),
    "nulled": pa.list_(pa.string()),
})  # fmt: skip
"""What a fold reads of `lake.history.rows`."""


def history_rows(seed: int, events: int = 60) -> pa.Table:
    """Returns rows of a history in any order, of some events twice."""
    random = Random(seed)
    rows = list(_rows(random, events))
    rows += random.choices(rows, k=len(rows) // 5)
    random.shuffle(rows)
    return pa.Table.from_pylist(rows, ROWS)


def _rows(random: Random, events: int) -> Iterator[dict[str, Any]]:
    keys = [{"id": number, "part": part} for number in (-(2**63), 0, 7, 2**63 - 1) for part in ("", "a", None)]
    for key in random.sample(keys, 4):  # what the table had where the history begins, without a place or with one
        place = random.choice((None, [0], [0, 5]))
        yield _row("state", random.choice("rrd"), random, key, op_seq=1, position=place, table_version=3)
    for number in range(1, events):
        place = [number // 3, number % 3, *([0] if number > events // 2 else [])]  # a later version of a tool has one number more
        key, op_seq = random.choice(keys), 1 + number // 20
        match random.choice("ccruuuuukkdds") if random.random() < 0.97 else random.choice("tl"):
            case "t":
                yield dict(_EMPTY, kind="change", op="t", op_seq=op_seq, position=place, identity=[number])
            case "l":
                yield dict(_EMPTY, kind="ddl", op=None, op_seq=op_seq, position=place, identity=[number])
            case "s":
                for version in random.sample(range(4, 9), 2):
                    yield _row("state", random.choice("rud"), random, key, op_seq=op_seq, position=place, table_version=version)
            case "k":
                old = random.choice([other for other in keys if other != key])
                yield _row("change", "u", random, key, op_seq=op_seq, position=place, identity=[number], previous_key=old)
            case op:
                row = _row("change", op, random, key, op_seq=op_seq, position=place, identity=[number])
                yield row
                if random.random() < 0.2:  # and a state behind the event
                    yield _row("state", random.choice("rd"), random, key, op_seq=op_seq + 1, position=place, table_version=0)


_EMPTY: Final[dict[str, Any]] = dict.fromkeys(ROWS.names)


def _row(kind: str, op: str, random: Random, key: dict[str, Any], **others: Any) -> dict[str, Any]:
    row = _EMPTY | {"kind": kind, "op": op, "key": key} | others
    if op == "d":
        return row | {"present": []}
    has = random.choice((set(NAMES), {name for name in NAMES if name in KEYS or random.random() < 0.5}))
    after = key | {name: random.choice(values) for name, values in _VALUES.items() if name in has}
    nulled = [name for name, value in after.items() if value is None and random.random() < 0.2]
    return row | {"after": after, "present": [name for name in NAMES if name in has], "nulled": nulled}
