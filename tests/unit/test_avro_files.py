"""What header and schema of an Avro file say."""

import json
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdc_ops.core.archive.avro_header import AvroHeader, header_of, read_header
from cdc_ops.core.events.format_spec import FormatOptions
from cdc_ops.core.formats.checks import check_format
from cdc_ops.core.schema.tables import Column, TableName, TableSchema
from cdc_ops.dev.avro import MARK, avro_file, avro_schema, by_schema
from cdc_ops.errors import SourceTableError
from cdc_ops.events.records.avro_schemas import connect_schema, has_choices, without_logical_types
from cdc_ops.events.registry import format_spec

DECIMAL: dict[str, Any] = {
    **{"type": "bytes", "scale": 2, "precision": 10, "logicalType": "decimal", "connect.version": 1},
    **{"connect.parameters": {"scale": "2"}, "connect.name": "org.apache.kafka.connect.data.Decimal"},
}
VALUE: dict[str, Any] = {
    **{"type": "record", "name": "Value", "namespace": "cdc.shop.orders", "connect.name": "cdc.shop.orders.Value"},
    "fields": [
        {"name": "id", "type": {"type": "int", "connect.type": "int16"}},
        {"name": "amount", "type": ["null", DECIMAL], "default": None},
        {
            "name": "at",
            "type": [{"type": "long", "connect.name": "io.debezium.time.MicroTimestamp", "connect.default": 0}, "null"],
            "default": 0,
        },
        {"name": "day", "type": {"type": "int", "logicalType": "date", "connect.name": "org.apache.kafka.connect.data.Date"}},
    ],
}
ENVELOPE: dict[str, Any] = {
    **{"type": "record", "name": "Envelope", "namespace": "cdc.shop.orders", "connect.name": "cdc.shop.orders.Envelope"},
    "fields": [
        {"name": "before", "type": ["null", VALUE], "default": None},
        {"name": "after", "type": ["null", "Value"], "default": None},
        {"name": "op", "type": "string"},
    ],
}
ROW = {"id": 1, "amount": "BOI=", "at": 5, "day": 19783}


class Ends:
    """The first and last bytes of files that are nowhere else; notes how many were asked for."""

    def __init__(self, files: Mapping[str, bytes]) -> None:
        self.files = files
        self.asked: list[int] = []

    def head(self, path: str, size: int) -> bytes:
        self.asked.append(size)
        return self.files[path][:size]

    def tail(self, path: str, size: int) -> bytes:
        return self.files[path][-size:]


def test_a_header_is_read_and_ends_where_the_first_block_begins() -> None:
    content = avro_file(ENVELOPE, [{"after": ROW, "op": "c"}], codec="deflate")
    empty = avro_file(ENVELOPE, [], codec="deflate")
    assert read_header(content) == AvroHeader(schema=json.dumps(ENVELOPE), codec="deflate", mark=MARK, size=len(empty))


def test_a_header_may_be_cut_into_blocks_that_say_their_length() -> None:
    entry = b"\x16avro.schema" + b"\x10" + b'"string"'[:8]
    content = b"Obj\x01" + b"\x01" + bytes([2 * len(entry)]) + entry + b"\x00" + MARK
    assert read_header(content) == AvroHeader(schema='"string"', codec="null", mark=MARK, size=len(content))


@given(st.data())
def test_what_a_header_begins_with_is_never_taken_for_all_of_it(data: st.DataObject) -> None:
    content = avro_file(ENVELOPE, [])
    assert read_header(content[: data.draw(st.integers(0, len(content) - 1))]) is None


def test_a_long_header_is_asked_for_again_and_not_the_whole_file() -> None:
    long = {**VALUE, "fields": [{"name": f"c{number}", "type": "string", "doc": "x" * 90} for number in range(1000)]}
    ends = Ends({"t.avro": avro_file(long, [])})
    header_of(ends, "t.avro", len(ends.files["t.avro"]))
    assert len(ends.asked) == 2
    assert ends.asked[0] == 65536


def test_the_schema_of_a_file_says_what_jsonconverter_would() -> None:
    said = json.loads(connect_schema(ENVELOPE) or "")
    assert said["name"] == "cdc.shop.orders.Envelope"
    before, after, op = said["fields"]
    assert before["fields"] == [
        {"field": "id", "type": "int16"},
        {"field": "amount", "type": "bytes", "name": "org.apache.kafka.connect.data.Decimal", "parameters": {"scale": "2"}},
        {"field": "at", "type": "int64", "name": "io.debezium.time.MicroTimestamp"},
        {"field": "day", "type": "int32", "name": "org.apache.kafka.connect.data.Date"},
    ]
    assert after == {"field": "after", "type": "struct", "name": "cdc.shop.orders.Value"}
    assert op == {"field": "op", "type": "string"}


def test_a_type_that_is_named_elsewhere_is_found_by_its_short_and_its_full_name() -> None:
    for name in ("Value", "cdc.shop.orders.Value"):
        first = {"name": "source", "type": {"type": "record", "name": "Holder", "fields": [{"name": "x", "type": VALUE}]}}
        schema = {**ENVELOPE, "fields": [first, {"name": "after", "type": ["null", name]}]}
        assert len(json.loads(connect_schema(schema) or "")["fields"][1]["fields"]) == 4


def test_a_schema_without_the_types_of_kafka_connect_says_nothing() -> None:
    assert connect_schema({key: value for key, value in ENVELOPE.items() if key != "connect.name"}) is None


def test_logical_types_are_left_out_wherever_they_are_and_nothing_else() -> None:
    nested = {
        **{"type": "record", "name": "r"},
        "fields": [
            {"name": "a", "type": {"type": "array", "items": {"type": "int", "logicalType": "date"}}},
            {"name": "m", "type": {"type": "map", "values": ["null", {"type": "long", "logicalType": "timestamp-millis"}]}},
            {"name": "v", "type": VALUE},
            {"name": "logicalType", "type": {"type": "fixed", "name": "f", "size": 12, "logicalType": "duration"}},
        ],
    }
    plain = without_logical_types(nested)
    assert '"logicalType":' not in json.dumps(plain)
    assert plain["fields"][0]["type"] == {"type": "array", "items": {"type": "int"}}
    assert plain["fields"][3] == {"name": "logicalType", "type": {"type": "fixed", "name": "f", "size": 12}}
    assert [field["name"] for field in plain["fields"][2]["type"]["fields"]] == ["id", "amount", "at", "day"]


def test_a_schema_with_values_of_one_of_several_types_is_told_from_one_with_optional_ones() -> None:
    assert not has_choices(ENVELOPE)
    deep = {"type": "array", "items": {"type": "map", "values": ["null", {**VALUE, "fields": [{"name": "x", "type": ["int", "string"]}]}]}}
    assert has_choices({**ENVELOPE, "fields": [*ENVELOPE["fields"], {"name": "y", "type": deep}]})


def test_the_sink_of_the_tests_writes_kafka_connects_types_as_avro_has_them() -> None:
    value = {
        **{"type": "struct", "optional": True, "name": "cdc.shop.orders.Value"},
        "fields": [
            {"field": "id", "type": "int16", "optional": False},
            {
                "field": "amount",
                "type": "bytes",
                "optional": True,
                "name": DECIMAL["connect.name"],
                "version": 1,
                "parameters": {"scale": "2"},
            },
        ],
    }
    fields = [{"field": "before", **value}, {"field": "after", **value}]
    written = avro_schema({"type": "struct", "optional": False, "name": "cdc.shop.orders.Envelope", "fields": fields})
    decimal = {**DECIMAL, "precision": 64}
    assert written["fields"][0]["type"][1]["fields"] == [VALUE["fields"][0], {"name": "amount", "type": ["null", decimal], "default": None}]
    assert written["fields"][1] == {"name": "after", "type": ["null", "cdc.shop.orders.Value"], "default": None}
    one, other = ({"schema": {"type": "struct", "fields": [field]}, "payload": {}} for field in fields)
    assert [len(found) for _, found in by_schema(map(json.dumps, (one, one, other, one)))] == [2, 1, 1]


def test_a_table_with_a_column_that_avro_cannot_name_is_refused() -> None:
    column = Column(name="a name", source_type="int", delta_type="int", nullable=True, expression="x", lossy=())  # type: ignore[arg-type]
    schema = TableSchema(table=TableName.parse("shop.t"), columns=(column,), primary_key=("a name",))
    settings = {"skipped.operations": "none", "event.converting.failure.handling.mode": "fail", "ignore.default.for.nullables": "true"}
    with pytest.raises(SourceTableError, match=r"cannot carry some column names of shop\.t: 'a name'"):
        check_format(format_spec("debezium-mysql-avro"), FormatOptions(name="x", settings=settings), schema, ("a name",))
