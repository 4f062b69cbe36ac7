"""Raw records: a record is one document and nothing more, and is parsed once."""

import pytest
from cdc_ops.formats.feed.canonical import canonical_feed, is_tableless, records_of
from cdc_ops.formats.feed.envelopes import parsed
from cdc_ops.formats.feed.fold import latest_per_key
from cdc_ops.formats.feed.renames import with_names_from_before, with_names_of_now
from cdc_ops.formats.registry import format_names, open_format
from pyspark.sql import DataFrame, SparkSession

from cdc_ops.core.events.change_feed import RECORD_COLUMNS
from cdc_ops.core.events.ddl_changes import Renaming
from cdc_ops.core.events.format_spec import FormatOptions
from tests.unit.test_events import schema

COLUMNS = ", ".join(f"{name} {kind}" for name, kind in RECORD_COLUMNS)
BEHIND = (" garbage", "{}", ' {"op": "d"}', "}", "]", ",", ',{"op": "d"}', "] x", "]} x", "]}", "\x00", " // x", ',"x":1')
PLACE = '"source": {"db": "shop", "table": "orders", "file": "b.000001", "pos": 4}'
CHOSEN = FormatOptions(
    name="debezium-mysql",
    settings={
        "skipped.operations": "none",
        "event.converting.failure.handling.mode": "fail",
        "converter.replace.null.with.default": "false",
    },
)


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
    envelopes = open_format(name).envelopes(records(spark, "{} {}", "{} x"), FormatOptions(name=name))
    assert [(row.kind, row.reason, row.raw) for row in envelopes.orderBy("line").collect()] == [
        ("bad", "the record is not JSON of this format", "{} {}"),
        ("bad", "the record is not JSON of this format", "{} x"),
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
    after = "the after image has a column twice"
    assert found == [("bad", after), ("bad", after), ("bad", "the before image has a column twice"), ("change", None)]
    assert [row.raw for row in envelopes.where(is_tableless()).collect()] == ["garbage"]
    assert records_of(envelopes, table.table).count() == len(texts)


def test_of_rows_before_that_nobody_wants_the_key_alone_is_read(spark: SparkSession) -> None:
    texts = (
        f'{{"op": "u", "before": {{"id": 1, "c0": 2, "c1": "x"}}, "after": {{"id": 1, "c0": 3, "c1": 4}}, {PLACE}}}',
        f'{{"op": "d", "before": {{"id": 1, "c0": 2, "c1": "x"}}, {PLACE}}}',
        f'{{"op": "d", "before": {{"id": 1, "c0": "x", "c1": 4}}, {PLACE}}}',
        f'{{"op": "u", "before": {{"id": 1, "c0": 3, "c1": 4}}, "after": {{"id": 1, "c0": 3, "c1": "x"}}, {PLACE}}}',
    )
    form, table = open_format(CHOSEN.name), schema("int", "int")
    envelopes = form.envelopes(records(spark, *texts), CHOSEN)
    wanted, unwanted = (
        canonical_feed(form, envelopes, table, ("c0", "id"), CHOSEN, before=before).orderBy("line").collect() for before in (True, False)
    )
    assert [row.kind for row in wanted] == ["bad"] * 4
    assert [row.kind for row in unwanted] == ["change", "change", "bad", "bad"]
    assert [row.before for row in unwanted] == [None] * 4
    moved, deleted = unwanted[:2]
    assert (tuple(moved.key), tuple(moved.previous_key), tuple(moved.after)) == ((3, 1), (2, 1), (1, 3, 4))
    assert (tuple(deleted.key), deleted.previous_key, deleted.after) == ((2, 1), None, None)


def test_events_before_a_statement_are_read_under_the_name_of_now_and_no_others(spark: SparkSession) -> None:
    def event(pos: int, image: str) -> str:
        return f'{{"op": "c", "after": {{{image}}}, {PLACE.replace("4", str(pos))}}}'

    texts = (
        *(
            event(100, '"id": 1, "NAME": 7'),
            event(200, '"id": 2, "name": 7'),
            event(300, '"id": 3, "c": 7'),
            event(400, '"id": 4, "name": 7'),
        ),
        *(event(100, '"id": 5, "name": 7, "c0": 8'), event(100, '"id": 6, "name": 7, "name": 8'), event(100, '"id": 7, "c": 7')),
        *(event(900, '"id": 8, "other": 7'), event(100, '"id": 9, "other": 7, "other": 8')),
    )
    form = open_format(CHOSEN.name)
    envelopes = form.envelopes(records(spark, *texts), CHOSEN)
    first = Renaming(old="name", new="c0", since=(), until=(1, 300, 1, -1, 0))
    second = Renaming(old="c", new="c0", since=(1, 300, 1, -1, 0), until=(1, 400, 1, -1, 0))
    by_setting = with_names_of_now(envelopes, [("other", "c0")], schema("int"))
    named = with_names_from_before(by_setting, (first, second), form.spec)
    feed = canonical_feed(form, named, schema("int"), ("id",), CHOSEN).orderBy("line").collect()
    assert [(row.kind, row.after and row.after.c0) for row in feed] == [
        *(("change", 7), ("change", 7), ("change", 7), ("change", None)),
        *(("change", 8), ("bad", None), ("change", None)),
        *(("change", 7), ("bad", None)),
    ]


def test_a_table_of_hundreds_of_columns_is_read(spark: SparkSession) -> None:
    form, table = open_format(CHOSEN.name), schema(*["int"] * 300)
    after = ", ".join(f'"{column.name}": {number}' for number, column in enumerate(table.columns))
    envelopes = form.envelopes(records(spark, f'{{"op": "c", "after": {{{after}}}, {PLACE}}}'), CHOSEN)
    feed = canonical_feed(form, envelopes, table, ("id",), CHOSEN, before=False)
    [row] = feed.select("kind", "after").collect()
    assert (row.kind, *row.after) == ("change", *range(len(table.columns)))


def test_a_record_is_parsed_once_on_its_way_to_the_last_state_of_a_key(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    form, table = open_format(CHOSEN.name), schema("int")
    envelopes = records_of(form.envelopes(records(spark, "{}"), CHOSEN), table.table)
    feed = canonical_feed(form, envelopes, table, ("id",), CHOSEN)
    for frame in (feed, latest_per_key(feed, table, truncated=False)):
        frame.explain(mode="simple")
        plan = capsys.readouterr().out.partition("== Initial Plan ==")[0]
        assert plan.count("from_json(") == 1
