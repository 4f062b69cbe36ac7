"""The archive for tests has the names, offsets and lines of Kafka Connect's S3 sink."""

import json
from pathlib import Path

import pytest

from cdc_ops.core.archive.file_names import KafkaName, Layout, parse_name
from cdc_ops.dev.sink_archive import AvroSinkArchive, SinkArchive


def lines(root: Path) -> dict[str, list[str]]:
    return {str(path.relative_to(root)): path.read_text("utf-8").split("\n")[:-1] for path in sorted(root.rglob("*.json"))}


def sink(folder: Path, **options: object) -> SinkArchive:
    return SinkArchive(folder / "archive", folder / "sink", **{"records_per_file": 2, **options})  # type: ignore[arg-type]


def test_a_file_is_written_when_enough_records_of_its_topic_are_there(tmp_path: Path) -> None:
    made = sink(tmp_path)
    made.put([("a", "1"), ("b", "2"), ("a", "3"), ("a", "4")])
    assert lines(tmp_path / "archive") == {"a/partition=0/a+0+0000000000.json": ["1", "3"]}
    made.flush()
    made.flush()
    assert lines(tmp_path / "archive") == {
        "a/partition=0/a+0+0000000000.json": ["1", "3"],
        "a/partition=0/a+0+0000000002.json": ["4"],
        "b/partition=0/b+0+0000000000.json": ["2"],
    }


def test_its_names_are_those_of_the_layout(tmp_path: Path) -> None:
    made = sink(tmp_path)
    made.put([("cdc.shop.orders", str(number)) for number in range(4)])
    found = [parse_name(Layout.KAFKA_CONNECT, name) for name in lines(tmp_path / "archive")]
    assert [(one.topic, one.partition, one.start_offset) for one in found if isinstance(one, KafkaName)] == [
        ("cdc.shop.orders", 0, 0),
        ("cdc.shop.orders", 0, 2),
    ]


@pytest.mark.parametrize(("tombstones", "expected"), [(True, ["1", "null", "3"]), (False, ["1", "3"])])
def test_a_tombstone_has_an_offset_whether_it_is_written_or_not(tmp_path: Path, tombstones: bool, expected: list[str]) -> None:
    made = sink(tmp_path, records_per_file=9, tombstones=tombstones)
    made.put([("a", "1"), ("a", None), ("a", "3")])
    made.flush()
    assert lines(tmp_path / "archive") == {"a/partition=0/a+0+0000000000.json": expected}
    assert made.offsets() == {"a": 3}


def test_all_topics_can_be_one(tmp_path: Path) -> None:
    made = sink(tmp_path, one_topic="all")
    made.put([("a", "1"), ("b", "2")])
    assert lines(tmp_path / "archive") == {"all/partition=0/all+0+0000000000.json": ["1", "2"]}


def test_a_sink_that_is_opened_again_goes_on_behind_what_is_in_files(tmp_path: Path) -> None:
    made = sink(tmp_path)
    made.put([("a", "1"), ("a", "2"), ("a", "3"), ("b", "4")])  # nobody flushes what is left of a and b
    again = sink(tmp_path)
    again.put([("a", "3 again"), ("b", "4 again")])
    again.flush()
    assert again.offsets() == {"a": 3, "b": 1}
    assert lines(tmp_path / "archive")["a/partition=0/a+0+0000000002.json"] == ["3 again"]
    assert json.loads((tmp_path / "sink" / "sink.json").read_text("utf-8")) == {"a": 3, "b": 1}


def test_an_object_store_gets_the_same_objects(tmp_path: Path) -> None:
    import fsspec

    made = SinkArchive("memory://archive-of-a-test", tmp_path / "sink", records_per_file=1)
    made.put([("a", "é")])
    files = fsspec.filesystem("memory")
    assert files.cat("/archive-of-a-test/a/partition=0/a+0+0000000000.json") == "é\n".encode()
    files.rm("/archive-of-a-test", recursive=True)


def test_avro_has_a_file_for_each_schema_in_turn(tmp_path: Path) -> None:
    made = AvroSinkArchive(tmp_path / "archive", tmp_path / "sink", records_per_file=5)
    kinds = ("string", "string", "int32", "string")
    schemas = ({"type": "struct", "fields": [{"field": "x", "type": kind}], "name": "n", "optional": False} for kind in kinds)
    values = ("a", "b", 1, "c")
    made.put(("a", json.dumps({"schema": schema, "payload": {"x": value}})) for schema, value in zip(schemas, values, strict=True))
    made.flush()
    files = sorted(path.name for path in (tmp_path / "archive" / "a" / "partition=0").iterdir())
    assert files == ["a+0+0000000000.avro", "a+0+0000000002.avro", "a+0+0000000003.avro"]
