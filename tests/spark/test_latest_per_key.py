"""The fold of an event history in Spark comes to what plain Python comes to; the worked example of a sales table has four rows."""

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from random import Random
from typing import Any

import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from cdc_ops.core.apply.deletes import DELETE_MARK
from cdc_ops.core.apply.metadata_columns import SEQUENCE
from cdc_ops.core.events.format_spec import EventOperation, FormatOptions, RecordKind
from cdc_ops.core.operation.log_batch import PRESENT, REST_IS_NULL
from cdc_ops.core.schema.tables import TableName, TableSchema
from cdc_ops.events.fold.rules import WHOLE, FoldRules
from cdc_ops.events.parse import envelopes_of
from cdc_ops.events.record import Record
from cdc_ops.events.registry import open_format
from cdc_ops.events.table import TableReader, is_of
from cdc_ops.lake.history.read import truncates
from cdc_ops.lake.history.rows import Kept, column_types, event_rows, identity_of, place_of
from cdc_ops.steps.history import folded_history
from cdc_ops.steps.history.folded_history import fold_rows
from cdc_ops.steps.stage import executors
from cdc_ops.testing.folding import Batch, Change, Outcome, fold
from tests.histories import COLUMNS, history_of
from tests.lake_case import schema

SCHEMA = schema(*((name, "int") for name in COLUMNS))
ROWS = ", ".join(f"{name} {kind}" for name, kind in column_types(SCHEMA, ("id",)).items())
STATES = FoldRules(schema=SCHEMA, keys=("id",), order=(), states=True)
SALES = TableSchema(table=TableName(schema="delta_cdc", name="sales"), columns=schema(
    ("id", "bigint"), ("date", "date"), ("name", "string"), ("sales", "double")
).columns, primary_key=("id",))  # fmt: skip


def rows_of(spark: SparkSession, changes: list[Change]) -> DataFrame:
    """Returns changes as rows of a history."""
    rows = [
        dict(
            dict.fromkeys(column_types(SCHEMA, ("id",))),
            kind="change",
            op=change.op.value,
            op_seq=1,
            key={"id": change.key[0]} if change.key else None,
            previous_key=change.previous_key and {"id": change.previous_key[0]},
            after=None if change.values is None else {name: change.values.get(name) for name in COLUMNS},
            present=[name for name in COLUMNS if name in (change.values or {})],
            position=list(change.position),
        )
        for change in changes
    ]
    return spark.createDataFrame(rows, ROWS)


def folded(rows: DataFrame, rules: FoldRules = STATES) -> list[Row]:
    return fold_rows(rows, rules, ("a history",)).collect()


def present(row: Row) -> Sequence[str]:
    """Returns the columns that are known of a row that is there."""
    return COLUMNS if row[PRESENT] is None else tuple(row[PRESENT])


def folded_in_spark(rows: DataFrame) -> Batch:
    outcomes = {
        (row["id"],): Outcome(
            deleted=row[DELETE_MARK],
            whole=row[WHOLE],
            values={} if row[DELETE_MARK] else {name: row[name] for name in present(row)},
            position=tuple(row[SEQUENCE]),
        )
        for row in folded(rows)
    }
    return Batch(truncated=bool(truncates(rows)), outcomes=outcomes)


@pytest.fixture(params=["in tasks", "in this process"])
def where(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """By tasks of Spark, or in this process, as the size of a history decides."""
    monkeypatch.setattr(folded_history, "stored_bytes", lambda _: 3 * folded_history._HERE if request.param == "in tasks" else 0)
    return str(request.param)


@pytest.mark.usefixtures("where")
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
        assert folded_in_spark(rows_of(spark, twice)) == fold(changes)


@pytest.mark.usefixtures("where")
def test_deletes_and_nulls_that_are_ignored_are_as_if_they_had_not_been_sent(spark: SparkSession) -> None:
    random = Random(20240301)
    history = next(many for many in (history_of(random) for _ in range(100)) if len({one.op for one in many}) == len(EventOperation))
    feed = rows_of(spark, history)
    told = []
    for one in history:
        moved = one.op is EventOperation.UPDATE and one.previous_key not in (None, one.key)
        said = {
            name: value for name, value in (one.values or {}).items() if moved or one.op is not EventOperation.UPDATE or value is not None
        }
        if one.op not in (EventOperation.DELETE, EventOperation.TRUNCATE):
            told.append(replace(one, op=EventOperation.CREATE if moved else one.op, previous_key=None, values=said))
    rules = replace(STATES, deletes=False, nulls_ignored=COLUMNS[1:])
    rows = folded(feed, rules)
    assert {(row["id"],): (row[DELETE_MARK], {name: row[name] for name in present(row) if name}) for row in rows} == {
        key: (False, outcome.values) for key, outcome in fold(told).outcomes.items()
    }
    every = folded(feed, replace(rules, states=False, versions=True))
    assert sorted(((row["id"],), row[DELETE_MARK], tuple(row[SEQUENCE])) for row in every) == sorted(
        (one.key, False, one.position) for one in told
    )
    named = {one.key for one in told if one.op is EventOperation.UPDATE and len(one.values or {}) < len(COLUMNS)}
    for row in rows:  # a row that is not known as a whole says whether it could be inserted all the same
        assert row[WHOLE] or (row["id"],) in named or REST_IS_NULL in present(row) or len(present(row)) == len(COLUMNS)


def test_records_that_are_bad_are_left_out_of_the_batch(spark: SparkSession) -> None:
    good = Change(op=EventOperation.CREATE, position=(1, 0), key=(1,), values={"id": 1, "a": 1, "b": 1})
    newer = Change(op=EventOperation.UPDATE, position=(2, 0), key=(1,), values={"id": 1, "a": 2, "b": 2})
    alone = Change(op=EventOperation.CREATE, position=(3, 0), key=(2,), values={"id": 2, "a": 1, "b": 1})
    bad = rows_of(spark, [newer, alone]).withColumn("kind", F.lit(RecordKind.BAD.value))
    feed = rows_of(spark, [good]).unionByName(bad)
    assert folded_in_spark(feed) == fold([good])
    assert [row["id"] for row in folded(feed, replace(STATES, states=False, versions=True))] == [1]


def test_this_process_folds_what_executors_without_cdc_ops_cannot(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(folded_history, "stored_bytes", lambda _: 3 * folded_history._HERE)
    monkeypatch.setattr(executors, "why_not", lambda _: "of Spark's executors: No module named 'cdc_ops'")
    history = history_of(Random(7), longest=100)
    assert folded_in_spark(rows_of(spark, history)) == fold(history)
    said = (
        "a history: this process folds the event history, because Spark's executors cannot: of Spark's executors: No module named 'cdc_ops'"
    )
    assert said in caplog.messages


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
    kept_table = Kept(path="", schema=SALES, keys=("id",), op_seq=1, at=datetime(2026, 1, 1, tzinfo=UTC))
    rows = event_rows(feed, place_of(feed), identity_of(feed, form.spec), kept_table)
    latest = fold_rows(rows, FoldRules(schema=SALES, keys=("id",), order=()), ())
    kept = latest.where(~F.col(DELETE_MARK)).select(*SALES.names).orderBy("id").collect()
    assert [(row["id"], str(row["date"]), row["name"], row["sales"]) for row in kept] == [
        (2, "2019-11-11", "Lee", 175.0),
        (3, "2019-11-12", "Robert", 136.0),
        (4, "2019-11-13", "Lee", 211.0),
        (5, "2019-11-14", "Robert", 233.0),
    ]
