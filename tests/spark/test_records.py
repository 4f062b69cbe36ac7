"""Raw records: a record is one document and nothing more, and is parsed once."""

import pytest
from pyspark.sql import DataFrame, SparkSession

from cdc_ops.core.events import EventFormat
from cdc_ops.core.feeds import RECORD_COLUMNS
from cdc_ops.formats.base import format_names, open_format
from cdc_ops.formats.feed import canonical_feed, is_tableless, records_of
from cdc_ops.formats.latest import latest_per_key
from cdc_ops.formats.records import parsed
from tests.unit.test_events import schema

COLUMNS = ", ".join(f"{name} {kind}" for name, kind in RECORD_COLUMNS)
BEHIND = (" garbage", "{}", ' {"op": "d"}', "}", "]", ",", ',{"op": "d"}', "] x", "]} x", "]}", "\x00", " // x", ',"x":1')
PLACE = '"source": {"db": "shop", "table": "orders", "file": "b.000001", "pos": 4}'
CHOSEN = EventFormat(name="debezium-mysql", settings={"skipped.operations": "none", "converter.replace.null.with.default": "false"})


def records(spark: SparkSession, *texts: str) -> DataFrame:
    return spark.createDataFrame([(text, "t.json", line, 0, line) for line, text in enumerate(texts)], COLUMNS)


def test_text_behind_a_document_makes_a_record_bad_and_blanks_do_not(spark: SparkSession) -> None:
    document = '{"op": "c", "after": {"id": 1}}'
    whole = [document, f" {document} \t\r", document]
    misfits = ('{"op": "c", "n": 1.5}', '{"op": "c", "n": "x"}', '[{"op": "c"}]', '{"op": "c"', "7")
    texts = [*whole, *(document + text for text in BEHIND), *misfits]
    found = parsed(records(spark, *texts), "op string, n bigint").orderBy("line").select("r.op").collect()
    assert [row.op for row in found] == ["c"] * len(whole) + [None] * (len(BEHIND) + len(misfits))


@pytest.mark.parametrize("name", format_names())
def test_no_format_takes_the_first_of_two_documents_on_a_line(spark: SparkSession, name: str) -> None:
    envelopes = open_format(name).envelopes(records(spark, "{} {}", "{} x"), EventFormat(name=name))
    assert [(row.kind, row.reason, row.raw) for row in envelopes.orderBy("line").collect()] == [
        ("bad", "it is no JSON of this format", "{} {}"),
        ("bad", "it is no JSON of this format", "{} x"),
    ]


def test_an_image_that_names_a_column_twice_is_bad_and_a_table_reads_strays_too(spark: SparkSession) -> None:
    texts = (
        f'{{"op": "u", "before": {{"id": 1, "c0": 1}}, "after": {{"id": 1, "id": 2}}, {PLACE}}}',
        f'{{"op": "u", "before": {{"id": 1, "c0": 1, "x": 1}}, "after": {{"id": 1, "id": 1}}, {PLACE}}}',
        f'{{"op": "d", "before": {{"id": 1, "id": 1}}, {PLACE}}}',
        f'{{"op": "c", "after": {{"id": 1, "c0": 5}}, {PLACE}}}',
        "garbage",
    )
    form, table = open_format(CHOSEN.name), schema("int")
    envelopes = form.envelopes(records(spark, *texts), CHOSEN)
    feed = canonical_feed(form, envelopes.where(~is_tableless()), table, ("id",), CHOSEN)
    found = [(row.kind, row.reason) for row in feed.orderBy("line").collect()]
    after = "its image after names a column twice"
    assert found == [("bad", after), ("bad", after), ("bad", "its image before names a column twice"), ("change", None)]
    assert [row.raw for row in envelopes.where(is_tableless()).collect()] == ["garbage"]
    assert records_of(envelopes, table.table).count() == len(texts)


def test_a_record_is_parsed_once_on_its_way_to_the_last_state_of_a_key(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    form, table = open_format(CHOSEN.name), schema("int")
    envelopes = records_of(form.envelopes(records(spark, "{}"), CHOSEN), table.table)
    feed = canonical_feed(form, envelopes, table, ("id",), CHOSEN)
    for frame in (feed, latest_per_key(feed, table, truncated=False)):
        frame.explain(mode="simple")
        plan = capsys.readouterr().out.partition("== Initial Plan ==")[0]
        assert plan.count("from_json(") == 1
