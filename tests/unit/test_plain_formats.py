"""What the compiled decoder takes of each format's records, and what it leaves: for each rule a record that breaks it alone."""

import json
from typing import Any

import pytest

from cdc_ops.core.events.format_spec import FormatOptions
from cdc_ops.core.schema.tables import TableSchema
from cdc_ops.events.formats.debezium.unchanged import UNCHANGED_FORMS
from tests.plain_events import plain_rows, table_of

TABLE = table_of({"id": "bigint", "name": "varchar(9)", "rate": "double", "kind": "enum('new','paid')"}, ("id",))
ROW = {"id": 1, "name": "Lee", "rate": 0.5, "kind": "new"}
SEQUENCE = '["24","25"]'

POSTGRES = {
    "before": None,
    "after": ROW,
    "source": {"ts_ms": 1709283600000, "snapshot": "false", "schema": "shop", "table": "orders", "sequence": SEQUENCE, "lsn": 26},
    "op": "u",
}
FLAT = {
    **ROW,
    "__deleted": "false",
    "__op": "u",
    "__file": "bin.000003",
    "__pos": 4,
    "__row": 0,
    "__connector": "mysql",
    "__table": "orders",
}
FLAT |= {"__db": "shop", "__source_ts_ms": 1709283600000, "__transaction_total_order": None}
FLAT_POSTGRES = {**ROW, "__deleted": "false", "__op": "u", "__lsn": 26, "__sequence": SEQUENCE}

MAXWELL = {
    "database": "shop",
    "table": "orders",
    "type": "update",
    "ts": 1709283600,
    "xid": 7,
    "commit": True,
    "position": "bin.000003:400",
}
MAXWELL |= {"data": ROW, "old": {"name": "Ann"}}
CANAL = {"database": "shop", "table": "orders", "isDdl": False, "type": "UPDATE", "es": 1709283600000, "sql": ""}
CANAL |= {"data": [{"id": "1", "name": "Lee", "rate": "0.5", "kind": "new"}], "old": [{"name": "Ann"}]}
TICDC = {**CANAL, "_tidb": {"commitTs": 417318403368288257}}

OPTIONS = {
    "maxwell": FormatOptions(name="maxwell", time_zone="UTC"),
    "canal": FormatOptions(name="canal", time_zone="UTC"),
    "ticdc-canal": FormatOptions(name="ticdc-canal", time_zone="UTC"),
    "debezium-postgres": FormatOptions(name="debezium-postgres"),
    "debezium-mysql-unwrapped": FormatOptions(
        name="debezium-mysql-unwrapped",
        settings={"add.fields": "op,file,pos,row,connector,db,table,source.ts_ms,transaction.total_order"},
    ),
    "debezium-postgres-unwrapped": FormatOptions(name="debezium-postgres-unwrapped", settings={"add.fields": "op,lsn,sequence"}),
}
PLAIN = {"debezium-postgres": POSTGRES, "debezium-mysql-unwrapped": FLAT, "debezium-postgres-unwrapped": FLAT_POSTGRES}
PLAIN |= {"maxwell": MAXWELL, "canal": CANAL, "ticdc-canal": TICDC}


def changed(record: dict[str, Any], **others: Any) -> dict[str, Any]:
    """A record with other members; `a.b` is the member `b` of `a`."""
    found = json.loads(json.dumps(record))
    for name, value in others.items():
        place, _, inner = name.partition(".")
        if inner:
            place_of = found[place][0] if isinstance(found[place], list) else found[place]
            place_of[inner] = value
        else:
            found[name] = value
    return found


def without(record: dict[str, Any], name: str) -> dict[str, Any]:
    """A record that lacks a member."""
    return {key: value for key, value in record.items() if key != name}


def taken(form: str, record: dict[str, Any] | bytes, table: TableSchema = TABLE, first: int = 100) -> dict[str, Any] | None:
    """What the decoder makes of a record; None if it leaves it."""
    text = record if isinstance(record, bytes) else json.dumps(record, ensure_ascii=False).encode()
    return plain_rows(table, OPTIONS[form], [text], first).get(0)


@pytest.mark.parametrize("form", PLAIN)
def test_a_record_as_it_nearly_always_is_is_taken(form: str) -> None:
    found = taken(form, PLAIN[form])
    assert found is not None
    assert (found["op"], found["key"], found["after"]) == ("u", {"id": 1}, ROW)


LEFT = {
    "debezium-postgres": {
        "another schema": changed(POSTGRES, **{"source.schema": "other"}),
        "another table": changed(POSTGRES, **{"source.table": "others"}),
        "no LSN": changed(POSTGRES, **{"source.lsn": None}),
        "an LSN beyond 64 bits": changed(POSTGRES, **{"source.lsn": 10**20}),
        "a sequence that is none": changed(POSTGRES, **{"source.sequence": "24"}),
        "a sequence of numbers": changed(POSTGRES, **{"source.sequence": "[24]"}),
        "a sequence that is cut off": changed(POSTGRES, **{"source.sequence": '["24'}),
        "a commit beyond 64 bits": changed(POSTGRES, **{"source.sequence": f'["{10**20}"]'}),
        "a moment beyond 64 bits": changed(POSTGRES, ts_ms=10**20),
        "a message": changed(POSTGRES, op="m"),
        "a TRUNCATE": changed(POSTGRES, op="t"),
        "a value that did not change": changed(POSTGRES, **{"after.name": "__debezium_unavailable_value"}),
        "a key that moves": changed(POSTGRES, before={**ROW, "id": 2}),
        "a column too few": changed(POSTGRES, after=without(ROW, "rate")),
        "a column too many": changed(POSTGRES, **{"after.more": 1}),
    },
    "debezium-mysql-unwrapped": {
        "another database": changed(FLAT, __db="other"),
        "another table": changed(FLAT, __table="others"),
        "a delete that the operation denies": changed(FLAT, __deleted="true"),
        "a delete that the mark denies": changed(FLAT, __op="d"),
        "a payload without a schema": {"payload": FLAT},
        "a mark that is none": changed(FLAT, __deleted="no"),
        "no operation": without(FLAT, "__op"),
        "no number of the row": without(FLAT, "__row"),
        "a place as text": changed(FLAT, __pos="4"),
        "no file": changed(FLAT, __file=None),
        "a connector that is none": changed(FLAT, __connector=7),
        "a column too few": without(FLAT, "rate"),
        "a column too many": changed(FLAT, more=1),
        "a member twice": json.dumps(FLAT)[:-1].encode() + b', "__row": 1}',
        "a value that did not change": changed(FLAT, name="__debezium_unavailable_value"),
    },
    "debezium-postgres-unwrapped": {
        "no sequence": without(FLAT_POSTGRES, "__sequence"),
        "a sequence that is none": changed(FLAT_POSTGRES, __sequence="24"),
        "no LSN": without(FLAT_POSTGRES, "__lsn"),
    },
}


LEFT |= {
    "maxwell": {
        "another database": changed(MAXWELL, database="other"),
        "another table": changed(MAXWELL, table="others"),
        "a statement": changed(MAXWELL, sql="TRUNCATE TABLE orders"),
        "a heartbeat": changed(MAXWELL, type="heartbeat"),
        "a key that moves": changed(MAXWELL, **{"old.id": 2}),
        "what changed in a column that is none": changed(MAXWELL, **{"old.more": 2}),
        "no place": changed(MAXWELL, position=None),
        "a place without a file": changed(MAXWELL, position=":400"),
        "a place that is none": changed(MAXWELL, position="bin.000003:4x"),
        "a column too few": changed(MAXWELL, data=without(ROW, "rate")),
        "a column too many": changed(MAXWELL, **{"data.more": 1}),
        "a value that is an object": changed(MAXWELL, **{"data.name": {"a": 1}}),
        "a zero that loses its sign": json.dumps(MAXWELL).replace("0.5", "-0.0").encode(),
        "a moment beyond the year 9999": changed(MAXWELL, ts=253_402_300_800),
    },
    "canal": {
        "a statement": changed(CANAL, isDdl=True),
        "another type": changed(CANAL, type="QUERY"),
        "another table": changed(CANAL, table="others"),
        "two rows": changed(CANAL, data=CANAL["data"] * 2, old=None),
        "no row": changed(CANAL, data=[], old=None),
        "two rows before": changed(CANAL, old=CANAL["old"] * 2),
        "a row that is in no array": changed(CANAL, data=CANAL["data"][0]),
        "what changed in no array": changed(CANAL, old={}),
        "a key that moves": changed(CANAL, **{"old.id": "2"}),
        "a label that is none": changed(CANAL, **{"data.kind": "1"}),
        "a number that is none": changed(CANAL, **{"data.id": " 1"}),
        "a message that was cut": changed(CANAL, _tidb={"onlyHandleKey": True}),
        "a message that is elsewhere": changed(CANAL, _tidb={"claimCheckLocation": "s3://x"}),
    },
    "ticdc-canal": {"no time of the commit": changed(TICDC, _tidb={}), "nothing of TiDB": CANAL},
}


@pytest.mark.parametrize(("form", "what"), [(form, what) for form, found in LEFT.items() for what in found])
def test_a_record_that_is_not_plain_is_left(form: str, what: str) -> None:
    assert taken(form, LEFT[form][what]) is None


@pytest.mark.parametrize("text", UNCHANGED_FORMS)
def test_each_spelling_of_a_value_that_did_not_change_is_left(text: str) -> None:
    assert taken("debezium-postgres", changed(POSTGRES, **{"after.name": text})) is None
    assert taken("debezium-postgres-unwrapped", changed(FLAT_POSTGRES, name=text)) is None


def test_the_offset_orders_rows_of_a_flat_record_that_does_not_say_mysql() -> None:
    vague = without(FLAT, "__connector")
    assert taken("debezium-mysql-unwrapped", vague, first=-1) is None
    found = taken("debezium-mysql-unwrapped", vague)
    assert found is not None
    assert found["position"]["total_order"] == found["position"]["offset"] == 100


def test_the_commit_before_orders_events_of_postgres_and_the_own_place_where_there_is_none() -> None:
    for sequence, commit in ((SEQUENCE, 24), ('[null,"25"]', 26), (None, 26)):
        found = taken("debezium-postgres", changed(POSTGRES, **{"source.sequence": sequence}))
        assert found is not None
        assert found["position"] == {"commit_lsn": commit, "lsn": 26, "streamed": 1, "total_order": -1, "offset": 100}


def test_a_flat_delete_has_its_key_from_the_only_image() -> None:
    found = taken("debezium-mysql-unwrapped", changed(FLAT, __deleted="true", __op="d"))
    assert found is not None
    assert (found["op"], found["key"], found["after"]) == ("d", {"id": 1}, None)


def test_a_table_with_a_column_by_the_name_of_an_added_field_is_left() -> None:
    odd = table_of({"id": "bigint", "__op": "varchar(1)"}, ("id",))
    with pytest.raises(AssertionError):
        taken("debezium-mysql-unwrapped", FLAT, odd)


def test_a_message_of_canal_needs_its_offset_and_one_of_ticdc_does_not() -> None:
    assert taken("canal", CANAL, first=-1) is None
    found, other = taken("canal", CANAL), taken("ticdc-canal", TICDC, first=-1)
    assert found is not None
    assert other is not None
    assert found["position"] == {"offset": 100, "element": 0}
    assert other["position"] == {"commit_ts": 417318403368288257, "offset": -1, "element": 0}


def test_the_last_row_of_a_transaction_of_maxwell_stands_behind_the_others_and_rows_of_a_bootstrap_before() -> None:
    rows = (MAXWELL, changed(MAXWELL, commit=False), changed(MAXWELL, xoffset=3), changed(MAXWELL, type="bootstrap-insert"))
    places = [found["position"] for record in rows if (found := taken("maxwell", record)) is not None]
    assert [(place["streamed"], place["xoffset"]) for place in places] == [(1, 2**62), (1, -1), (1, 3), (0, 2**62)]


MOMENTS = table_of({"id": "bigint", "at": "datetime(3)", "seen": "timestamp", "day": "date", "took": "time(2)"}, ("id",))


@pytest.mark.parametrize(
    ("column", "text"),
    [
        *(("at", text) for text in ("0000-00-00 00:00:00", "2024-02-30 00:00:00", "2024-02-29", "2024-02-29 24:00:00")),
        *(("day", text) for text in ("0000-00-00", "2024-2-29", "2024-02-30")),
        *(("took", text) for text in ("1:02:03.04", "01:02:03", "01:02:03.4", "01:02:03.045", "01:02", "1234:00:00.00", "01.02:03.04")),
    ],
)
def test_times_and_dates_that_are_not_as_the_server_prints_them_are_left(column: str, text: str) -> None:
    row = {"id": 1, "at": "2024-02-29 12:00:00.123", "seen": "2024-02-29 12:00:00", "day": "2024-02-29", "took": "-838:59:59.00"}
    record = {**without(MAXWELL, "old"), "type": "insert", "data": row}
    assert taken("maxwell", record, MOMENTS) is not None
    assert taken("maxwell", {**record, "data": {**row, column: text}}, MOMENTS) is None
