"""Random, hostile and damaged events of MongoDB are read by plain Python as by Spark. Goes with Spark's way."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from pyspark.sql import SparkSession

from cdc_ops.core.formats.mongodb import CAPTURE_MODE
from cdc_ops.core.schema.declared_tables import DOCUMENT_COLUMN
from cdc_ops.events.formats.debezium import mongodb_values
from cdc_ops.testing.format_suite import GoldenFolder
from tests.events.both_ways import by_python, by_spark, differences
from tests.events.mongodb_events import MongoDbEvents

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "formats"
FULL = {CAPTURE_MODE: "change_streams_update_full"}


@pytest.mark.parametrize(
    ("folder", "settings", "made"),
    [
        ("debezium-mongodb", {}, MongoDbEvents.event),
        ("debezium-mongodb", FULL, MongoDbEvents.event),
        ("debezium-mongodb", {DOCUMENT_COLUMN: "doc"}, MongoDbEvents.event),
        ("debezium-mongodb-unwrapped", {}, MongoDbEvents.flat),
        ("debezium-mongodb-unwrapped", {"schemas.enable": "false"}, MongoDbEvents.flat),
    ],
)
def test_random_hostile_and_damaged_records_come_out_alike(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, folder: str, settings: dict[str, str], made: Callable[[MongoDbEvents], str]
) -> None:
    plain = mongodb_values._marked

    def compact(cell):  # Spark left blanks in documents out
        found = plain(cell)
        return msgspec.json.format(found.encode(), indent=-1).decode() if isinstance(found, str) and found[:1] in ("{", "[") else found

    monkeypatch.setattr(mongodb_values, "_marked", compact)
    golden, events = GoldenFolder(GOLDEN / folder), MongoDbEvents(20261128)
    losses = tuple(f"{name}={value}" for name, value in settings.items())
    options = replace(golden.options, settings=golden.options.settings | settings, accept_losses=(*golden.options.accept_losses, *losses))
    rows = [(made(events).encode(), "f", number, 0, 1000 + number if number % 50 else None) for number in range(3000)]
    if DOCUMENT_COLUMN in settings:  # Spark left blanks in documents out, where they were no texts
        rows = [row for row in rows if b"before\": {" not in row[0] and b"after\": {" not in row[0]]
    exact = by_spark(spark, options, golden.schema, golden.keys, rows)
    found = differences(exact, by_python(options, golden.schema, golden.keys, rows), rows)
    assert found == [], "\n".join([f"{len(found)} differences", *found[:20]])
