"""The fold of an event history in Spark comes to what plain Python comes to; the worked example of a sales table has four rows."""

import json
from dataclasses import replace
from random import Random
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from cdc_ops.core.events.format_spec import EventOperation, FormatOptions, RecordKind
from cdc_ops.core.schema.tables import TableName, TableSchema
from cdc_ops.events.parse import envelopes_of
from cdc_ops.events.record import Record
from cdc_ops.events.registry import open_format
from cdc_ops.events.table import TableReader, is_of
from cdc_ops.lake.history.event_fold import barrier, changes_per_key, latest_per_key, without_nulls
from cdc_ops.testing.folding import Batch, Change, Outcome, fold
from tests.histories import COLUMNS, history_of
from tests.lake_case import schema

SCHEMA = schema(*((name, "int") for name in COLUMNS))
IMAGE = "struct<id: int, a: int, b: int>"
FEED = (
    f"kind string, op string, key struct<id: int>, previous_key struct<id: int>, after {IMAGE}, present array<string>,"
    " position struct<tx: bigint, n: bigint>"
)
SALES = TableSchema(table=TableName(schema="delta_cdc", name="sales"), columns=schema(
    ("id", "bigint"), ("date", "date"), ("name", "string"), ("sales", "double")
).columns, primary_key=("id",))  # fmt: skip


def feed_of(spark: SparkSession, changes: list[Change]) -> DataFrame:
    rows = [
        (
            "change",
            change.op.value,
            change.key or None,
            change.previous_key,
            None if change.values is None else tuple(change.values.get(name) for name in COLUMNS),
            [name for name in COLUMNS if name in (change.values or {})],
            change.position,
        )
        for change in changes
    ]
    return spark.createDataFrame(rows, FEED)


def folded_in_spark(feed: DataFrame) -> Batch:
    outcomes = {
        tuple(row["key"]): Outcome(
            deleted=row["deleted"],
            whole=row["whole"],
            values={name: row["row"][name] for name in row["present"]},
            position=tuple(row["position"]),
        )
        for row in latest_per_key(feed, SCHEMA).collect()
    }
    return Batch(truncated=barrier(feed).collect()[0]["position"] is not None, outcomes=outcomes)


def test_spark_folds_as_plain_python_does(spark: SparkSession) -> None:
    random = Random(20240229)
    many: list[Change] = []
    for number in range(40):  # histories side by side: their keys are apart
        for change in history_of(random, truncates=False):
            moved = {"id": change.key[0] + 10 * number}
            many.append(Change(
                op=change.op, position=change.position, key=(moved["id"],), values={**change.values, **moved} if change.values else None,
                previous_key=change.previous_key and (change.previous_key[0] + 10 * number,),
            ))  # fmt: skip
    others = [history_of(random) for _ in range(100)]
    truncated = next(history for history in others if any(change.op is EventOperation.TRUNCATE for change in history[5:-5]))
    for changes in (many, truncated):
        twice = [*changes, *random.choices(changes, k=len(changes) // 4)]
        random.shuffle(twice)
        assert folded_in_spark(feed_of(spark, twice)) == fold(changes)


def test_deletes_and_nulls_that_are_ignored_are_as_if_they_had_not_been_sent(spark: SparkSession) -> None:
    random = Random(20240301)
    history = next(many for many in (history_of(random) for _ in range(100)) if len({one.op for one in many}) == len(EventOperation))
    feed = feed_of(spark, history).withColumn("nulled", F.array().cast("array<string>"))
    told = []
    for one in history:
        moved = one.op is EventOperation.UPDATE and one.previous_key not in (None, one.key)
        said = {
            name: value for name, value in (one.values or {}).items() if moved or one.op is not EventOperation.UPDATE or value is not None
        }
        if one.op not in (EventOperation.DELETE, EventOperation.TRUNCATE):
            told.append(replace(one, op=EventOperation.CREATE if moved else one.op, previous_key=None, values=said))
    rows = latest_per_key(without_nulls(feed, SCHEMA, COLUMNS[1:]), SCHEMA, deletes=False, nulls=False).collect()
    assert {tuple(row["key"]): (row["deleted"], {name: row["row"][name] for name in row["present"] if name}) for row in rows} == {
        key: (False, outcome.values) for key, outcome in fold(told).outcomes.items()
    }
    every = changes_per_key(feed, deletes=False).select("key", "deleted", "position").collect()
    assert sorted((tuple(row["key"]), row["deleted"], tuple(row["position"])) for row in every) == sorted(
        (one.key, False, one.position) for one in told
    )
    named = {one.key for one in told if one.op is EventOperation.UPDATE and len(one.values or {}) < len(COLUMNS)}
    for row in rows:  # a row that is not known as a whole says whether it could be inserted all the same
        assert row["whole"] or tuple(row["key"]) in named or len(row["present"]) == len(COLUMNS)


def test_records_that_are_bad_are_left_out_of_the_batch(spark: SparkSession) -> None:
    good = Change(op=EventOperation.CREATE, position=(1, 0), key=(1,), values={"id": 1, "a": 1, "b": 1})
    newer = Change(op=EventOperation.UPDATE, position=(2, 0), key=(1,), values={"id": 1, "a": 2, "b": 2})
    alone = Change(op=EventOperation.CREATE, position=(3, 0), key=(2,), values={"id": 2, "a": 1, "b": 1})
    bad = feed_of(spark, [newer, alone]).withColumn("kind", F.lit(RecordKind.BAD.value))
    feed = feed_of(spark, [good]).unionByName(bad)
    assert folded_in_spark(feed) == fold([good])
    assert [tuple(row["key"]) for row in changes_per_key(feed).collect()] == [(1,)]


def sales_record(number: int, kind: str, before: dict[str, Any] | None, after: dict[str, Any] | None) -> str:
    return json.dumps({
        "recordID": number, "source": '{"sourceType": "MySQL", "version": "0.0.0.0"}', "dbTable": "delta_cdc.sales", "recordType": kind,
        "recordTimestamp": "1970-01-01 08:00:00", "extraTags": "{}", "fields": '["id","date","name","sales"]',
        "beforeImages": json.dumps(before or {}), "afterImages": json.dumps(after or {}),
    })  # fmt: skip


def sale(key: int, day: str, name: str, sales: str) -> dict[str, str]:
    return {"sales": sales, "date": day, "name": name, "id": str(key)}


def test_the_sales_table_of_the_worked_example_ends_with_its_four_rows(spark: SparkSession) -> None:
    robert, lee = sale(1, "2019-11-11", "Robert", "323.0"), sale(2, "2019-11-11", "Lee", "500.0")
    records = [
        sales_record(1, "INIT", None, robert),
        sales_record(2, "INIT", None, lee),
        sales_record(3, "INIT", None, sale(3, "2019-11-12", "Robert", "136.0")),
        sales_record(4, "INIT", None, sale(4, "2019-11-13", "Lee", "211.0")),
        sales_record(5, "DELETE", robert, None),
        sales_record(6, "UPDATE", lee, {**lee, "sales": "150.0"}),
        sales_record(7, "UPDATE", {**lee, "sales": "150.0"}, {**lee, "sales": "175.0"}),
        sales_record(8, "INSERT", None, sale(5, "2019-11-14", "Robert", "233.0")),
    ]
    options = FormatOptions(name="dts-json", time_zone="+08:00")
    form = open_format(options)
    # In any order: the number of the record decides.
    raw = [Record(text.encode(), "sales.json", line) for line, text in enumerate(reversed(records))]
    parts = [(record, envelope) for record in raw for envelope in envelopes_of(form, record) if is_of(envelope, SALES.table)]
    changes = TableReader(form, SALES, ("id",)).read([record for record, _ in parts], [envelope for _, envelope in parts])
    feed = spark.createDataFrame(changes.feed())
    latest = latest_per_key(feed, SALES)
    kept = latest.where("NOT deleted").selectExpr("row.*").orderBy("id").collect()
    assert [(row["id"], str(row["date"]), row["name"], row["sales"]) for row in kept] == [
        (2, "2019-11-11", "Lee", 175.0),
        (3, "2019-11-12", "Robert", 136.0),
        (4, "2019-11-13", "Lee", 211.0),
        (5, "2019-11-14", "Robert", 233.0),
    ]
