"""Columns read at once: exactly what each value is by itself, or not at all; and what tools write all the time is read at once."""

import gc
import itertools
import json
import random
import weakref
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from cdc_ops.core.events.format_spec import FormatOptions, RecordKind
from cdc_ops.core.schema.server_types.mysql_types import mysql_mapping
from cdc_ops.core.schema.tables import Column, TableName, TableSchema
from cdc_ops.events import table
from cdc_ops.events.change import ChangeBatch, arrow_type
from cdc_ops.events.conversion.bulk import quick
from cdc_ops.events.conversion.json_text import image_of, images_of, text_of
from cdc_ops.events.conversion.values import ValueTooLargeError, decimal
from cdc_ops.events.format import UNREADABLE, Bulk, Format, NoValue, Read, Reader, ReadsAtOnce
from cdc_ops.events.formats.debezium.schema_names import CONNECT, PRECISE, TIME
from cdc_ops.events.images import take_apart
from cdc_ops.events.parse import envelopes_of, envelopes_of_each
from cdc_ops.events.record import Cell, DoubledImage, Envelope, FieldType, Image, Record
from cdc_ops.events.registry import open_format
from cdc_ops.events.renames import renamer
from cdc_ops.events.scan import spreading, tables
from cdc_ops.events.scan.request import FileTask, ScannedArchive, TableTask
from cdc_ops.events.scan.spreading import Spreader
from cdc_ops.events.scan.tables import TableScan
from cdc_ops.events.table import TableReader
from tests.events.random_debezium import TOKENS
from tests.events.random_formats import CASES, STRANGE
from tests.events.scanned import without_parts

_PLAIN: Final = 1000
_MORE: Final = ("-0.0", "-0e0", "-1e-400", "1e-400", "16777217.0", "16777216.999999999", "3.4028235677973366e38", "1.0e-45")
_TEXTS: Final = (
    '"0x10"',
    '"0X1p3"',
    '" 12"',
    '"12\\n"',
    '"1_000"',
    '"\\u0661"',
    '"1.5f"',
    '"NaN"',
    '"nan"',
    '"inf"',
    '"-Infinity"',
    '"INF"',
)
_TIMES: Final = ('"2024-02-29T12:00:00"', '"2024-02-29 12:00:00.123456"', '"2024-02-29 24:00:00"', '"2024-02-29 12:00"', '"2024-02"')
_ZEROS: Final = (
    '"0000-01-01"',
    '"0000-02-29 00:00:00"',
    '"0000-01-01T00:00:00Z"',
    '"1970-01-01 00:00:00Z"',
    '"1970-01-01T00:00:00.999999Z"',
)


def _is_json(token: str) -> bool:
    try:
        msgspec.json.decode(token)
    except msgspec.DecodeError:
        return '"' in token and "\t" not in token and "\n" not in token
    return True


HOSTILE: Final = tuple(dict.fromkeys(filter(_is_json, (*TOKENS, *STRANGE, *_MORE, *_TEXTS, *_TIMES, *_ZEROS))))
_KINDS: Final = (
    *(FieldType(kind) for kind in ("int64", "string", "bytes", "double")),
    *(FieldType("bytes", PRECISE, scale) for scale in (None, 0, 2, 6)),
    *(
        FieldType("int64", f"{TIME}{name}")
        for name in ("Timestamp", "MicroTimestamp", "NanoTimestamp", "Date", "Time", "MicroTime", "NanoTime")
    ),
    *(FieldType("string", f"{TIME}{name}") for name in ("IsoTimestamp", "IsoDate", "IsoTime", "ZonedTimestamp")),
    FieldType("int32", f"{CONNECT}Date"),
)


def _column(declared: str, stored: str | None = None) -> Column:
    mapping = mysql_mapping(declared)
    assert mapping is not None
    return Column(name="c", source_type=declared, delta_type=stored or mapping.delta_type, nullable=True, expression="c")


_OTHERS: Final = (
    *(_column("bigint", "decimal(20,0)"), _column("decimal(2,2)"), _column("decimal(18,0)"), _column("decimal(19,3)"), _column("bit(64)")),
    *(_column("datetime(6)", "string"), _column("timestamp", "string"), _column("date", "string"), _column("time"), _column("time(6)")),
    *(_column("tinyint(1)"), _column("tinyint(1)", "boolean"), _column("bigint unsigned", "bigint"), _column("year"), _column("char(3)")),
)


def _readers() -> Iterator[Any]:
    """All columns of all formats that can be read at once, as their records say that values are written, and as they do not."""
    for name, case in CASES.items():
        form, valid = open_format(case.format), case.records(1)._valid
        kinds = (None, *_KINDS) if name.endswith("decimals as text") else (None,)
        others = _OTHERS if "mysql" in name or name == "maxwell" else ()
        for number, (column, kind) in enumerate(itertools.product((*case.table.columns, *others), kinds)):
            shown = f"{name}: {column.source_type} as {column.delta_type}"
            if (reader := form.reader(column, kind)).bulk is not None:
                marks = pytest.mark.long if kind is not None and (column in others or number % 3) else ()  # a third of the pairs always
                yield pytest.param(
                    reader, column, valid.get(column.name, ()), id=f"{shown}, {kind}" if kind is not None else shown, marks=marks
                )
    for zone in ("Europe/Berlin", "+05:30"):
        form = open_format(replace(CASES["maxwell"].format, time_zone=zone))
        for column in CASES["maxwell"].table.columns:
            if column.name in ("seen", "local") and (reader := form.reader(column, None)).bulk is not None:
                yield pytest.param(reader, column, (), id=f"maxwell in {zone}: {column.source_type}")


def _one_by_one(reader: Reader, token: str) -> Any:
    try:
        text = text_of(Raw(token.encode()))
    except (msgspec.DecodeError, UnicodeDecodeError):
        return UNREADABLE
    if text is None:
        return None
    try:
        return reader.read(text)
    except ValueTooLargeError:
        return UNREADABLE


def _at_once(reader: Reader, tokens: Sequence[str]) -> pa.Array | None:
    """The values, None if they are not plain."""
    assert reader.bulk is not None
    try:
        return reader.bulk.of_json(f"[{','.join(tokens)}]".encode())
    except ValueError:
        return None


def _assert_same(reader: Reader, column: Column, tokens: Sequence[str]) -> bool:
    """True if the values are read at once; they are what each of them is by itself then."""
    found = _at_once(reader, tokens)
    if found is None:
        return False
    alone = {token: _one_by_one(reader, token) for token in dict.fromkeys(tokens)}
    values = [alone[token] for token in tokens]
    assert not any(value.__class__ is NoValue for value in values), (tokens, found)
    kind = arrow_type(column.delta_type)
    assert found.type == kind
    found.validate(full=True)
    assert _shown(found) == _shown(pa.array(values, kind)), tokens
    return True


def _shown(values: pa.Array) -> str:
    """Values as text, which tells 0.0 from -0.0; moments as numbers, because Python has not all of them."""
    return repr((values.cast(pa.int64()) if pa.types.is_timestamp(values.type) else values).to_pylist())


@pytest.mark.parametrize(("reader", "column", "valid"), [*_readers()])
def test_what_is_read_at_once_is_what_each_value_is_by_itself(reader: Reader, column: Column, valid: tuple[str, ...]) -> None:
    plain = [token for token in dict.fromkeys((*valid, *HOSTILE)) if _assert_same(reader, column, [token]) and token != "null"]
    pick = random.Random(7)
    for _ in range(30):
        some = pick.choices([*plain, "null"], k=pick.choice((2, 3, 8)))
        _assert_same(reader, column, some)
        _assert_same(reader, column, [*some, pick.choice(HOSTILE)])
    if plain:
        many = pick.choices([*plain[:1], "null"], k=_PLAIN)
        assert _assert_same(reader, column, many)
        for token in pick.sample([token for token in HOSTILE if token not in plain], k=10):
            spoilt = [*many]
            spoilt[pick.randrange(_PLAIN)] = token
            _assert_same(reader, column, spoilt)


@pytest.mark.parametrize(
    ("case", "names"),
    [
        (
            "debezium-mysql, decimals as text",
            "id code tiny small whole big price wide rate part day local fine seen took built flag bits raw padded note kind",
        ),
        ("debezium-mysql, decimals as bytes", "price"),
        (
            "debezium-postgres, decimals as text",
            "id code small whole price wide rate part flag day local fine seen took uid raw padded mood note",
        ),
        ("debezium-mysql-unwrapped", "id code price day fine seen note"),
        ("maxwell", "id code tiny small whole big price wide day local fine took built note kind raw"),
        ("canal", "id code tiny small whole big price wide rate part day local fine seen took built note kind labels padded"),
        ("ticdc-canal", "id price seen"),
    ],
)
def test_plain_spellings_are_read_at_once(case: str, names: str) -> None:
    form = open_format(CASES[case].format)
    columns = {column.name: column for column in CASES[case].table.columns}
    for name in names.split():
        reader, tokens = form.reader(columns[name], None), _SPELLED[case].get(name) or _SPELLED[""][name]
        assert reader.bulk is not None, name
        assert _assert_same(reader, columns[name], [*tokens, "null"]), name
        assert _assert_same(reader, columns[name], ["null"] * 3), name


_QUOTED: Final = {
    **dict.fromkeys(("id", "tiny", "whole"), ('"0"', '"-1"', '"127"')),
    **{"small": ('"0"', '"65535"'), "big": ('"0"', '"12"'), "built": ('"2024"', '"1901"'), "price": ('"12.50"', '"-0.01"', '"7"')},
    **{"rate": ('"0.1"', '"-12"', '"1.5E10"'), "part": ('"0.1"', '"12"'), "day": ('"2024-02-29"', '"0001-01-01"', '"9999-12-31"')},
    **{"local": ('"2024-02-29 12:00:00.123"', '"1969-12-31T23:59:59"'), "fine": ('"2024-02-29 12:00:00.123456"', '"0001-01-01 00:00:00"')},
    **{"seen": ('"2024-02-29 12:00:00.123456"', '"1970-01-01 08:00:01"'), "took": ('"12:34:56.789"', '"-838:59:59.000"')},
    **{"labels": ('"gift"', '"gift,late"', '""'), "padded": ('"abcd"', '"\\u0000"')},
}
_SPELLED: Final[dict[str, dict[str, tuple[str, ...]]]] = {
    "": {
        **dict.fromkeys(("id", "tiny", "whole"), ("0", "-1", "127")),
        **{"code": ('"a"', '""', '"Größe 日本 𝄞"', '"a\\"b\\\\c\\nd"', '"\\u00e9"'), "note": ('"a"', '""'), "small": ("0", "32767")},
        **{"big": ("0", "9223372036854775807"), "price": ('"12.50"', '"-0.01"', '"99999999.99"', '"0.00"', '"-0.00"')},
        **{"wide": ('"0.000001"', '"12345678901234567890123456789012.123456"'), "rate": ("0.1", "12", "-0.0", "1.7976931348623157e308")},
        **{"part": ("0.1", "12", "-0.0"), "day": ("0", "19782", "-719162", "2932896"), "local": ("1767225600123", "-1", "0")},
        **{"fine": ("1767225600123456", "-1", "0"), "seen": ('"2024-02-29T12:00:00Z"', '"2024-02-29T12:00:00.123456Z"')},
        **{"took": ("0", "1000", "86399999000"), "built": ("2024", "1901", "1900"), "flag": ("true", "false"), "bits": ("true", "false")},
        **{"kind": ('"new"', '"paid"'), "raw": ('"AQI="', '""', '"/w=="'), "padded": ('"AQI="', '"AQIDBA=="')},
        **{"uid": ('"6f1c1c3e-0000-0000-0000-000000000001"',), "mood": ('"happy"', '"a{"')},
    },
    "debezium-mysql, decimals as text": {},
    "debezium-mysql, decimals as bytes": {"price": ('"BNI="', '"/w=="', '"AA=="')},
    "debezium-postgres, decimals as text": {"padded": ('"ab  "', '" b"'), "took": ("0", "86399999999", "1500000")},
    "debezium-mysql-unwrapped": {},
    "maxwell": {**{name: _QUOTED[name] for name in ("day", "local", "fine", "took")}, "price": ('"12.5"', "7", '"0.01"')},
    "canal": {**_QUOTED},
    "ticdc-canal": {**_QUOTED},
}


class _OneByOne:
    """A format without a quicker way."""

    def __init__(self, form: Format) -> None:
        self._form, self.spec, self.envelopes = form, form.spec, form.envelopes

    def reader(self, column: Column, kind: FieldType | None) -> Reader:
        return replace(self._form.reader(column, kind), bulk=None)


class _RowByRow(TableReader):
    """Looks at each row by itself, as if it were unusual."""

    looked = 0

    def _unusual(self, batch: ChangeBatch, before: Any, after: Any) -> Sequence[int]:
        self.looked += len(batch)
        return range(len(batch))


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("with_before", [True, False])
@pytest.mark.parametrize("lines", [160, pytest.param(1600, marks=pytest.mark.long)])
def test_a_batch_is_what_its_records_are_one_by_one(case: str, with_before: bool, lines: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table, "_FEW", 1)
    chosen = CASES[case]
    form = open_format(chosen.format)
    hostile = chosen.records(11).lines(lines // 2)
    records = [Record(line, "f", number, 0, number) for number, line in enumerate([*hostile, *map(_tame, hostile)])]
    together = TableReader(form, chosen.table, ("id", "code"), before=with_before)
    together._not_typed = -lines  # each batch is tried
    alone = _RowByRow(_OneByOne(form), chosen.table, ("id", "code"), before=with_before)
    seen, rows = Counter[str](), 0
    for start in range(0, lines, 2):  # a value that is not plain has its neighbour read by itself too
        some = records[start : start + 2]
        batch = together.read(*_paired(some, envelopes_of_each(form, some)))
        other = alone.read(*_paired(some, [envelopes_of(form, record) for record in some]))
        rows += len(batch)
        seen.update("change" if kind is RecordKind.CHANGE else "else" for kind in batch.kind)
        for name in ("kind", "op", "key", "previous_key", "present", "nulled", "unmapped", "reason"):
            assert repr(getattr(batch, name)) == repr(getattr(other, name)), name
        assert (batch.before.has, batch.after.has) == (other.before.has, other.after.has)
        assert repr(_numbered(batch.feed())) == repr(_numbered(other.feed()))
    assert min(seen["change"], seen["else"]) > lines // 16
    assert alone.looked == rows
    assert alone._typed == 0
    if isinstance(form, ReadsAtOnce):
        assert lines // 40 < together._typed < lines // 2, "some batches are parsed by the types of the table, and some not"


def _tame(line: bytes) -> bytes:
    """Spells a record as tools do: no blanks between its parts, no escapes that are not needed."""
    try:
        return msgspec.json.format(line, indent=-1).replace(b"\\u00e9", "é".encode()).replace(b"\\u00fc", "ü".encode())
    except msgspec.DecodeError:
        return line


def _paired(records: Sequence[Record], envelopes: Sequence[Sequence[Envelope]]) -> tuple[list[Record], list[Envelope]]:
    pairs = [(record, one) for record, found in zip(records, envelopes, strict=True) for one in found]
    return [record for record, _ in pairs], [one for _, one in pairs]


def test_images_are_at_once_what_each_is_by_itself() -> None:
    texts = (
        '{"a":1,"b":"x"}',
        '{"a":1,"a":2}',
        '{"a":1,"a":1}',
        '{"a" : 1}',
        '{"\u00e9":1,"\\u00e9":2}',
        '{"a":{"b":1,"b":2}}',
        "{}",
        "null",
        "",
    )
    raws = [Raw(text.encode()) for text in texts]
    alone = [_cells(image_of(raw)) for raw in raws]
    assert [image and image[0] is DoubledImage for image in alone] == [False, True, True, False, True, False, False, None, None]
    for some in (*itertools.product(range(len(raws)), repeat=2), range(len(raws))):
        assert [_cells(image) for image in images_of([raws[index] for index in some])] == [alone[index] for index in some]


def _cells(image: Image | None) -> tuple[type, list[tuple[str, Any]]] | None:
    return None if image is None else (type(image), [(name, _bytes(cell)) for name, cell in image.items()])


def _said(envelope: Envelope) -> tuple[Any, ...]:
    """Returns all that an envelope says, as values that can be compared."""
    rest = {name: getattr(envelope, name) for name in envelope.__struct_fields__ if name not in ("before", "after")}
    return (_cells(envelope.before), _cells(envelope.after), rest)


def _bytes(cell: Cell) -> str | bytes | None:
    return cell if cell is None or isinstance(cell, str) else bytes(cell)


@pytest.mark.parametrize("case", [name for name, chosen in CASES.items() if isinstance(open_format(chosen.format), ReadsAtOnce)])
def test_records_that_are_taken_apart_at_once_are_what_each_is_by_itself(case: str) -> None:
    chosen = CASES[case]
    form = open_format(chosen.format)
    assert isinstance(form, ReadsAtOnce)
    lines: list[bytes | None] = [*chosen.records(3).lines(400), None, b"null", b"", b"\xff"]
    records = [Record(line, "f", number, 0, number) for number, line in enumerate(lines)]
    alone = [[_said(one) for one in envelopes_of(form, record)] for record in records]
    at_once = left = 0
    for size in (2, 3, 50, len(records)):
        found = [each for start in range(0, len(records), size) for each in envelopes_of_each(form, records[start : start + size])]
        left += sum(isinstance(one.after, Raw) for each in found for one in each)
        take_apart([one for each in found for one in each])
        assert [[_said(one) for one in each] for each in found] == alone
    assert left, "some images are left as they stand"
    for start in range(0, 400, 2):
        with suppress(msgspec.DecodeError, UnicodeDecodeError):
            at_once += len(form.envelopes_of_each(records[start : start + 2]))
    assert 100 < at_once < 400, "some are read at once, and some not"


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("lines", [160, pytest.param(1600, marks=pytest.mark.long)])
def test_what_a_file_shows_does_not_depend_on_the_size_of_batches(
    case: str, lines: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = CASES[case]
    form = open_format(chosen.format)
    changes, feed = tmp_path / "changes", tmp_path / "feed"
    changes.mkdir()
    feed.mkdir()
    task = TableTask(
        archive=ScannedArchive(url=str(tmp_path), options=(), format=chosen.format),
        schema=chosen.table,
        keys=("id", "code"),
        declared=("id",),
        changes=str(changes),
        feed=str(feed),
    )
    records = [Record(line, "f", number, 0, number) for number, line in enumerate(chosen.records(5).lines(lines))]
    every = [one.position for record in records for one in envelopes_of(form, record)]
    places = sorted(tuple(part for part in place if part is not None) for place in every if place and None not in place)
    found = []
    limits = ((1, 1, 4 * 2**20, 64 * 2**20), (7, 5, 2_000, 64 * 2**20), (4096, 50, 900, 20_000), (4096, 4096, 4 * 2**20, 64 * 2**20))
    for batch, size, at_once, held in limits:
        monkeypatch.setattr(tables, "_BATCH", batch)
        monkeypatch.setattr(spreading, "_AT_ONCE", at_once)
        monkeypatch.setattr(spreading, "_MOST_HELD", held)
        table = TableScan(form, task, FileTask(path="f", size=0, newest=places[len(places) // 2]))
        spread = Spreader(form, [table])
        for at in range(0, len(records), size):
            spread.add(records[at : at + size])
        found.append(without_parts(table.finish()))
    assert found[0].order.behind > lines // 12
    assert found[0] == found[1] == found[2] == found[3]


def _numbered(feed: pa.Table) -> list[Any]:
    found: list[Any] = []
    for side in ("before", "after"):
        image = feed[side].combine_chunks()
        found.append([_shown(pc.if_else(image.is_valid(), one, None)) for one in image.flatten()])
    return found


@given(
    st.lists(
        st.tuples(st.sampled_from(["a", "b", 'q"', "é", "\\", "\n", "/", "𝄞"]), st.sampled_from(['"x"', "1", "{}", '{"a":1,"a":2}'])),
        max_size=5,
    ),
    st.data(),
)
def test_a_doubled_member_is_seen_however_its_object_is_spelled(members: list[tuple[str, str]], data: st.DataObject) -> None:
    blank = data.draw(st.sampled_from(["", "", " "]))
    spelled = [
        (json.dumps(name, ensure_ascii=data.draw(st.booleans())).replace("/", data.draw(st.sampled_from(["/", "\\/"]))), value)
        for name, value in members
    ]
    text = "{" + ",".join(f"{blank}{name}:{blank}{value}{blank}" for name, value in spelled) + "}"
    image = image_of(Raw(text.encode()))
    assert image is not None
    assert isinstance(image, DoubledImage) == (len({name for name, _ in members}) < len(members))
    assert {name: text_of(cell) for name, cell in image.items()} == {name: value.strip('"') for name, value in members}


def test_a_rule_that_nobody_holds_is_forgotten_with_its_rule_for_many() -> None:
    """Each table of each scan makes such pairs, and the rule for many may use the one for one."""

    def both() -> Read:
        column = Column(name="c", source_type="decimal(10,2)", delta_type="decimal(10,2)", nullable=True, expression="")
        read = decimal(column)
        return quick(read, Bulk((str,), lambda cells: pa.array([read(cells[0])])))

    forgotten = weakref.ref(both())
    gc.collect()
    assert forgotten() is None


def test_values_of_a_renamed_column_are_read_at_once_too() -> None:
    options = FormatOptions(name="debezium-mysql")
    form = open_format(options)

    def batch(name: str, declared: Sequence[str]) -> list[Record]:
        fields = [{"field": one, "type": kind} for one, kind in zip(("id", name), declared, strict=True)]
        schema = {"type": "struct", "fields": [{"field": "after", "type": "struct", "fields": fields}]}
        source = {"db": "shop", "table": "t", "file": "b.1", "pos": 1, "row": 0}
        events = [{"op": "c", "after": {"id": one, name: one * 7}, "source": source, "ts_ms": 1} for one in range(5)]
        return [Record(json.dumps({"schema": schema, "payload": one}).encode(), "f", line) for line, one in enumerate(events)]

    class AtOnce:
        spec = form.spec

        def reader(self, column: Column, kind: FieldType | None) -> Reader:
            return replace(form.reader(column, kind), read=lambda text: pytest.fail(f"{text} is read by itself"))

    columns = tuple(Column(name=one, source_type="int", delta_type="int", nullable=True, expression="") for one in ("id", "c0"))
    schema = TableSchema(table=TableName(schema="shop", name="t"), columns=columns, primary_key=("id",))
    rename = renamer(form.spec, schema, (("name", "c0"),), ())
    assert rename is not None
    found = {}
    for name in ("name", "c0"):
        records = [*batch(name, ("int32", "int32")), *batch(name, ("int32", "int32"))]
        envelopes = [one for record in records for one in envelopes_of(form, record)]
        for envelope in envelopes:
            rename(envelope)
        assert len({id(envelope.types) for envelope in envelopes}) == 1
        found[name] = TableReader(AtOnce(), schema, ("id",)).read(records, envelopes)  # type: ignore[arg-type]
    assert found["name"].kind == [RecordKind.CHANGE] * 10
    assert found["name"].after == found["c0"].after
    # Of another schema, the types are others, and they stay so under the new name.
    mixed = [*batch("name", ("int32", "int32")), *batch("name", ("int32", "int64"))]
    envelopes = [one for record in mixed for one in envelopes_of(form, record)]
    for envelope in envelopes:
        rename(envelope)
    assert [envelope.types and envelope.types["c0"].type for envelope in envelopes] == ["int32"] * 5 + ["int64"] * 5
