"""Images that are parsed by their table's types: exactly what dictionaries of their cells come to, or not at all."""

import json
from collections.abc import Sequence
from typing import Any, Final

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from cdc_ops.core.events.format_spec import FormatOptions, RecordKind
from cdc_ops.core.schema.tables import Column, TableName, TableSchema
from cdc_ops.events import table
from cdc_ops.events.change import ChangeBatch
from cdc_ops.events.conversion import bulk
from cdc_ops.events.conversion.json_text import images_of, untouched
from cdc_ops.events.conversion.typed_images import TypedImages
from cdc_ops.events.format import Bulk
from cdc_ops.events.images import take_apart
from cdc_ops.events.parse import envelopes_of, envelopes_of_each
from cdc_ops.events.record import NOT_JSON, Record
from cdc_ops.events.registry import open_format
from cdc_ops.events.table import TableReader

_BULKS: Final[dict[str, Bulk | None]] = {
    **{"id": bulk.INTEGERS, "né": bulk.TEXTS, "part": bulk.FLOATS, "doc": None, "flag": bulk.BOOLEANS, "raw": bulk.OCTETS},
    **{"price": bulk.digits("-?[0-9]+")},
}
_PLAIN: Final = ("null", "0", "1", '"a"', "true", '"AQI="', '"12"')
_CELLS: Final = (
    *(*_PLAIN, "-0", "-0.0", "1.50", "1e3", "9223372036854775807", "9223372036854775808", "1" + "0" * 30, '"\\u00e9"', '"é"', '"\\/"'),
    *('"a\\"\\n\\u0001"', '"\\u007f"', "{}", '{"a":1,"a":2}', "[1, 2]", '""', '"QR=="', '"-0"', "false"),
)


@st.composite
def _spelled(draw: st.DrawFn) -> str:
    """An image: mostly all columns in some order, spelled plainly; and in other ways."""
    if draw(st.integers(0, 5)) == 0:
        return "null"
    cells = st.sampled_from(_PLAIN if draw(st.booleans()) else _CELLS)
    names = list(_BULKS)
    if draw(st.integers(0, 3)) == 0:
        names = draw(st.lists(st.sampled_from([*names, "other", "né "]), max_size=9))
    blank = draw(st.sampled_from(["", "", "", " "]))
    ascii_only = draw(st.sampled_from([False, False, True]))
    members = [f"{json.dumps(name, ensure_ascii=ascii_only)}:{blank}{draw(cells)}" for name in draw(st.permutations(names))]
    return "{" + f",{blank}".join(members) + "}"


@given(st.lists(_spelled(), max_size=4), st.booleans())
def test_columns_of_images_are_those_of_their_dictionaries(texts: list[str], of_key: bool) -> None:
    unread = [name for name in _BULKS if name != "id"] if of_key else []
    raws = [Raw(text.encode()) if text != "null" else None for text in texts]
    try:
        found = TypedImages(_BULKS, unread).columns(raws)
    except ValueError:
        return
    images = images_of([raw or Raw() for raw in raws])
    assert list(found) == [name for name in _BULKS if name not in unread]
    for name, cells in found.items():
        assert all(image is None or name in image or name in unread for image in images)
        expected = [None if image is None else image[name] for image in images]
        data = msgspec.json.encode(expected)
        if name not in TypedImages(_BULKS).typed:
            assert msgspec.json.encode(cells) == data
        elif (way := _BULKS[name]) is not None:
            assert _read(way.read, cells) == _read(way.of_json, data)
    for image in images:
        assert image is None or (type(image) is dict and image.keys() <= _BULKS.keys())


def _read(way: Any, values: Any) -> Any:
    try:
        return way(values)
    except ValueError:
        return "not plain"


@pytest.mark.parametrize(
    "text",
    [
        '{"a":1,"b":2,"a":1}',
        '{"a":1}',
        '{"a":1,"b":2,"c":3}',
        '{"a":-0,"b":2}',
        '{"a":1, "b":2}',
        '{"\\u0061":1,"b":2}',
        '{"a":"1","b":2}',
        '{"a":1.0,"b":2}',
        '{"a":1,"b":true}',
        "[]",
    ],
)
def test_other_images_than_those_of_the_table_are_not_read(text: str) -> None:
    images = TypedImages({"a": bulk.INTEGERS, "b": bulk.INTEGERS})
    plain = Raw(b'{"b":2,"a":1}')
    assert images.columns([plain, None]) == {"a": [1, None], "b": [2, None]}
    with pytest.raises(ValueError, match=r"\w"):
        images.columns([plain, Raw(text.encode())])


def test_of_a_before_image_only_the_key_has_to_be_there() -> None:
    images = TypedImages({"a": bulk.INTEGERS, "b": bulk.INTEGERS}, ["b"])
    assert images.columns([Raw(b'{"a":1}'), Raw(b'{"a":2,"b":"x"}'), None]) == {"a": [1, 2, None]}
    for text in (b'{"b":1}', b'{"a":1,"b":1,"b":1}', b'{"a":1,"c":1}'):
        with pytest.raises(ValueError, match=r"\w"):
            images.columns([Raw(text)])


@pytest.mark.parametrize("text", ["5", "[1]", '"x"', "true", "[{}]"])
@pytest.mark.parametrize("side", ["before", "after"])
@pytest.mark.parametrize("around", [False, True])
def test_an_image_that_is_no_object_makes_its_record_bad_before_any_table_asks(text: str, side: str, around: bool) -> None:
    with pytest.raises(msgspec.DecodeError):
        untouched(Raw(text.encode()))
    body = f'{{"op":"c","{side}":{text},"source":{{"db":"shop","table":"t"}}}}'
    record = Record((f'{{"payload":{body}}}' if around else body).encode(), "f", 0)
    found, _ = envelopes_of_each(open_format(_OPTIONS), [record, _record(0, "c", None, {"id": 1})])
    assert [(one.kind, one.reason, one.table) for one in found] == [(RecordKind.BAD, NOT_JSON, "")]


@pytest.fixture(autouse=True)
def _any_number_of_records(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table, "_FEW", 1)


_OPTIONS: Final = FormatOptions(name="debezium-mysql")


def _record(number: int, op: str, before: Any, after: Any) -> Record:
    source = {"connector": "mysql", "db": "shop", "table": "t", "file": "b.1", "pos": number, "row": 0}
    event = {"before": before, "after": after, "source": source, "op": op, "ts_ms": 1}
    return Record(json.dumps(event, separators=(",", ":"), ensure_ascii=False).encode(), "f", number, 0, number)


def _schema(**declared: str) -> TableSchema:
    stored = {"bit(16)": "int", "varchar(9)": "string"}
    columns = [
        Column(name=name, source_type=kind, delta_type=stored.get(kind, kind), nullable=True, expression="")
        for name, kind in declared.items()
    ]
    return TableSchema(table=TableName(schema="shop", name="t"), columns=tuple(columns), primary_key=("id",))


def _both(reader: TableReader, records: Sequence[Record]) -> ChangeBatch:
    """Returns the rows of records and a heartbeat, which are the same when each record is taken apart before."""
    records = [*records, Record(b'{"ts_ms":1700000000000}', "f", len(records))]
    form = open_format(_OPTIONS)
    found = [one for some in envelopes_of_each(form, records) for one in some]
    assert any(isinstance(one.after, Raw) for one in found)
    batch = reader.read(records, found)
    alone = TableReader(form, reader.types.schema, reader.types.keys, before=reader._with_before)
    other = alone.read(records, [one for record in records for one in envelopes_of(form, record)])
    assert alone._typed == 0
    for name in ("kind", "op", "key", "previous_key", "present", "nulled", "unmapped", "reason"):
        assert getattr(batch, name) == getattr(other, name), name
    assert batch.feed().drop_columns(["before", "after"]) == other.feed().drop_columns(["before", "after"])
    assert _images(batch) == _images(other)
    return batch


def _images(batch: ChangeBatch) -> list[Any]:
    return [batch.feed()[side].to_pylist() for side in ("before", "after")]


@pytest.mark.parametrize("with_before", [False, True])
def test_changes_of_all_kinds_are_read_by_the_types_of_their_table(with_before: bool) -> None:
    reader = TableReader(open_format(_OPTIONS), _schema(id="int", name="varchar(9)"), ("id",), before=with_before)
    rows = [{"id": number, "name": f"né{number}"} for number in range(4)]
    records = [
        _record(0, "c", None, rows[0]),
        _record(1, "u", rows[0], {**rows[0], "name": None}),
        _record(2, "u", rows[1], rows[2]),
        _record(3, "d", rows[2], None),
        _record(4, "r", None, rows[3]),
        Record(b"null", "f", 5),
    ]
    batch = _both(reader, records)
    assert (reader._typed, reader._not_typed) == (1, 0)
    assert batch.previous_key == [None, None, (1,), None, None, None, None]
    assert [one and str(one) for one in batch.op] == ["c", "u", "u", "d", "r", None, None]


def test_an_update_keeps_what_its_after_image_lacks() -> None:
    reader = TableReader(open_format(_OPTIONS), _schema(id="int", name="varchar(9)"), ("id",), before=False)
    for before in ({"id": 1, "name": "a"}, {"id": 1, "name": "a", "gone": 7}):
        batch = _both(reader, [_record(0, "u", before, {"id": 1})])
        assert batch.after.columns[1].to_pylist() == ["a", None]
        assert batch.present == [None, ()]
        assert batch.unmapped == [("gone",) if "gone" in before else (), ()]
    # A before image with a column that the table lacks is not left unread, even where the after image has all columns.
    batch = _both(reader, [_record(0, "u", {"id": 1, "name": "a", "gone": 7}, {"id": 1, "name": "b"})])
    assert batch.unmapped == [("gone",), ()]
    assert reader._typed == 0


def test_a_column_whose_values_are_not_plain_does_not_keep_the_others_from_being_parsed() -> None:
    reader = TableReader(open_format(_OPTIONS), _schema(id="int", bits="bit(16)"), ("id",), before=False)
    records = [_record(number, "c", None, {"id": number, "bits": "AwM="}) for number in range(3)]
    for _ in range(3):
        batch = _both(reader, records)
        assert batch.after.columns[1] == pa.array([*[0x0303] * 3, None], pa.int32())
    assert (reader._typed, reader._not_typed) == (2, 1)


def test_images_that_never_fit_are_not_tried_for_ever() -> None:
    reader = TableReader(open_format(_OPTIONS), _schema(id="int", name="varchar(9)"), ("id",), before=False)
    for number in range(9):
        assert _both(reader, [_record(number, "c", None, {"id": 1})]).present == [("id",), ()]
    assert (reader._typed, reader._not_typed) == (0, 3)


def test_no_parser_is_made_for_a_few_records(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table, "_FEW", 3)
    reader = TableReader(open_format(_OPTIONS), _schema(id="int"), ("id",))
    for count, typed in ((1, 0), (2, 1)):  # and a heartbeat
        _both(reader, [_record(number, "c", None, {"id": number}) for number in range(count)])
        assert reader._typed == typed


def test_of_many_schemas_of_records_only_some_get_a_parser(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table, "_SPELLINGS", 2)
    reader = TableReader(open_format(_OPTIONS), _schema(id="int", name="varchar(9)"), ("id",))
    for version in (0, 1, 0, 2, 1, 2):
        fields = [{"field": "id", "type": "int32"}, {"field": "name", "type": "string", "version": version}]
        events = [_record(number, "c", None, {"id": number, "name": f"é{version}"}) for number in range(2)]
        kinds = {"type": "struct", "fields": [{"field": "after", "type": "struct", "fields": fields}]}
        around = [msgspec.json.encode({"schema": kinds, "payload": Raw(one.value or b"")}) for one in events]
        batch = _both(reader, [Record(value, "f", number) for number, value in enumerate(around)])
        assert batch.after.columns[1].to_pylist() == [f"é{version}"] * 2 + [None]
    assert len(reader._parsers) == 2
    assert (reader._typed, reader._not_typed) == (4, 0)


@pytest.mark.parametrize("depth", [*range(1, 60), *range(380, 420), *range(900, 1000, 2)])
def test_what_is_nested_deeply_is_read_or_bad_and_stops_nobody(depth: int) -> None:
    options, schema = FormatOptions(name="debezium-postgres"), _schema(id="int", doc="varchar(9)")
    deep = f'{{"id":1, "doc":{"[" * depth}{"]" * depth}}}'
    form, lines = open_format(options), [_record(0, "c", None, {"id": 0, "doc": "x"}).value, None]
    lines[1] = f'{{"op":"c","after":{deep},"source":{{"schema":"public","table":"t","lsn":7}}}}'.encode()
    records = [Record(value, "f", number) for number, value in enumerate(lines)]
    found = [one for some in envelopes_of_each(form, records) for one in some]
    batch = TableReader(form, schema, ("id",)).read(records, found)
    assert batch.kind[1] is (RecordKind.BAD if batch.reason[1] else RecordKind.CHANGE)
    assert batch.reason[1] is None or depth >= 900


def test_a_table_whose_columns_have_quotes_in_their_names_is_read_too() -> None:
    reader = TableReader(open_format(_OPTIONS), _schema(id="int", **{'a"b\\c': "varchar(9)"}), ("id",), before=False)
    batch = _both(reader, [_record(0, "c", None, {"id": 1, 'a"b\\c': "x"})])
    assert batch.after.columns[1].to_pylist() == ["x", None]
    assert reader._typed == 0


def test_images_are_taken_apart_once() -> None:
    form = open_format(_OPTIONS)
    records = [_record(0, "u", {"id": 1, "name": "a"}, {"id": 1}), _record(1, "d", {"id": 1}, None)]
    envelopes = [one for some in envelopes_of_each(form, records) for one in some]
    assert [one.completes for one in envelopes] == [True, False]
    for _ in range(2):
        take_apart(envelopes)
        assert envelopes[0].after == {"id": Raw(b"1"), "name": Raw(b'"a"')}
        assert [one.completes for one in envelopes] == [False, False]
        assert envelopes[1].after is None
