"""Values as Debezium spells them, at the borders of their types: decimals in base64, unsigned numbers, bytes, values that no type holds."""

import base64
import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from cdc_ops.core.events.format_spec import FormatOptions, RecordKind
from cdc_ops.core.schema.server_types.mysql_types import mysql_mapping
from cdc_ops.core.schema.server_types.postgres_types import postgres_mapping
from cdc_ops.core.schema.server_types.unsigned_bigints import too_large_column, widened
from cdc_ops.core.schema.tables import Column, TableName, TableSchema
from cdc_ops.core.schema.value_policies import OnUnstorable, TypePolicies
from cdc_ops.events.change import arrow_type
from cdc_ops.events.conversion.values import ValueTooLargeError, from_text
from cdc_ops.events.format import UNSTORABLE, NoValue
from cdc_ops.events.formats.debezium.schema_names import PRECISE, VARIABLE
from cdc_ops.events.parse import envelopes_of
from cdc_ops.events.record import FieldType, Record
from cdc_ops.events.registry import format_spec, open_format
from cdc_ops.events.table import TableReader

Kind = FieldType | None
PLAIN: Kind = FieldType("int64")
ZONED: Kind = FieldType("string", "io.debezium.time.ZonedTimestamp")
MICROS: Kind = FieldType("int64", "io.debezium.time.MicroTimestamp")


def column(declared: str, *, postgres: bool = False, types: TypePolicies | None = None) -> Column:
    mapping = postgres_mapping(declared) if postgres else mysql_mapping(declared, types or TypePolicies())
    assert mapping is not None
    return Column(name="c", source_type=declared, delta_type=mapping.delta_type, nullable=True, expression="c")


def in_bytes(number: int) -> str:
    """A whole number as Connect's Decimal has it: two's complement, most significant byte first, in base64."""
    length = max((number.bit_length() + 8) // 8, 1) if number >= 0 else ((number + 1).bit_length() + 8) // 8
    return base64.b64encode(number.to_bytes(length, "big", signed=True)).decode()


def shown(one: Column, value: Any) -> str | None:
    """A stored value as text: None for one that cannot be read, `LOST` for one that no stored type holds, bytes in hexadecimal digits."""
    if value.__class__ is NoValue:
        return "LOST" if value is UNSTORABLE else None
    stored = pa.array([value], arrow_type(one.delta_type))[0].as_py()
    return stored.hex().upper() if isinstance(stored, bytes) else str(stored).removesuffix("+00:00")


def values(
    one: Column, spelled: Sequence[tuple[str, Kind]], settings: dict[str, str] | None = None, accept_losses: tuple[str, ...] = ()
) -> list[str | None]:
    """What is stored of texts, as `shown` has it."""
    name = "debezium-postgres" if "zone" in one.source_type or one.source_type.startswith("numeric") else "debezium-mysql"
    form = open_format(FormatOptions(name=name, settings=settings or {}, accept_losses=accept_losses))
    return [shown(one, form.reader(one, kind).read(text)) for text, kind in spelled]


def feed_of(options: FormatOptions, schema: TableSchema, documents: Sequence[Any]) -> list[dict[str, Any]]:
    """The feed of some records, one a line."""
    form = open_format(options)
    records = [Record(json.dumps(document).encode(), "f", line) for line, document in enumerate(documents)]
    envelopes = [envelope for record in records for envelope in envelopes_of(form, record)]
    assert len(envelopes) == len(records)
    rows: list[dict[str, Any]] = TableReader(form, schema, ("id",)).read(records, envelopes).feed().to_pylist()
    return rows


def test_decimals_in_base64_have_all_their_digits_at_the_borders_of_8_and_of_16_bytes() -> None:
    exact: Kind = FieldType("bytes", PRECISE, 0)
    numbers = [0, 1, -1, 127, 128, -128, -129, 255, -256, 2**63 - 1, 2**63, -(2**63), -(2**63) - 1, 10**38 - 1, 1 - 10**38]
    assert values(column("decimal(38,0)"), [(in_bytes(number), exact) for number in numbers]) == [str(number) for number in numbers]
    small = [number for number in numbers if abs(number) < 10**18]
    assert values(column("decimal(18,0)"), [(in_bytes(number), exact) for number in small]) == [str(number) for number in small]
    beyond = [(in_bytes(number), exact) for number in (10**38, -(10**38), 2**127, -(2**127) - 1, 2**135)]
    assert values(column("decimal(38,0)"), beyond) == [None] * len(beyond)


def test_the_scale_of_a_decimal_is_the_one_of_its_record() -> None:
    scaled = ((12345, 2), (12345, 1), (1234500, 4), (1234567, 4), (-5, 3))
    spelled = [(in_bytes(number), FieldType("bytes", PRECISE, scale)) for number, scale in scaled]
    assert values(column("decimal(10,2)"), spelled) == ["123.45", "1234.50", "123.45", None, None]
    assert values(column("decimal(30,2)"), spelled) == ["123.45", "1234.50", "123.45", None, None]
    free: Kind = FieldType("struct", VARIABLE)
    scales = ((15, -2), (-15, 3), (7, 0))
    unbounded = [(f'{{"scale":{scale},"value":"{in_bytes(number)}"}}', free) for number, scale in scales]
    assert values(column("numeric", postgres=True), unbounded) == ["1500", "-0.015", "7"]


def test_each_of_the_records_that_are_read_together_has_the_scale_of_its_own_schema() -> None:
    table = TableSchema(
        table=TableName(schema="shop", name="t"),
        columns=(replace(column("int"), name="id"), replace(column("decimal(10,2)"), name="price")),
        primary_key=("id",),
    )
    scales, documents = (2, 1, 2, 0, 1), []
    for number, scale in enumerate(scales):
        price = {"field": "price", "type": "bytes", "name": PRECISE, "parameters": {"scale": str(scale)}}
        fields = [{"field": "after", "fields": [{"field": "id", "type": "int32"}, price]}]
        source = {"db": "shop", "table": "t", "file": "b.000001", "pos": number, "row": 0, "ts_ms": 1, "snapshot": "false"}
        row = {"id": number, "price": in_bytes(1230)}
        documents.append({"schema": {"fields": fields}, "payload": {"op": "c", "before": None, "after": row, "source": source}})
    feed = feed_of(FormatOptions(name="debezium-mysql"), table, documents)
    assert [str(row["after"]["price"]) for row in feed] == ["12.30", "123.00", "12.30", "1230.00", "123.00"]


def test_a_decimal_without_schema_is_read_only_where_the_pipeline_file_says_how() -> None:
    one, text = column("decimal(10,0)"), [("1234", None), (in_bytes(1234), None)]
    assert values(one, text) == [None, None]
    assert values(one, text, {"schemas.enable": "false", "decimal.handling.mode": "string"}) == ["1234", None]
    assert values(one, text, {"schemas.enable": "false", "decimal.handling.mode": "precise"})[1] == "1234"


def test_a_rounded_decimal_is_read_only_if_that_is_accepted() -> None:
    spelled: list[tuple[str, Kind]] = [("12.5", FieldType("double"))]
    assert values(column("decimal(10,2)"), spelled) == [None]
    assert values(column("decimal(10,2)"), spelled, accept_losses=("decimal.handling.mode=double",)) == ["12.50"]


def test_bits_that_are_all_zero_come_as_no_byte() -> None:
    kind: Kind = FieldType("bytes", "io.debezium.data.Bits")
    spelled: list[tuple[str, Kind]] = [("", kind), ("AQ==", kind), ("BA==", kind)]
    assert values(column("bit(3)", postgres=True), spelled) == ["000", "001", "100"]
    assert values(column("bit(3)"), spelled) == ["0", "1", "4"]


def test_an_unsigned_number_has_all_of_its_64_bits_in_either_mode() -> None:
    [one], numbers = widened((column("bigint unsigned"),)), [0, 1, 2**63 - 1, 2**63, 2**64 - 2, 2**64 - 1]
    wrapped = [(str(number - 2**64 if number >= 2**63 else number), PLAIN) for number in numbers]
    precise: list[tuple[str, Kind]] = [(in_bytes(number), FieldType("bytes", PRECISE, 0)) for number in numbers]
    assert values(one, wrapped) == [str(number) for number in numbers]
    assert values(one, precise) == [str(number) for number in numbers]
    unsaid = {"schemas.enable": "false", "bigint.unsigned.handling.mode": "precise"}
    assert values(one, [(text, None) for text, _ in precise], unsaid) == [str(number) for number in numbers]


@pytest.mark.parametrize("stored", ["bigint", "decimal(20,0)"])
def test_a_number_of_a_column_that_was_unsigned_when_its_table_was_loaded_keeps_its_sign(stored: str) -> None:
    signed = replace(column("bigint"), delta_type=stored)
    numbers = [-(2**63), -1, 0, 1234, 2**63 - 1]
    plain: list[tuple[str, Kind]] = [(str(number), PLAIN) for number in numbers]
    assert values(signed, plain) == [str(number) for number in numbers]
    without_schema = {"schemas.enable": "false", "bigint.unsigned.handling.mode": "precise"}
    assert values(signed, [(text, None) for text, _ in plain], without_schema) == [str(number) for number in numbers]
    before = [(in_bytes(number), FieldType("bytes", PRECISE, 0)) for number in (1, 2**63 - 1)]
    assert values(signed, before) == ["1", str(2**63 - 1)]
    assert values(signed, [("5.5", PLAIN), (str(2**63), PLAIN), ("no number", PLAIN)]) == [None, None, None]
    assert shown(signed, from_text(signed, "UTC")("-1")) == "-1"


@pytest.mark.parametrize("stored", ["bigint", "decimal(20,0)"])
def test_a_fraction_is_no_unsigned_number(stored: str) -> None:
    one = replace(column("bigint unsigned"), delta_type=stored)
    whole, none = ["5.0", "007", "+5", "5E3"], ["5.5", "-0.4", "5E-1", "18446744073709551616", "-18446744073709551617", "", "no number"]
    found = values(one, [(text, PLAIN) for text in (*whole, *none)])
    assert found == ["5", "7", "5", "5000", *(None for _ in none)]


def test_an_unsigned_number_that_its_bigint_does_not_hold_fails_and_names_the_column() -> None:
    one, fit = column("bigint unsigned"), [0, 1, 2**63 - 1]
    assert one.delta_type == "bigint"
    precise: list[tuple[str, Kind]] = [(in_bytes(number), FieldType("bytes", PRECISE, 0)) for number in fit]
    assert values(one, [*((str(number), PLAIN) for number in fit), *precise]) == [str(number) for number in (*fit, *fit)]
    assert values(one, [("no number", PLAIN)]) == [None]
    large: list[tuple[str, Kind]] = [(text, PLAIN) for text in ("-1", str(-(2**63)), str(2**63))]
    large += [(in_bytes(2**63), FieldType("bytes", PRECISE, 0))]
    for spelled in large:
        with pytest.raises(ValueTooLargeError) as failure:
            values(one, [("7", PLAIN), spelled])
        assert too_large_column(str(failure.value)) == "c"


def test_bytes_that_are_written_otherwise_than_the_pipeline_file_says_are_not_read() -> None:
    one, kept, text = column("varbinary(20)"), FieldType("bytes"), FieldType("string")
    digits, encoded = "deadbeef", base64.b64encode(bytes.fromhex("deadbeef")).decode()
    assert values(one, [(encoded, kept), (digits, text), (encoded, None)]) == ["DEADBEEF", None, "DEADBEEF"]
    assert values(one, [(digits, text), (encoded, kept)], {"binary.handling.mode": "hex"}) == ["DEADBEEF", "DEADBEEF"]
    url_safe = base64.urlsafe_b64encode(b"\xfb\xff\xbf").decode()
    assert values(one, [(url_safe, text)], {"binary.handling.mode": "base64-url-safe"}) == ["FBFFBF"]
    assert values(one, [(encoded, text)], {"binary.handling.mode": "base64"}) == ["DEADBEEF"]


def test_second_0_of_a_timestamp_is_its_zero_date_and_no_other_second_is() -> None:
    spelled = [("1970-01-01T00:00:00Z", ZONED), ("1970-01-01T00:00:01Z", ZONED), ("1969-12-31T23:59:59Z", ZONED)]
    assert values(column("timestamp"), spelled) == ["LOST", "1970-01-01 00:00:01", "1969-12-31 23:59:59"]
    kept = column("timestamp(3)", types=TypePolicies(zero_dates=OnUnstorable.STRING))
    assert values(kept, spelled) == ["0000-00-00 00:00:00.000", "1970-01-01 00:00:01.000", "1969-12-31 23:59:59.000"]


def test_a_moment_that_is_kept_as_text_has_its_columns_digits_whatever_its_writer_leaves_out() -> None:
    types = TypePolicies(zero_dates=OnUnstorable.STRING)
    spelled = {
        "timestamp(6)": ("2024-03-10 07:30:00", "2024-03-10 07:30:00.000000"),
        "datetime(3)": ("2024-03-10 07:30:00.120000", "2024-03-10 07:30:00.120"),
        "datetime(2)": ("0000-00-00 00:00:00.00", "0000-00-00 00:00:00.00"),
        "datetime": ("2024-03-10 07:30:00", "2024-03-10 07:30:00"),
        "date": ("2024-02-31", "2024-02-31"),
    }
    form = open_format(FormatOptions(name="mysql-binlog"))
    read = {kind: form.reader(column(kind, types=types), None).read(text) for kind, (text, _) in spelled.items()}
    assert read == {kind: text for kind, (_, text) in spelled.items()}


def test_an_instant_that_is_kept_as_text_is_in_utc_whatever_the_zone_of_its_tool() -> None:
    types = TypePolicies(zero_dates=OnUnstorable.STRING)
    zoned = replace(column("timestamp with time zone", postgres=True), delta_type="string")
    cases = [
        (column("timestamp(3)", types=types), "2024-07-01 12:00:00.5", "2024-07-01 10:00:00.500"),
        (column("timestamp", types=types), "2024-01-01 00:30:00", "2023-12-31 23:30:00"),
        (column("timestamp", types=types), "0000-00-00 00:00:00", "0000-00-00 00:00:00"),
        (column("datetime", types=types), "2024-07-01 12:00:00", "2024-07-01 12:00:00"),
        (zoned, "2024-07-01 12:00:00.5", "2024-07-01 10:00:00.5+00"),
        (zoned, "infinity", "infinity"),
    ]
    assert [from_text(one, "Europe/Berlin")(text) for one, text, _ in cases] == [text for _, _, text in cases]


def test_infinite_times_and_no_numbers_are_lost_and_not_bad() -> None:
    endless = [(str(size), MICROS) for size in (9223372036825200000, -9223372036832400000, 9223372036854775807, 0)]
    assert values(column("timestamp without time zone", postgres=True), endless) == ["LOST", "LOST", "LOST", "1970-01-01 00:00:00"]
    named: list[tuple[str, Kind]] = [(text, FieldType("string")) for text in ("NAN", "1.5")]
    assert values(column("numeric(5,2)", postgres=True), named) == ["LOST", "1.50"]


@pytest.mark.parametrize("policy", OnUnstorable)
def test_a_zero_date_is_what_the_policy_of_its_table_says(policy: OnUnstorable) -> None:
    types = TypePolicies(zero_dates=policy)
    born, key = replace(column("date", types=types), name="born"), replace(column("int"), name="id")
    schema = TableSchema(table=TableName(schema="shop", name="t"), columns=(key, born), primary_key=("id",), types=types)
    settings = {"output_binlog_position": "true", "output_xoffset": "true", "ignore_producer_error": "false"}
    options = FormatOptions(name="maxwell", settings=settings, accept_losses=("truncate=dropped",), time_zone="UTC")
    shared = {"database": "shop", "table": "t", "type": "insert", "ts": 1, "commit": True}
    days = ("0000-00-00", "2024-01-31", "2024-02-31")
    documents = [{**shared, "xid": n, "position": f"b.000001:{n}", "data": {"id": n, "born": day}} for n, day in enumerate(days, 1)]
    feed = feed_of(options, schema, documents)
    found = [(row["kind"], row["after"] and str(row["after"]["born"]), row["nulled"]) for row in feed]
    change = RecordKind.CHANGE.value
    match policy:
        case OnUnstorable.FAIL:
            assert [kind for kind, _, _ in found] == [RecordKind.BAD, change, RecordKind.BAD]
        case OnUnstorable.NULL:
            assert found == [(change, "None", ["born"]), (change, "2024-01-31", []), (change, "None", ["born"])]
        case OnUnstorable.STRING:
            assert found == [(change, "0000-00-00", []), (change, "2024-01-31", []), (change, "2024-02-31", [])]


LARGE = {
    "note": ("text", "__debezium_unavailable_value"),
    "raw": ("bytea", "X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ=="),
    "tags": ("text[]", ["__debezium_unavailable_value"]),
    "names": ("character varying(40)[]", ["__debezium_unavailable_value"]),
    "ids": ("bigint[]", list(b"__debezium_unavailable_value")),
    "counts": ("integer[]", list(b"__debezium_unavailable_value")),
    "refs": ("uuid[]", ["b68a35a7-17ad-35b3-af2a-ae46edb4545a"]),
}
"""Columns of Postgres that can be large: the type, and what the connector writes for a value that did not change."""


@pytest.mark.parametrize("form_name", ["debezium-postgres", "debezium-postgres-unwrapped"])
def test_a_large_value_that_did_not_change_is_left_out_whatever_its_type(form_name: str) -> None:
    columns = tuple(replace(column(kind, postgres=True), name=name) for name, (kind, _) in LARGE.items())
    schema = TableSchema(
        table=TableName(schema="public", name="big"), columns=(replace(column("int"), name="id"), *columns), primary_key=()
    )
    row: dict[str, Any] = {name: text for name, (_, text) in LARGE.items()}
    operations = [("u", 1), ("c", 2)]  # a changed key comes as an insert, which must have all values
    source = {"ts_ms": 1, "snapshot": "false", "schema": "public", "table": "big", "sequence": '["24","25"]', "lsn": 26}
    documents: list[dict[str, Any]]
    if form_name == "debezium-postgres":
        documents = [{"op": op, "before": None, "after": {"id": key, **row}, "source": source} for op, key in operations]
    else:
        documents = [
            {"id": key, **row, "__deleted": "false", "__op": op, "__lsn": 26, "__sequence": '["24","25"]'} for op, key in operations
        ]
    losses = [item for item in format_spec(form_name).lossy if item.loses_at(item.default)]
    settings = {item.name: item.safe[0] for item in losses if item.safe}
    settings |= {"add.fields": "op,lsn,sequence"} if "unwrapped" in form_name else {}
    accepted = tuple(item.accepted_by(item.default) for item in losses if not item.safe)
    options = FormatOptions(name=form_name, settings=settings, accept_losses=accepted)
    found = feed_of(options, schema, documents)
    assert found[0]["kind"] == RecordKind.CHANGE
    assert [name for name in found[0]["present"] if name != "id"] == []
    assert found[1]["kind"] == RecordKind.BAD
    assert "REPLICA IDENTITY FULL" in found[1]["reason"]
