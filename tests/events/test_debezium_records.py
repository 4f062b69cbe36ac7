"""Debezium's records, taken apart: members of other types than they should be, schemas, values that did not change."""

import json
from typing import Any

import pytest

from cdc_ops.core.events.format_spec import FormatOptions, RecordKind
from cdc_ops.events.conversion.json_text import text_of
from cdc_ops.events.parse import envelopes_of
from cdc_ops.events.record import NOT_JSON, Envelope, FieldType, Record
from cdc_ops.events.registry import open_format

SOURCE = {"db": "shop", "table": "t", "file": "b.000003", "pos": 4, "row": 0, "snapshot": "false", "ts_ms": 1}
EVENT = {"op": "c", "before": None, "after": {"id": 1}, "source": SOURCE}
MYSQL = FormatOptions(name="debezium-mysql")
POSTGRES = FormatOptions(name="debezium-postgres")
FLAT = FormatOptions(name="debezium-mysql-unwrapped", settings={"add.fields": "op,file,pos,row"})


def taken_apart(document: Any, options: FormatOptions = MYSQL) -> Envelope:
    [found] = envelopes_of(open_format(options), Record(json.dumps(document).encode(), "f", 0, 0, 7))
    return found


def source(**members: Any) -> dict[str, Any]:
    return {**EVENT, "source": {**SOURCE, **members}}


def test_a_text_may_be_anything_and_a_number_only_a_number_of_64_bits() -> None:
    assert taken_apart(source(snapshot=True, gtid={"a": 1})).snapshot
    assert taken_apart(source(snapshot=True, gtid={"a": 1})).transaction == '{"a": 1}'
    assert taken_apart({"payload": source(table=12)}).table == "12"
    numbers: list[Any] = [source(pos="4"), source(pos=4.0), source(ts_ms=2**63)]
    for wrong in (*numbers, {**EVENT, "after": []}, {**EVENT, "source": "x"}, [EVENT]):
        found = taken_apart(wrong)
        assert (found.kind, found.reason) == (RecordKind.BAD, NOT_JSON)


def test_a_body_stands_alone_or_within_its_schema() -> None:
    assert taken_apart({"payload": EVENT, "schema": None}) == taken_apart(EVENT) == taken_apart({**EVENT, "payload": None})
    assert taken_apart(EVENT).position == (3, 4, 1, -1, 0, 7)


def test_records_with_the_same_schema_share_the_types_of_their_values() -> None:
    amount = {"field": "a", "type": "bytes", "name": "Decimal", "parameters": {"scale": "2"}}
    schema = {"fields": [{"field": "op", "type": "string"}, {"field": "after", "fields": [{"field": "id", "type": "int64"}, amount]}]}
    first, second = (taken_apart({"schema": schema, "payload": source(pos=pos)}) for pos in (1, 2))
    assert first.types == {"id": FieldType("int64"), "a": FieldType("bytes", "Decimal", 2)}
    assert first.types is second.types
    row = {"id": 1, "__op": "c", "__file": "b.000003", "__pos": 4, "__row": 0}
    flat = taken_apart({"schema": {"fields": [{"field": "id", "type": "int64"}]}, "payload": row}, FLAT)
    assert flat.types == {"id": FieldType("int64")}
    assert flat.position == (3, 4, 1, 7, 0, 7)  # which may be MariaDB's


def test_an_update_keeps_what_it_does_not_name() -> None:
    found = taken_apart({**EVENT, "op": "u", "before": {"id": 1, "a": "x"}, "after": {"id": 2}})
    assert {name: text_of(cell) for name, cell in (found.after or {}).items()} == {"a": "x", "id": "2"}


@pytest.mark.parametrize(
    "unchanged",
    [
        '"__debezium_unavailable_value"',
        '"\\u005f_debezium_unavailable_value"',
        '"X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ=="',
        json.dumps(list(b"__debezium_unavailable_value"), separators=(",", ":")),
        json.dumps(list(b"__debezium_unavailable_value")),
        '[ "b68a35a7-17ad-35b3-af2a-ae46edb4545a"]',
        '{"__debezium_unavailable_value": "__debezium_unavailable_value"}',
    ],
)
def test_a_value_that_did_not_change_is_left_out_however_it_is_spelled(unchanged: str) -> None:
    row = {"id": 1, "big": None, "other": "__debezium"}
    text = json.dumps({**EVENT, "op": "u", "after": row}).replace('"big": null', f'"big": {unchanged}')
    [found] = envelopes_of(open_format(POSTGRES), Record(text.encode(), "f", 0))
    assert [*(found.after or {})] == ["id", "other"]
    [inserted] = envelopes_of(open_format(POSTGRES), Record(text.replace('"op": "u"', '"op": "c"').encode(), "f", 0))
    assert inserted.kind is RecordKind.BAD
