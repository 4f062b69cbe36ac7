"""Records of Avro files: every record with its place, as it is stored and by its own schema, and damaged files are named."""

import json
import math
from pathlib import Path
from typing import Any

import pytest

from cdc_ops.core.events.format_spec import Container
from cdc_ops.dev.avro import MARK, avro_file
from cdc_ops.errors import ArchiveFileError
from cdc_ops.events.records.avro_schemas import connect_schema
from cdc_ops.events.records.reader import MOST_RECORDS, FileCount
from tests.events.archived import opened, put, read, records_of
from tests.unit.test_avro_files import ENVELOPE, ROW, VALUE

AVRO = Container.AVRO
CODECS = ("null", "deflate", "snappy", "zstandard", "bzip2", "xz")
NUMBERS = {"type": "record", "name": "r", "fields": [{"name": "n", "type": "long"}]}
DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 2, "connect.name": "Decimal", "connect.parameters": {}}
SOURCE = {"type": "record", "name": "Source", "fields": [{"name": "note", "type": ["null", "string"]}]}
TYPED = {
    "type": "record",
    "name": "r",
    "connect.name": "r",
    "fields": [
        {"name": "n", "type": "long"},
        {"name": "amount", "type": ["null", DECIMAL]},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "id", "type": {"type": "string", "logicalType": "uuid"}},
        {"name": "share", "type": ["null", "double"]},
        {"name": "source", "type": ["null", SOURCE]},
    ],
}
TYPED_ROW = {"amount": b"\x80\x01", "at": 1, "day": -1, "id": "no uuid", "share": "NaN", "source": {"note": 'é"'}}


def numbers(count: int, **options: Any) -> bytes:
    return avro_file(NUMBERS, [{"n": number} for number in range(count)], **options)


def payloads(folder: Path, schema: Any, *records: Any) -> list[Any]:
    """What records become, read as JSON."""
    name = put(folder, "t.avro", avro_file(schema, records))
    return [json.loads(value) for value, _ in records_of(folder, name, AVRO)]


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("first_line", [0, 6, 7, 50, 99, 100])
def test_records_have_their_place_in_files_of_all_codecs(tmp_path: Path, codec: str, first_line: int) -> None:
    name = put(tmp_path, "t/a [1]/t+1+0000000100.avro", numbers(100, codec=codec, per_block=7))
    found, count = read(opened(tmp_path, name, AVRO, first_line))
    assert count == FileCount(lines=100)
    assert found == [(f'{{"n":{number}}}'.encode(), number) for number in range(first_line, 100)]


def test_records_are_what_is_stored_beside_the_types_of_kafka_connect(tmp_path: Path) -> None:
    rows = [{"n": 2**62 + number, **TYPED_ROW} for number in range(3)]
    found = payloads(tmp_path, TYPED, *rows)
    assert [json.dumps(one["schema"], separators=(",", ":")) for one in found] == [connect_schema(TYPED)] * 3
    assert [one["payload"] for one in found] == [
        {"n": 2**62 + number, "amount": "gAE=", "at": 1, "day": -1, "id": "no uuid", "share": "NaN", "source": {"note": 'é"'}}
        for number in range(3)
    ]
    assert payloads(tmp_path, ENVELOPE, {"after": ROW, "op": "c"})[0]["payload"] == {"before": None, "after": ROW, "op": "c"}


def test_a_file_without_the_types_of_kafka_connect_has_payloads_only(tmp_path: Path) -> None:
    kind = {"type": "enum", "name": "kind", "symbols": ["A", "B"]}
    inner = {"type": "array", "items": ["null", {"type": "map", "values": "float"}]}
    fields = [{"name": "kind", "type": kind}, {"name": "other", "type": ["null", "kind"]}, {"name": "all", "type": inner}]
    name = put(tmp_path, "t.avro", avro_file({"type": "record", "name": "r", "fields": fields}, [{"kind": "B", "all": [None, {"k": 0.1}]}]))
    assert records_of(tmp_path, name, AVRO) == [(b'{"kind":"B","other":null,"all":[null,{"k":0.1}]}', 0)]


def test_numbers_that_are_none_are_named_and_narrow_ones_keep_their_digits(tmp_path: Path) -> None:
    fields = [
        {"name": "f", "type": "float"},
        {"name": "d", "type": ["null", "double"]},
        {"name": "m", "type": {"type": "map", "values": "double"}},
    ]
    schema = {"type": "record", "name": "r", "fields": fields}
    found = payloads(tmp_path, schema, {"f": 0.1, "d": math.inf, "m": {"k": -math.inf}}, {"f": math.nan, "d": None, "m": {}})
    assert found == [{"f": 0.1, "d": "Infinity", "m": {"k": "-Infinity"}}, {"f": "NaN", "d": None, "m": {}}]


def test_a_value_of_one_of_several_types_says_which(tmp_path: Path) -> None:
    part = {
        "type": "record",
        "name": "Part",
        "namespace": "a.b",
        "fields": [{"name": "x", "type": ["null", "double"]}, {"name": "y", "type": "int"}],
    }
    choices = ["null", "int", "long", "string", "bytes", part, {"type": "array", "items": "string"}]
    fields = [
        {"name": "v", "type": choices},
        {"name": "w", "type": ["null", "a.b.Part"]},
        {"name": "n", "type": ["null", "int", "long"]},
        {"name": "f", "type": ["float", "double"]},
        {"name": "l", "type": {"type": "array", "items": ["string", "null", "boolean"]}},
    ]
    schema = {"type": "record", "name": "r", "fields": fields}
    rest: dict[str, Any] = {"w": None, "n": None, "f": {"double": 0.5}, "l": []}
    values = [{"int": 5}, {"long": 5}, {"string": "ü"}, {"bytes": "AP8="}, {"Part": {"x": None, "y": 1}}, {"array": ["a"]}, None]
    found = payloads(tmp_path, schema, *({"v": value, **rest} for value in values))
    members = ["member_int", "member_long", "member_string", "member_bytes", "member_Part", "member_array"]
    expected = [5, 5, "ü", "AP8=", {"y": 1}, ["a"]]
    assert found == [
        *({"v": {member: value}, "f": 0.5, "l": []} for member, value in zip(members, expected, strict=True)),
        {"f": 0.5, "l": []},
    ]
    full = {"v": {"Part": {"x": "NaN", "y": 2}}, "w": {"x": 1.5, "y": 3}, "n": {"long": 2**40}, "f": {"float": 0.1}}
    [one] = payloads(tmp_path, schema, {**full, "l": [None, {"string": "s"}, {"boolean": True}]})
    assert one == {
        "v": {"member_Part": {"x": "NaN", "y": 2}},
        "w": {"x": 1.5, "y": 3},
        "n": 2**40,
        "f": 0.10000000149011612,
        "l": [None, {"member_string": "s"}, {"member_boolean": True}],
    }


def test_a_record_with_text_that_is_not_utf8_is_its_texts(tmp_path: Path) -> None:
    garbled = {"n": 1, **TYPED_ROW, "source": {"note": b"\xff"}}
    name = put(tmp_path, "t.avro", avro_file(TYPED, [garbled, {"n": 2, **TYPED_ROW}]))
    [(first, _), (second, _)] = records_of(tmp_path, name, AVRO)
    assert first == b"no uuid,\xff"
    assert json.loads(second or b"")["payload"]["n"] == 2
    schema = {"type": "record", "name": "r", "fields": [{"name": "l", "type": {"type": "array", "items": "string"}}]}
    assert records_of(tmp_path, put(tmp_path, "u.avro", avro_file(schema, [{"l": [b"\xff"]}])), AVRO) == [(b"l,\xff", 0)]


def test_batches_are_bounded_and_files_without_records_have_none(tmp_path: Path) -> None:
    name = put(tmp_path, "t.avro", numbers(MOST_RECORDS + 1))
    assert [len(batch) for batch in opened(tmp_path, name, AVRO).batches()] == [MOST_RECORDS, 1]
    assert read(opened(tmp_path, put(tmp_path, "none.avro", numbers(0)), AVRO)) == ([], FileCount(lines=0))
    assert read(opened(tmp_path, "nowhere.avro", AVRO, size=0)) == ([], FileCount(lines=0))


@pytest.mark.parametrize(
    "content", [b'{"op": "c"}', b"PAR1", b"Obj\x02....", b"Obj\x01\x00" + MARK, b"Obj\x01" + b"\xff" * 12, b"Obj\x01\x02\x01"]
)
def test_what_is_no_avro_file_is_refused_by_name(tmp_path: Path, content: bytes) -> None:
    name = put(tmp_path, "t+0+0000000000.avro", content)
    with pytest.raises(ArchiveFileError, match=r"t\+0\+0000000000\.avro cannot be read: it is not an Avro file: it"):
        opened(tmp_path, name, AVRO)


def test_a_file_that_ends_anywhere_but_behind_a_block_is_refused_by_name(tmp_path: Path) -> None:
    content = avro_file(ENVELOPE, [{"after": ROW, "op": "c"}] * 3, per_block=1)
    whole = {len(avro_file(ENVELOPE, [{"after": ROW, "op": "c"}] * count, per_block=1)) for count in range(4)}
    for length in range(5, len(content)):
        name = put(tmp_path, "t+0+0000000000.avro", content[:length])
        if length not in whole:
            with pytest.raises(ArchiveFileError, match=r"t\+0\+0000000000\.avro cannot be read: it (ends within|is truncated)"):
                opened(tmp_path, name, AVRO)


@pytest.mark.parametrize("codec", CODECS)
def test_a_damaged_file_is_named_wherever_the_damage_is(tmp_path: Path, codec: str) -> None:
    content = avro_file(VALUE, [ROW] * 50, per_block=5, codec=codec)
    begin = content.index(MARK) + len(MARK)
    at = content.index(MARK, begin)
    for damaged, why in (
        (content[:at] + b"x" + content[at + 1 :], "does not end with the sync marker"),
        (content[:begin] + b"\x01" + content[begin + 1 :], "impossible length"),
        (content[: begin + 1] + b"\xff" * 9 + content[begin + 10 :], "impossible length|more than 64 bits"),
    ):
        name = put(tmp_path, "t+1+0000000150.avro", damaged)
        with pytest.raises(ArchiveFileError, match=rf"t\+1\+0000000150\.avro cannot be read: .*({why})"):
            read(opened(tmp_path, name, AVRO))
    filled = content[: begin + 3] + b"\xff" * (at - begin - 3) + content[at:]
    name = put(tmp_path, "t+1+0000000150.avro", filled)
    with pytest.raises(ArchiveFileError, match=r"t\+1\+0000000150\.avro cannot be read: (the block at byte|its records do not fit)"):
        read(opened(tmp_path, name, AVRO))


def test_a_file_that_was_replaced_by_a_shorter_one_is_noticed(tmp_path: Path) -> None:
    reader = opened(tmp_path, put(tmp_path, "t.avro", numbers(10, per_block=5)), AVRO)
    put(tmp_path, "t.avro", numbers(5))
    with pytest.raises(ArchiveFileError, match=r"found no data in t\.avro; the listing showed \d+ bytes"):
        read(reader)


def test_a_schema_that_is_none_of_records_and_an_unknown_codec_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ArchiveFileError, match="its schema is not a record schema"):
        opened(tmp_path, put(tmp_path, "t.avro", avro_file("string", ["a"])), AVRO)
    content = numbers(3).replace(b"\x08null", b"\x08lz77")
    with pytest.raises(ArchiveFileError, match=r"t\.avro cannot be read: it is compressed with 'lz77'; known are null, deflate, snappy"):
        read(opened(tmp_path, put(tmp_path, "t.avro", content), AVRO))
