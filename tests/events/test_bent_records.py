"""Records of tools that break one rule each: what is bad says why, and what is no change of the table is none."""

import json
from typing import Any

import pytest

from cdc_ops.core.events.format_spec import FormatOptions, RecordKind
from cdc_ops.core.schema.tables import TableSchema
from cdc_ops.events.change import ChangeBatch
from cdc_ops.events.parse import envelopes_of
from cdc_ops.events.record import NOT_JSON, Record
from cdc_ops.events.registry import open_format
from cdc_ops.events.table import TableReader, is_of
from tests.events.random_debezium import table_of

TABLE = table_of({"id": "bigint", "name": "varchar(9)", "rate": "double", "kind": "enum('new','paid')"}, ("id",))
ROW: dict[str, Any] = {"id": 1, "name": "Lee", "rate": 0.5, "kind": "new"}
SEQUENCE = '["24","25"]'

POSTGRES: dict[str, Any] = {
    "before": None,
    "after": ROW,
    "source": {"ts_ms": 1709283600000, "snapshot": "false", "schema": "shop", "table": "orders", "sequence": SEQUENCE, "lsn": 26},
    "op": "u",
}
FLAT: dict[str, Any] = {
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
FLAT_POSTGRES: dict[str, Any] = {**ROW, "__deleted": "false", "__op": "u", "__lsn": 26, "__sequence": SEQUENCE}

MAXWELL: dict[str, Any] = {
    "database": "shop",
    "table": "orders",
    "type": "update",
    "ts": 1709283600,
    "xid": 7,
    "commit": True,
    "position": "bin.000003:400",
}
MAXWELL |= {"data": ROW, "old": {"name": "Ann"}}
CANAL: dict[str, Any] = {"database": "shop", "table": "orders", "isDdl": False, "type": "UPDATE", "es": 1709283600000, "sql": ""}
CANAL |= {"data": [{"id": "1", "name": "Lee", "rate": "0.5", "kind": "new"}], "old": [{"name": "Ann"}]}
TICDC: dict[str, Any] = {**CANAL, "_tidb": {"commitTs": 417318403368288257}}

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
PLAIN: dict[str, Any] = {"debezium-postgres": POSTGRES, "debezium-mysql-unwrapped": FLAT, "debezium-postgres-unwrapped": FLAT_POSTGRES}
PLAIN |= {"maxwell": MAXWELL, "canal": CANAL, "ticdc-canal": TICDC}


def changed(record: dict[str, Any], **others: Any) -> dict[str, Any]:
    """A record with other members; `a.b` is the member `b` of `a`."""
    found: dict[str, Any] = json.loads(json.dumps(record))
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


def read(form: str, record: dict[str, Any] | bytes, table: TableSchema = TABLE, offset: int | None = 100) -> ChangeBatch | None:
    """The rows of a record; None if it is of another table."""
    text = record if isinstance(record, bytes) else json.dumps(record, ensure_ascii=False).encode()
    opened, one = open_format(OPTIONS[form]), Record(text, "f", 0, 0, offset)
    mine = [found for found in envelopes_of(opened, one) if is_of(found, table.table)]
    return TableReader(opened, table, ("id",)).read([one] * len(mine), mine) if mine else None


def position(form: str, record: dict[str, Any], offset: int | None = 100) -> dict[str, Any]:
    """Where a change stands."""
    batch = read(form, record, offset=offset)
    assert batch is not None
    [row] = batch.feed().to_pylist()
    assert row["kind"] == RecordKind.CHANGE, row["reason"]
    found: dict[str, Any] = row["position"]
    return found


def said(batch: ChangeBatch | None) -> str:
    """What a record comes to, in short."""
    if batch is None:
        return OTHER
    row = batch.feed().to_pylist()[0]
    if row["kind"] != RecordKind.CHANGE:
        return str(row["reason"] or row["kind"])
    lacks = [name for name in TABLE.names if name not in row["present"]] if row["op"] != "d" else []
    parts = [
        row["op"],
        "moved" if row["previous_key"] else "",
        f"without {','.join(lacks)}" if lacks else "",
        f"and {','.join(row['unmapped'])}" if row["unmapped"] else "",
        f"{len(batch)} rows" if len(batch) > 1 else "",
    ]
    return "; ".join(part for part in parts if part)


@pytest.mark.parametrize("form", PLAIN)
def test_a_record_as_it_nearly_always_is_is_a_whole_change(form: str) -> None:
    batch = read(form, PLAIN[form])
    assert batch is not None
    [row] = batch.feed().to_pylist()
    assert (row["op"], row["key"], row["after"], row["present"]) == ("u", {"id": 1}, ROW, [*ROW])


OTHER = "of another table"
BENT: dict[str, dict[str, Any]] = {
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
        "a text like the mark of a value that did not change, which MySQL's connector does not write": changed(
            FLAT, name="__debezium_unavailable_value"
        ),
    },
    "debezium-postgres-unwrapped": {
        "no sequence": without(FLAT_POSTGRES, "__sequence"),
        "a sequence that is none": changed(FLAT_POSTGRES, __sequence="24"),
        "no LSN": without(FLAT_POSTGRES, "__lsn"),
    },
}
BENT |= {
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


EXPECTED = {
    "debezium-postgres": {
        "another schema": OTHER,
        "another table": OTHER,
        "no LSN": "the record has no complete position",
        "an LSN beyond 64 bits": NOT_JSON,
        "a sequence that is none": "u",
        "a sequence of numbers": "u",
        "a sequence that is cut off": "u",
        "a commit beyond 64 bits": "u",
        "a moment beyond 64 bits": NOT_JSON,
        "a message": "unknown operation m",
        "a TRUNCATE": "t",
        "a value that did not change": "u; without name",
        "a key that moves": "u; moved",
        "a column too few": "u; without rate",
        "a column too many": "u; and more",
    },
    "debezium-mysql-unwrapped": {
        "another database": OTHER,
        "another table": OTHER,
        "a delete that the operation denies": "d",
        "a delete that the mark denies": "the record does not have all key columns",
        "a payload without a schema": "the record has an unknown operation: NULL",
        "a mark that is none": "u",
        "no operation": "the record has an unknown operation: NULL",
        "no number of the row": "the record has no complete position",
        "a place as text": "u",
        "no file": "the record has no complete position",
        "a connector that is none": "u",
        "a column too few": "u; without rate",
        "a column too many": "u; and more",
        "a member twice": NOT_JSON,
        "a text like the mark of a value that did not change, which MySQL's connector does not write": "u",
    },
    "debezium-postgres-unwrapped": {
        "no sequence": "the record has no complete position",
        "a sequence that is none": "u",
        "no LSN": "the record has no complete position",
    },
    "maxwell": {
        "another database": OTHER,
        "another table": OTHER,
        "a statement": "t",
        "a heartbeat": "control",
        "a key that moves": "u; moved",
        "what changed in a column that is none": "u",
        "no place": "u",
        "a place without a file": "u",
        "a place that is none": "u",
        "a column too few": "u; without rate",
        "a column too many": "u; and more",
        "a value that is an object": "u",
        "a zero that loses its sign": "u",
        "a moment beyond the year 9999": "u",
    },
    "canal": {
        "a statement": "ddl",
        "another type": "the message has an unknown type: QUERY",
        "another table": OTHER,
        "two rows": "u; 2 rows",
        "no row": "the message has an unknown type: UPDATE",
        "two rows before": "u",
        "a row that is in no array": NOT_JSON,
        "what changed in no array": NOT_JSON,
        "a key that moves": "u; moved",
        "a label that is none": "; ".join(
            f"column 'kind' of the {side} image: 1 cannot be read as enum('new','paid')" for side in ("before", "after")
        ),
        "a number that is none": "u",
        "a message that was cut": "the message was too large, so it has only the key of its row",
        "a message that is elsewhere": "the message was too large, so it has only the key of its row",
    },
    "ticdc-canal": {
        "no time of the commit": "the record has no complete position",
        "nothing of TiDB": "the record has no complete position",
    },
}


@pytest.mark.parametrize(("form", "what"), [(form, what) for form, found in BENT.items() for what in found])
def test_a_record_that_breaks_one_rule_is_bad_or_another_change(form: str, what: str) -> None:
    assert said(read(form, BENT[form][what])) == EXPECTED[form][what]


def test_the_offset_orders_rows_of_a_flat_record_that_does_not_say_mysql() -> None:
    vague = without(FLAT, "__connector")
    assert position("debezium-mysql-unwrapped", FLAT)["total_order"] == -1
    found = position("debezium-mysql-unwrapped", vague)
    assert found["total_order"] == found["offset"] == 100


def test_the_commit_before_orders_events_of_postgres_and_the_own_place_where_there_is_none() -> None:
    for sequence, commit in ((SEQUENCE, 24), ('[null,"25"]', 26), (None, 26)):
        found = position("debezium-postgres", changed(POSTGRES, **{"source.sequence": sequence}))
        assert found == {"commit_lsn": commit, "lsn": 26, "streamed": 1, "total_order": -1, "offset": 100}


def test_a_flat_delete_has_its_key_from_the_only_image() -> None:
    batch = read("debezium-mysql-unwrapped", changed(FLAT, __deleted="true", __op="d"))
    assert batch is not None
    [row] = batch.feed().to_pylist()
    assert (row["op"], row["key"], row["after"]) == ("d", {"id": 1}, None)


def test_a_message_of_canal_needs_its_offset_and_one_of_ticdc_does_not() -> None:
    assert said(read("canal", CANAL, offset=None)) == "the record has no complete position"
    assert position("canal", CANAL) == {"offset": 100, "element": 0}
    assert position("ticdc-canal", TICDC, offset=None) == {"commit_ts": 417318403368288257, "offset": -1, "element": 0}


def test_the_last_row_of_a_transaction_of_maxwell_stands_behind_the_others_and_rows_of_a_bootstrap_before() -> None:
    rows = (MAXWELL, changed(MAXWELL, commit=False), changed(MAXWELL, xoffset=3), changed(MAXWELL, type="bootstrap-insert"))
    places = [position("maxwell", record) for record in rows]
    assert [(place["streamed"], place["xoffset"]) for place in places] == [(1, 2**62), (1, -1), (1, 3), (0, 2**62)]
