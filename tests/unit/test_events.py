"""What formats declare of themselves, and what is refused of it before anything is read."""

from dataclasses import replace

import pytest

from cdc_ops.core.events.change_feed import feed_columns
from cdc_ops.core.events.format_spec import ColumnFilter, EventMarks, FormatOptions, FormatSpec, LossySetting, OrderField, RowImage, setting
from cdc_ops.core.formats.checks import check_format
from cdc_ops.core.schema.logical_types import LogicalType, fraction_digits, logical_type_of, trims_fractions
from cdc_ops.core.schema.server_types.mysql_types import mysql_mapping
from cdc_ops.core.schema.server_types.postgres_types import postgres_mapping
from cdc_ops.core.schema.tables import Column, TableName, TableSchema
from cdc_ops.core.schema.value_policies import OnUnstorable, TypePolicies
from cdc_ops.errors import ConfigError, SourceTableError
from cdc_ops.events.registry import format_spec

ROUNDS = LossySetting(
    name="decimals", safe=("exact",), default="rounded", loses="Digits.", remedy="Set decimals=exact.", families=(LogicalType.DECIMAL,)
)
CUTS = LossySetting(
    name="fractions",
    safe=("kept",),
    default="cut",
    loses="Fractions.",
    remedy="None.",
    families=(LogicalType.INSTANT,),
    only=ColumnFilter(only_fractions=True),
)


def column(name: str, declared: str, postgres: bool = False) -> Column:
    mapping = postgres_mapping(declared) if postgres else mysql_mapping(declared)
    assert mapping is not None
    return Column(name=name, source_type=declared, delta_type=mapping.delta_type, nullable=True, expression=name, lossy=mapping.lossy)


def schema(*declared: str) -> TableSchema:
    columns = (column("id", "int"), *(column(f"c{index}", kind) for index, kind in enumerate(declared)))
    return TableSchema(table=TableName(schema="shop", name="orders"), columns=columns, primary_key=("id",))


def spec_with(*lossy: LossySetting, **changes: object) -> FormatSpec:
    known = {
        "name": "mine", "tool": "Mine", "order": (OrderField(name="pos", type="bigint", meaning="a number"),), "images": RowImage.FULL,
        "marks": EventMarks(snapshot="", delete="", key_change="", truncate="", ddl=""), "lossy": lossy, **changes,
    }  # fmt: skip
    return FormatSpec(**known)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("declared", "family"),
    [
        ("tinyint(1)", LogicalType.INTEGER),
        ("int(10) unsigned", LogicalType.INTEGER),
        ("bigint(20) unsigned", LogicalType.UNSIGNED_BIGINT),
        ("decimal(10,2)", LogicalType.DECIMAL),
        ("decimal(65,30)", LogicalType.DECIMAL_TEXT),
        ("bit(64)", LogicalType.BIT),
        ("year(4)", LogicalType.YEAR),
        ("datetime(6)", LogicalType.WALL_CLOCK),
        ("timestamp", LogicalType.INSTANT),
        ("time(3)", LogicalType.TIME),
        ("enum('a','b')", LogicalType.ENUM),
        ("set('a','b')", LogicalType.SET),
        ("json", LogicalType.JSON),
        ("varbinary(16)", LogicalType.BINARY),
        ("multipoint", LogicalType.GEOMETRY),
        ("vector(3)", LogicalType.VECTOR),
        ("longtext", LogicalType.TEXT),
    ],
)
def test_columns_of_mysql_have_a_family(declared: str, family: LogicalType) -> None:
    assert logical_type_of(column("c", declared)) is family


@pytest.mark.parametrize(
    ("declared", "family"),
    [
        ("timestamp(3) without time zone", LogicalType.WALL_CLOCK),
        ("timestamp with time zone", LogicalType.INSTANT),
        ("time without time zone", LogicalType.TIME),
        ("numeric(10,2)", LogicalType.DECIMAL),
        ("numeric", LogicalType.DECIMAL_TEXT),
        ("boolean", LogicalType.BOOLEAN),
        ("bytea", LogicalType.BINARY),
        ("character(5)", LogicalType.PADDED_TEXT),
        ("character varying(5)", LogicalType.TEXT),
        ("bit(3)", LogicalType.BIT_TEXT),
        ("bit varying(3)", LogicalType.VARBIT),
        ("interval", LogicalType.INTERVAL),
        ("money", LogicalType.MONEY),
        ("point", LogicalType.SHAPE),
        ("integer[]", LogicalType.ARRAY),
        ("text[]", LogicalType.ARRAY),
        ("character(5)[]", LogicalType.ARRAY),
        ("shop.mood[]", LogicalType.ARRAY),
        ("numeric(5,2)[]", LogicalType.BENT_ARRAY),
        ("timestamp(3) with time zone[]", LogicalType.BENT_ARRAY),
        ("double precision[]", LogicalType.BENT_ARRAY),
        ("jsonb[]", LogicalType.BENT_ARRAY),
        ("time(3) with time zone", LogicalType.ZONED_TIME),
        ("bpchar", LogicalType.PADDED_TEXT),
        ("uuid", LogicalType.UUID),
        ("pg_lsn", LogicalType.INTERNAL),
        ("shop.mood", LogicalType.OTHER),
    ],
)
def test_columns_of_postgres_have_a_family(declared: str, family: LogicalType) -> None:
    assert logical_type_of(column("c", declared, postgres=True)) is family


def test_a_date_kept_as_text_is_a_moment() -> None:
    mapping = mysql_mapping("datetime(6)", TypePolicies(zero_dates=OnUnstorable.STRING))
    assert mapping is not None
    kept = Column(name="c", source_type="datetime(6)", delta_type=mapping.delta_type, nullable=True, expression="c")
    assert logical_type_of(kept) is LogicalType.MOMENT_TEXT


def test_fractions_are_those_that_the_source_prints() -> None:
    assert [fraction_digits(column("c", kind)) for kind in ("time", "datetime(3)", "timestamp(6)")] == [0, 3, 6]
    assert fraction_digits(column("c", "timestamp without time zone", postgres=True)) == 6
    assert trims_fractions(column("c", "time without time zone", postgres=True))
    assert not trims_fractions(column("c", "time(6)"))


def test_a_loss_is_refused_with_name_reason_and_what_to_set() -> None:
    with pytest.raises(ConfigError, match=r"decimals=rounded \(c0\) loses data of shop\.orders") as caught:
        check_format(spec_with(ROUNDS), FormatOptions(name="mine"), schema("decimal(10,2)"), ("id",))
    assert caught.value.why == "Digits."
    assert "Set decimals=exact." in caught.value.next
    assert "'decimals=rounded'" in caught.value.next


def test_a_loss_is_no_matter_where_it_does_not_touch_a_column_or_is_accepted_or_declared_away() -> None:
    check_format(spec_with(ROUNDS, CUTS), FormatOptions(name="mine"), schema("double", "timestamp"), ("id",))
    check_format(spec_with(ROUNDS), FormatOptions(name="mine", accept_losses=("decimals=rounded",)), schema("decimal(10,2)"), ("id",))
    check_format(spec_with(ROUNDS), FormatOptions(name="mine", settings={"decimals": "exact"}), schema("decimal(10,2)"), ("id",))
    with pytest.raises(ConfigError, match="fractions=cut"):
        check_format(spec_with(CUTS), FormatOptions(name="mine"), schema("timestamp(3)"), ("id",))


def test_maxwells_null_for_the_error_value_of_an_enum_is_a_loss_that_is_accepted_or_ruled_out() -> None:
    spec = format_spec("maxwell")
    settings = {"output_binlog_position": "true", "output_xoffset": "true", "ignore_producer_error": "false"}
    given = FormatOptions(name="maxwell", settings=settings, accept_losses=("truncate=dropped",), time_zone="UTC")
    check_format(spec, given, schema("int"), ("id",))
    with pytest.raises(ConfigError, match=r"enum_errors=null \(c0\) loses data of") as caught:
        check_format(spec, given, schema("enum('new','paid')"), ("id",))
    assert "sql_mode" in caught.value.next
    check_format(spec, replace(given, settings={**settings, "enum_errors": "none"}), schema("enum('new','paid')"), ("id",))


def test_a_loss_may_hang_on_a_mark_on_a_list_and_on_the_declared_type() -> None:
    mark = LossySetting(name="null", unsafe=("NULL", ""), default="NULL", loses="", remedy="")
    assert [mark.loses_at(value) for value in ("NULL", "", "\\N")] == [True, True, False]
    fields = LossySetting(name="add.fields", needs=("op", "pos"), default="", loses="", remedy="")
    assert [fields.loses_at(value) for value in ("", "op", "source.pos,op", "op, pos ,row")] == [True, True, False, False]
    large = LossySetting(
        name="lob", default="cut", loses="", remedy="", families=(LogicalType.TEXT,), only=ColumnFilter(declared=("text",))
    )
    assert [large.touches(column("c", kind)) for kind in ("text", "varchar(10)", "int")] == [True, False, False]


def test_unknown_settings_and_columns_that_cannot_be_carried_are_refused_by_name() -> None:
    with pytest.raises(ConfigError, match="does not know the setting decimal"):
        check_format(spec_with(ROUNDS), FormatOptions(name="mine", settings={"decimal": "exact"}), schema(), ("id",))
    blind = spec_with(unreadable={LogicalType.BINARY: "Bytes are left out."})
    with pytest.raises(SourceTableError, match="'c0'") as caught:
        check_format(blind, FormatOptions(name="mine"), schema("blob"), ("id",))
    assert caught.value.why == "Bytes are left out."


def test_local_instants_need_a_zone_that_is_not_ambiguous() -> None:
    local = spec_with(local_instants=True)
    check_format(local, FormatOptions(name="mine"), schema("datetime"), ("id",))
    with pytest.raises(ConfigError, match="time_zone"):
        check_format(local, FormatOptions(name="mine"), schema("timestamp"), ("id",))
    with pytest.raises(ConfigError, match="ambiguous"):
        check_format(local, FormatOptions(name="mine", time_zone="Europe/Berlin"), schema("timestamp"), ("id",))
    for zone, accept in (("UTC", ()), ("+08:00", ()), ("Europe/Berlin", ("ambiguous-local-time",))):
        check_format(local, FormatOptions(name="mine", time_zone=zone, accept_losses=accept), schema("timestamp"), ("id",))


def test_settings_fall_back_to_the_defaults_of_the_tool() -> None:
    assert setting(spec_with(ROUNDS), FormatOptions(name="mine"), "decimals") == "rounded"
    assert setting(spec_with(settings={"bytes": "hex"}), FormatOptions(name="mine"), "bytes") == "hex"
    assert setting(spec_with(ROUNDS), FormatOptions(name="mine", settings={"decimals": "exact"}), "decimals") == "exact"


def test_the_feed_has_typed_images_and_a_position_of_numbers() -> None:
    columns = dict(feed_columns(spec_with(), schema("decimal(10,2)"), ("id",)))
    assert columns["after"] == "struct<`id`: int, `c0`: decimal(10,2)>"
    assert columns["key"] == "struct<`id`: int>"
    assert columns["position"] == "struct<pos: bigint>"
