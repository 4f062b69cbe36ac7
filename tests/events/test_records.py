"""Raw records: a record is one document and nothing more, and an image has a column once."""

import pytest

from cdc_ops.core.events.format_spec import FormatOptions, RecordKind
from cdc_ops.core.schema.tables import TableSchema
from cdc_ops.events.change import ChangeBatch
from cdc_ops.events.parse import envelopes_of
from cdc_ops.events.record import NOT_JSON, NOT_UTF8, Record
from cdc_ops.events.registry import FORMAT_SPECS, open_format
from cdc_ops.events.table import TableReader, is_of
from tests.unit.test_events import schema

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


def read(table: TableSchema, keys: tuple[str, ...], *texts: str, before: bool = True) -> ChangeBatch:
    """The rows of a table in records."""
    form = open_format(CHOSEN)
    records = [Record(text.encode(), "t.json", line, 0, line) for line, text in enumerate(texts)]
    pairs = [(record, found) for record in records for found in envelopes_of(form, record) if is_of(found, table.table)]
    return TableReader(form, table, keys, before=before).read([record for record, _ in pairs], [found for _, found in pairs])


@pytest.mark.parametrize("name", FORMAT_SPECS)
def test_no_format_takes_the_first_of_two_documents_on_a_line(name: str) -> None:
    form = open_format(FormatOptions(name=name))
    for text in ("{} {}", "{} x", *("{}" + behind for behind in BEHIND)):
        [found] = envelopes_of(form, Record(text.encode(), "t.json", 0))
        assert (found.kind, found.reason) == (RecordKind.BAD, NOT_JSON), text
    [found] = envelopes_of(form, Record(b'{"op": "\xff"}', "t.json", 0))
    assert (found.kind, found.reason) == (RecordKind.BAD, NOT_UTF8)


@pytest.mark.parametrize("name", FORMAT_SPECS)
def test_a_record_without_a_value_is_a_control_record_of_every_format(name: str) -> None:
    form = open_format(FormatOptions(name=name))
    for value in (None, b"", b"  ", b"null", b" null "):
        [found] = envelopes_of(form, Record(value, "t.json", 0))
        assert found.kind is RecordKind.CONTROL


def test_blanks_around_a_document_do_not_make_a_record_bad() -> None:
    document = f'{{"op": "c", "after": {{"id": 1, "c0": 5}}, {PLACE}}}'
    assert read(schema("int"), ("id",), document, f" {document} \t\r").kind == [RecordKind.CHANGE] * 2


def test_an_image_that_names_a_column_twice_is_bad_and_a_table_reads_strays_too() -> None:
    texts = (
        f'{{"op": "u", "before": {{"id": 1, "c0": 1}}, "after": {{"id": 1, "id": 2}}, {PLACE}}}',
        f'{{"op": "u", "before": {{"id": 1, "c0": 1, "x": 1}}, "after": {{"id": 1, "id": 1}}, {PLACE}}}',
        f'{{"op": "d", "before": {{"id": 1, "id": 1}}, {PLACE}}}',
        f'{{"op": "c", "after": {{"id": 1, "c0": 5}}, {PLACE}}}',
        "garbage",
    )
    batch = read(schema("int"), ("id",), *texts)
    after = "the after image has a column twice"
    assert batch.reason == [after, after, "the before image has a column twice", None, NOT_JSON]
    assert batch.kind == [*[RecordKind.BAD] * 3, RecordKind.CHANGE, RecordKind.BAD]


def test_of_rows_before_that_nobody_wants_the_key_alone_is_read() -> None:
    texts = (
        f'{{"op": "u", "before": {{"id": 1, "c0": 2, "c1": "x"}}, "after": {{"id": 1, "c0": 3, "c1": 4}}, {PLACE}}}',
        f'{{"op": "d", "before": {{"id": 1, "c0": 2, "c1": "x"}}, {PLACE}}}',
        f'{{"op": "d", "before": {{"id": 1, "c0": "x", "c1": 4}}, {PLACE}}}',
        f'{{"op": "u", "before": {{"id": 1, "c0": 3, "c1": 4}}, "after": {{"id": 1, "c0": 3, "c1": "x"}}, {PLACE}}}',
    )
    wanted, unwanted = (read(schema("int", "int"), ("c0", "id"), *texts, before=before) for before in (True, False))
    assert wanted.kind == [RecordKind.BAD] * 4
    assert unwanted.kind == [RecordKind.CHANGE, RecordKind.CHANGE, RecordKind.BAD, RecordKind.BAD]
    rows = unwanted.feed().to_pylist()
    assert [row["before"] for row in rows] == [None] * 4
    moved, deleted = rows[:2]
    assert (moved["key"], moved["previous_key"]) == ({"c0": 3, "id": 1}, {"c0": 2, "id": 1})
    assert moved["after"] == {"id": 1, "c0": 3, "c1": 4}
    assert (deleted["key"], deleted["previous_key"], deleted["after"]) == ({"c0": 2, "id": 1}, None, None)


def test_a_table_of_hundreds_of_columns_is_read() -> None:
    table = schema(*["int"] * 300)
    after = ", ".join(f'"{column.name}": {number}' for number, column in enumerate(table.columns))
    batch = read(table, ("id",), f'{{"op": "c", "after": {{{after}}}, {PLACE}}}', before=False)
    [row] = batch.feed().to_pylist()
    assert (row["kind"], *row["after"].values()) == ("change", *range(len(table.columns)))
