"""Events of MongoDB: whatever a record is, it is applied exactly or is bad, and no record stops the others."""

from collections import Counter

import pytest

from cdc_ops.core.events.format_spec import FormatOptions, RecordKind
from cdc_ops.core.schema.declared_tables import TypeDialect, declared_column
from cdc_ops.events.format import UNREADABLE, UNSTORABLE
from cdc_ops.events.formats.debezium.declared.mongodb import CAPTURE_MODE
from cdc_ops.events.formats.debezium.mongodb.events import patch_of
from cdc_ops.events.formats.debezium.mongodb.values import fields_of, read, read_flat
from cdc_ops.events.parse import envelopes_of
from cdc_ops.events.record import NOT_JSON, DoubledImage, Envelope, FieldType, Record
from cdc_ops.events.registry import open_format
from cdc_ops.events.table import TableReader
from cdc_ops.testing.format_suite import GoldenFolder
from tests.conftest import GOLDEN
from tests.events.mongodb_events import MongoDbEvents


def envelope(text: str, **settings: str) -> Envelope:
    options = FormatOptions(name="debezium-mongodb", settings=settings)
    [found] = envelopes_of(open_format(options), Record(text.encode(), "f", 0, 0, 7))
    return found


def value(declared: str, text: str) -> object:
    column, _ = declared_column("c", declared, TypeDialect.MONGODB)
    fields = fields_of(f'{{"c": {text}}}') or {}
    return read(column)(str(fields["c"]))


@pytest.mark.parametrize(("folder", "is_flat"), [("debezium-mongodb", False), ("debezium-mongodb-unwrapped", True)])
def test_random_hostile_and_damaged_records_each_have_a_row_that_says_what_became_of_them(folder: str, is_flat: bool) -> None:
    golden, events = GoldenFolder(GOLDEN / folder), MongoDbEvents(7)
    form = open_format(golden.options)
    texts = [events.flat() if is_flat else events.event() for _ in range(3000)]
    records = [Record(text.encode(), "f", number, 0, number) for number, text in enumerate(texts)]
    envelopes = [found for record in records for found in envelopes_of(form, record)]
    assert len(envelopes) == len(records)
    batch = TableReader(form, golden.schema, golden.keys).read(records, envelopes)
    kinds = Counter(batch.kind)
    assert kinds[RecordKind.CHANGE] > 150
    assert kinds[RecordKind.BAD] > 300
    assert all((reason is not None) == (kind is RecordKind.BAD) for kind, reason in zip(batch.kind, batch.reason, strict=True))


@pytest.mark.parametrize(
    ("declared", "text", "expected"),
    [
        ("int", "2147483647", 2147483647),
        ("int", "2147483648", UNREADABLE),
        ("int", '"5"', UNREADABLE),
        ("int", "5.0", UNREADABLE),
        ("long", '{"$numberLong":"-9223372036854775808"}', -(2**63)),
        ("long", '{"$numberLong": 5}', UNREADABLE),
        ("double", "123456789012345", 123456789012345.0),
        ("double", "1234567890123456", UNREADABLE),
        ("double", '{"$numberDouble": "-Infinity"}', float("-inf")),
        ("decimal", '{"$numberDecimal": "1.500E-3"}', "1.500E-3"),
        ("decimal(10,2)", '{"$numberDecimal": "NaN"}', UNSTORABLE),
        ("decimal(10,2)", '{"$numberDecimal": "1.005"}', UNREADABLE),
        ("decimal(10,2)", "0.5", UNREADABLE),
        ("bool", "true", True),
        ("bool", '"true"', UNREADABLE),
        ("date", '{"$date": {"$numberLong": "-1"}}', -1000),
        ("date", '{"$date": "1970-01-01T00:00:01.5Z"}', 1_500_000),
        ("date", '{"$date": 9223372036854776}', UNREADABLE),
        ("objectId", '{"$oid": "596e275826f08b2730779e01"}', "596e275826f08b2730779e01"),
        ("binData", '{"$binary": {"base64": "AP8=", "subType": "00"}}', b"\x00\xff"),
        ("binData", '{"$binary": "AP8=", "$type": "00"}', b"\x00\xff"),
        ("string", '"changed in part: x"', "changed in part: x"),
        ("string", "5", UNREADABLE),
        ("object", '{"a": 1.50}', '{"a": 1.50}'),
        ("array", "{}", UNREADABLE),
        ("json", '"\\u001f\\/\\u00fc\\""', '"\\u001F/ü\\""'),
        ("json", "0.10000000000000000001", "0.10000000000000000001"),
    ],
)
def test_a_value_is_read_by_its_declared_type_or_not_at_all(declared: str, text: str, expected: object) -> None:
    assert value(declared, text) == expected


def test_flat_values_have_to_be_of_the_type_that_the_schema_says() -> None:
    date, _ = declared_column("c", "date", TypeDialect.MONGODB)
    timestamp = FieldType(type="int64", name="org.apache.kafka.connect.data.Timestamp")
    assert read_flat(date, timestamp)("5") == 5000
    assert read_flat(date, FieldType(type="int64"))("5") is UNREADABLE
    assert read_flat(date, None)("5") == 5000
    code, _ = declared_column("c", "binData", TypeDialect.MONGODB)
    assert read_flat(code, FieldType(type="string"))('"AP8=') is UNREADABLE
    assert read_flat(code, FieldType(type="bytes"))('"AP8=') == b"\x00\xff"


def test_what_is_no_document_is_none_and_a_field_that_is_there_twice_is_noticed() -> None:
    assert [fields_of(text) for text in ("no document", "[1]", "{} {}", "null", None)] == [None] * 5
    doubled = fields_of('{"a": 1, "a": 2}')
    assert isinstance(doubled, DoubledImage)
    assert isinstance(patch_of(doubled, (), ()), DoubledImage)
    found = envelope('{"op": "u", "after": "{\\"_id\\": 1, \\"_id\\": 2}", "source": {"db": "shop", "collection": "orders"}}')
    assert isinstance(found.after, DoubledImage)


def test_a_null_among_the_names_of_removed_fields_and_of_cut_arrays_is_left_out() -> None:
    described = '{"removedFields": ["a", null], "truncatedArrays": [null, {"field": null}, {"field": "b", "size": 1}]}'
    event = f'{{"op": "u", "before": "{{\\"_id\\": 1}}", "updateDescription": {described}, "source": {{"db": "s", "collection": "t"}}}}'
    assert envelope(event).kind is RecordKind.CONTROL
    found = envelope(event, **{CAPTURE_MODE: "change_streams_with_pre_image"})
    assert found.after == {"_id": "1", "a": None, "b": "changed in part: b"}


@pytest.mark.parametrize("text", ['{"op": "c", "ts_ms": "x"}', '{"source": "x"}', "[]", '{"op": "c"} {}', '{"key": "x", "value": {}}'])
def test_what_is_not_of_the_layout_is_bad(text: str) -> None:
    assert envelope(text) == Envelope(RecordKind.BAD, reason=NOT_JSON)


def test_the_key_beside_an_event_names_its_document() -> None:
    event = '{"op": "d", "before": null, "source": {"db": "s", "collection": "t", "ts_ms": 5, "lsid": "x", "txnNumber": 3}}'
    for key in ('{"id": "5"}', '{"schema": {}, "payload": {"id": "5"}}'):
        found = envelope(f'{{"key": {key}, "value": {{"schema": {{}}, "payload": {event}}}}}')
        assert (found.kind, found.op, found.before, found.position) == (RecordKind.CHANGE, "d", {"_id": "5"}, (7,))
        assert (found.transaction, found.source_time) == ("x:3", 5000)
        assert envelope(f'{{"key": {key}, "value": null}}').kind is RecordKind.CONTROL
