"""What formats declare, apart from the code that reads them: names, settings, blocks to copy, and what a file is told at once."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cdc_ops.cli import app
from cdc_ops.config.loading import load_pipeline
from cdc_ops.core.events.format_spec import FormatOptions, FormatSpec, Where
from cdc_ops.core.formats.checks import check_format, check_settings, losses
from cdc_ops.core.formats.demanded_settings import archive_settings, only_accepted
from cdc_ops.core.schema.server_types.mysql_types import mysql_mapping
from cdc_ops.core.schema.tables import Column, TableName, TableSchema
from cdc_ops.errors import ConfigError
from cdc_ops.events.registry import FORMAT_SPECS, configuration, format_spec, open_format
from tests.declared_world import MAXWELL, DeclaredWorld

FLAT = [name for name in FORMAT_SPECS if "-unwrapped" in name and "mongodb" not in name]
RELATIONAL = [name for name in FORMAT_SPECS if name.startswith("debezium-") and "mongodb" not in name]
FILE = """\
pipeline: shop
source: {{kind: mysql, connection: shop_db}}
target: {{root: /lake, staging: /staging}}
archive:
  url: /archive
  format: {name}
  settings: {settings}
  accept_losses: {accept_losses}
tables:
  shop.orders: {{method: {method}{cursor}}}
"""


def schema(**columns: str) -> TableSchema:
    found = []
    for name, declared in columns.items():
        mapping = mysql_mapping(declared)
        assert mapping is not None
        found.append(Column(name=name, source_type=declared, delta_type=mapping.delta_type, nullable=True, expression=name))
    return TableSchema(table=TableName(schema="shop", name="orders"), columns=tuple(found), primary_key=("id",))


def stated(spec: FormatSpec, **more: str) -> FormatOptions:
    """All that `formats show` prints, and settings besides."""
    accept = tuple(item.accepted_by(item.default) for item in only_accepted(spec))
    return FormatOptions(name=spec.name, settings={**archive_settings(spec), **more}, accept_losses=accept, time_zone="UTC")


def error_text(folder: Path, name: str, settings: dict[str, str], accept_losses: tuple[str, ...] = (), method: str = "log") -> str:
    """What a file is told; nothing for one that is right."""
    path, cursor = folder / "shop.yaml", "" if method == "log" else ", cursor: []"
    path.write_text(
        FILE.format(
            name=f"{name}\n  layout: binlog" if name == "mysql-binlog" else name,
            settings=json.dumps(settings),
            accept_losses=json.dumps(accept_losses),
            method=method,
            cursor=cursor,
        )
    )
    try:
        load_pipeline(path, {})
    except ConfigError as error:
        return str(error)
    return ""


def test_the_code_that_reads_a_format_goes_by_the_same_facts() -> None:
    for name in FORMAT_SPECS:
        assert open_format(FormatOptions(name=name)).spec is format_spec(name), name


@pytest.mark.parametrize("name", FORMAT_SPECS)
def test_what_formats_show_prints_is_enough_for_every_table(name: str, tmp_path: Path) -> None:
    spec = format_spec(name)
    options = stated(spec)
    check_settings(spec, options)
    assert not error_text(tmp_path, name, dict(options.settings), options.accept_losses)
    if "mongodb" in name or name.startswith("hudi"):
        return
    table = schema(id="bigint", price="decimal(10,2)", at="datetime(6)", born="date", name="varchar(20)", raw="int")
    check_format(spec, options, table, ("id",))


@pytest.mark.parametrize("name", FLAT)
def test_a_flattened_format_demands_that_the_transformation_keeps_null(name: str) -> None:
    spec, table = format_spec(name), schema(id="bigint")
    options = stated(spec)
    without = {key: value for key, value in options.settings.items() if key != "replace.null.with.default"}
    for settings in (without, without | {"replace.null.with.default": "true"}):
        with pytest.raises(ConfigError, match=r"replace\.null\.with\.default=true loses data"):
            check_format(spec, FormatOptions(name=name, settings=settings, accept_losses=options.accept_losses), table, ("id",))
    check_format(spec, options, table, ("id",))


@pytest.mark.parametrize(
    ("name", "keys", "warned"),
    [
        ("debezium-mysql-unwrapped", "[name]", True),
        ("debezium-mysql-unwrapped", "[ID, name]", True),
        ("debezium-mysql-unwrapped", "[id]", False),
        ("debezium-postgres", "[name]", True),
        ("debezium-mysql", "[name]", False),
    ],
)
def test_a_plan_warns_of_keys_whose_changes_no_event_shows(tmp_path: Path, name: str, keys: str, warned: bool) -> None:
    world, options = DeclaredWorld(tmp_path), stated(format_spec(name))
    world.correct(MAXWELL, f"format: {name}, settings: {json.dumps(options.settings)}, accept_losses: {json.dumps(options.accept_losses)}")
    world.correct("dialect: mysql", f"dialect: {'postgres' if 'postgres' in name else 'mysql'}")
    world.correct("  shop.orders:\n", f"  shop.orders: {{keys: {keys.lower()}}}\n")
    world.archive(0)
    found = [text for text in world.plan(freeze=False).warnings if "leaves the row under its old key" in text]
    assert len(found) == warned
    assert not found or ("'name'" in found[0] and "its primary key is (id)" in found[0])


def test_what_a_format_loses_of_a_column_is_refused_by_the_plan(tmp_path: Path) -> None:
    """The file alone does not tell it: nothing is wrong with these settings for other columns."""
    world = DeclaredWorld(tmp_path)
    world.archive(0)
    assert world.plan(freeze=False).new.operations
    world.correct("name: varchar(40)", "name: \"enum('new','paid')\"")
    assert load_pipeline(world.file, {}).name == "shop"
    with pytest.raises(ConfigError, match=r"enum_errors=null \(name\) loses data of shop\.orders"):
        world.plan(freeze=False)


def test_the_converters_setting_of_that_name_is_not_taken_for_the_transformations() -> None:
    spec = format_spec("debezium-mysql-unwrapped")
    assert {"converter.replace.null.with.default", "replace.null.with.default"} <= set(archive_settings(spec))
    block = configuration(spec).tool
    assert block["transforms.unwrap.replace.null.with.default"] == "false"
    assert block["value.converter.replace.null.with.default"] == "false"


@pytest.mark.parametrize("name", RELATIONAL)
def test_a_connector_that_goes_on_after_a_value_it_cannot_convert_is_refused(name: str) -> None:
    spec, table = format_spec(name), schema(id="bigint")
    options = stated(spec)
    without = {key: value for key, value in options.settings.items() if key != "event.converting.failure.handling.mode"}
    with pytest.raises(ConfigError, match=r"event\.converting\.failure\.handling\.mode=warn"):
        check_format(spec, FormatOptions(name=name, settings=without, accept_losses=options.accept_losses), table, ("id",))


@pytest.mark.parametrize("setting", ["column.mask.with.8.chars", "column.mask.hash.v2.SHA-256.with.salt.x", "column.truncate.to.20.chars"])
def test_settings_that_change_values_are_refused_whatever_their_names_end_with(setting: str) -> None:
    spec, table = format_spec("debezium-mysql"), schema(id="bigint", name="varchar(20)")
    options = stated(spec, **{setting: "shop.orders.name"})
    with pytest.raises(ConfigError, match=setting.replace(".", r"\.")):
        check_format(spec, options, table, ("id",))
    accepted = FormatOptions(name=options.name, settings=options.settings, accept_losses=(f"{setting}=shop.orders.name",))
    check_format(spec, accepted, table, ("id",))


def test_without_schemas_what_no_record_shows_has_to_be_stated() -> None:
    spec, table = format_spec("debezium-mysql"), schema(id="bigint", price="decimal(10,0)", at="datetime(6)", code="binary(4)")
    base = stated(spec, **{"schemas.enable": "false"})
    accept = (*base.accept_losses, "schemas.enable=false")
    bare = FormatOptions(name=base.name, settings=base.settings, accept_losses=accept)
    names = {"decimal.handling.mode", "time.precision.mode", "binary.handling.mode"}
    assert {one.name for one in losses(spec, bare, table)} == names
    said = {"decimal.handling.mode": "string", "time.precision.mode": "adaptive_time_microseconds", "binary.handling.mode": "hex"}
    check_format(spec, FormatOptions(name=base.name, settings={**base.settings, **said}, accept_losses=accept), table, ("id",))
    check_format(spec, FormatOptions(name=base.name, settings=base.settings, accept_losses=accept), schema(id="bigint"), ("id",))


def test_all_that_is_wrong_with_a_table_is_told_at_once() -> None:
    spec = format_spec("debezium-mysql")
    table = schema(id="bigint", price="decimal(10,2)", share="float", at="datetime(3)", spot="vector(3)")
    options = FormatOptions(
        name=spec.name, settings={"skiped.operations": "none", "decimal.handling.mode": "double", "time.precision.mode": "connect"}
    )
    with pytest.raises(ConfigError) as caught:
        check_format(spec, options, table, ("id",))
    text = str(caught.value)
    expected = (
        *("skiped.operations", "Did you mean 'skipped.operations'?", "skipped.operations=t", "decimal.handling.mode=double (price)"),
        *("time.precision.mode=connect (at)", "snapshot.mode=initial (share)", "converter.replace.null.with.default=true"),
        *("event.converting.failure.handling.mode=warn", "enable.time.adjuster=true (at)", "'spot'", "formats show debezium-mysql"),
    )
    assert [part for part in expected if part not in text] == []


def test_validate_names_a_format_that_there_is_not_with_its_line_and_the_nearest(tmp_path: Path) -> None:
    text = error_text(tmp_path, "debezium-msql", {})
    assert "shop.yaml:6" in text
    assert "Format 'debezium-msql' does not exist. Did you mean 'debezium-mysql'?" in text
    assert not error_text(tmp_path, "my_package.my_format:make", {"anything": "goes"})


def test_validate_names_all_settings_that_are_unknown_missing_or_accepted_in_vain(tmp_path: Path) -> None:
    text = error_text(tmp_path, "debezium-mysql", {"skiped.operations": "none"}, ("truncate=dropped",))
    expected = (
        *("does not know the setting 'skiped.operations'. Did you mean 'skipped.operations'?", "'truncate=dropped'"),
        *("skipped.operations=t:", "converter.replace.null.with.default=true:", "event.converting.failure.handling.mode=warn:"),
        "cdc-ops formats show debezium-mysql",
    )
    assert [part for part in expected if part not in text] == []


def test_validate_demands_nothing_of_an_archive_that_no_table_reads(tmp_path: Path) -> None:
    assert not error_text(tmp_path, "debezium-mysql", {}, method="query")


def test_a_value_to_copy_is_one_that_loses_nothing() -> None:
    looked_at = 0
    for spec in FORMAT_SPECS.values():
        for name, value in archive_settings(spec).items():
            [item] = [item for item in spec.lossy if item.name == name]
            assert not item.loses_at(value), (spec.name, name)
            looked_at += 1
    assert looked_at > 50


def test_blocks_for_connectors_hold_what_is_demanded_of_each() -> None:
    for name in RELATIONAL:
        spec = format_spec(name)
        blocks = {**configuration(spec).sink, **configuration(spec).tool}
        for item in spec.lossy:
            if item.loses_at(item.default) and not item.only.declared and item.where is not Where.NOWHERE:
                assert not item.loses_at(blocks[item.written or item.name]), (name, item.name)


def test_the_command_line_shows_formats_with_blocks_that_are_json() -> None:
    listed = CliRunner().invoke(app, ["formats", "list"])
    assert listed.exit_code == 0
    assert all(name in listed.output for name in FORMAT_SPECS)
    shown = CliRunner().invoke(app, ["formats", "show", "debezium-mysql"])
    assert shown.exit_code == 0
    for part in ("format: debezium-mysql", 'skipped.operations: "none"', "MySqlConnector", "S3SinkConnector", "vector"):
        assert part in shown.output
    start = shown.output.index("{")
    block, _ = json.JSONDecoder().raw_decode(shown.output[start:])
    assert block["config"] == configuration(format_spec("debezium-mysql")).tool
    data = json.loads(CliRunner().invoke(app, ["formats", "show", "debezium-mysql", "--json"]).output)
    assert data["blocks"]["tool"] == block["config"]


def test_the_command_line_names_the_nearest_format() -> None:
    result = CliRunner().invoke(app, ["formats", "show", "debezium-msql"])
    assert result.exit_code == 2
    assert "Did you mean 'debezium-mysql'?" in result.output
