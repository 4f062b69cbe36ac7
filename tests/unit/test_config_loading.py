"""Pipeline files: what they say becomes core values, and is read again only when it changes."""

import os
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from cdc_ops.config import loading
from cdc_ops.config.fields.values import format_duration, format_size, parse_cron, parse_duration, parse_size
from cdc_ops.config.loading import load_pipeline, load_pipelines, read_folder
from cdc_ops.core.pipeline.pipeline import Execution, Pipeline, SourceKind
from cdc_ops.core.pipeline.table_settings import TableSettings
from cdc_ops.errors import ConfigError

ROOT = Path(__file__).resolve().parents[2]
HEAD = "source: {kind: mysql, connection: db}\ntarget: {root: /lake, staging: /staging}\n"
TABLES = "defaults: {cursor: updated_at}\ntables: {shop.orders: }\n"


def loaded(folder: Path, text: str, environ: dict[str, str] | None = None) -> Pipeline:
    path = folder / "shop.yaml"
    path.write_text(f"pipeline: shop\n{HEAD if 'source:' not in text else ''}{text}{TABLES if 'tables:' not in text else ''}")
    return load_pipeline(path, environ or {})


def settings(folder: Path, defaults: str, entry: str) -> TableSettings:
    return loaded(folder, f"defaults: {{cursor: updated_at, {defaults}}}\ntables: {{shop.orders: {entry}}}\n").tables[0].settings


def test_a_short_file_gets_the_defaults_of_core(tmp_path: Path) -> None:
    pipeline = loaded(tmp_path, "")
    assert pipeline == Pipeline(
        name="shop", source=pipeline.source, target=pipeline.target, tables=pipeline.tables, origin=str(tmp_path / "shop.yaml")
    )
    assert pipeline.source.kind is SourceKind.MYSQL
    assert pipeline.tables[0].settings == TableSettings.of(cursor=("updated_at",))
    assert pipeline.tables[0].origin == f"{tmp_path / 'shop.yaml'}:5"


def test_entries_go_over_the_defaults_field_by_field(tmp_path: Path) -> None:
    merged = settings(
        tmp_path,
        "keys: [a, b], lookback: 5s, properties: {x: '1', y: '1'}, maintenance: {min_small_files: 8, retention: 3d}",
        "{keys: id, properties: {y: '2', a: '0'}, maintenance: {retention: 4d}}",
    )
    assert merged.keys == ("id",)
    assert merged.load.lookback == timedelta(seconds=5)
    assert merged.storage.properties == (("a", "0"), ("x", "1"), ("y", "2"))
    assert (merged.storage.maintenance.min_small_files, merged.storage.maintenance.retention) == (8, timedelta(days=4))
    assert merged.storage.maintenance.vacuum_every == timedelta(days=1)


def test_an_entry_can_empty_a_list_of_the_defaults(tmp_path: Path) -> None:
    assert settings(tmp_path, "except_column_list: [notes]", "{except_column_list: []}").load.except_column_list == ()


def test_one_name_stands_for_a_list_of_one(tmp_path: Path) -> None:
    assert settings(tmp_path, "keys: id", "{cursor: modified}").load.cursor == ("modified",)


def test_entries_keep_the_order_of_the_file_and_null_means_the_defaults(tmp_path: Path) -> None:
    text = "defaults: {cursor: c}\ntables:\n  b.*:\n  a.x: {exclude: true}\n  a.*: {parallelism: 2}\n"
    rules = loaded(tmp_path, text).tables
    assert [(rule.pattern, rule.exclude, rule.settings.load.parallelism) for rule in rules] == [
        ("b.*", False, 4),
        ("a.x", True, 4),
        ("a.*", False, 2),
    ]


def test_sections_without_content_count_as_left_out(tmp_path: Path) -> None:
    assert loaded(tmp_path, "spark:\ndefaults:\ntables: {a.b: {cursor: id, maintenance: , properties: }}\n").spark.conf == ()


def test_words_that_other_yaml_versions_convert_stay_text(tmp_path: Path) -> None:
    assert settings(tmp_path, "lookback: 1s", "{keys: [no, on, y, 12:30, 2026-01-01, 0x1F, 1_000]}").keys == (
        "no", "on", "y", "12:30", "2026-01-01", "0x1F", "1_000",
    )  # fmt: skip


def test_dates_are_midnight_in_utc_and_instants_are_converted(tmp_path: Path) -> None:
    assert loaded(tmp_path, "start_date: 2026-02-01\n").start_date == datetime(2026, 2, 1, tzinfo=UTC)
    assert loaded(tmp_path, "start_date: '2026-02-01T01:00:00+02:00'\n").start_date == datetime(2026, 1, 31, 23, tzinfo=UTC)


def test_schedules_are_five_fields_and_presets_are_written_out(tmp_path: Path) -> None:
    assert loaded(tmp_path, "schedule: '@daily'\n").schedule == "0 0 * * *"
    assert parse_cron(" 0   6 * * mon-fri ") == "0 6 * * mon-fri"
    assert loaded(tmp_path, "").schedule == ""


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("500ms", 0.5),
        ("30s", 30),
        ("5 m", 300),
        ("1h30m", 5400),
        ("1.5h", 5400),
        ("2d", 172800),
        ("1w", 604800),
        ("PT30S", 30),
        ("P1DT2H", 93600),
        ("P2W", 1209600),
        ("0s", 0),
    ],
)
def test_durations_are_read_as_people_and_as_iso_8601_write_them(text: str, seconds: float) -> None:
    assert parse_duration(text) == timedelta(seconds=seconds)
    assert parse_duration(format_duration(timedelta(seconds=seconds))) == timedelta(seconds=seconds)


@pytest.mark.parametrize("text", ["", "s", "5", "5 years", "P", "PT", "P1M", "5s foo", "-5s", "1e3s", "9" * 12 + "w"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"duration|too long"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("value", "size"), [("128MiB", 128 * 1024**2), ("1.5 GiB", 3 * 1024**3 // 2), ("1GB", 10**9), (1048576, 1048576), ("7B", 7)]
)
def test_sizes_are_bytes_with_binary_or_decimal_units(value: object, size: int) -> None:
    assert parse_size(value) == size
    assert parse_size(format_size(size) if size % 1024 == 0 else size) == size


def test_variables_are_filled_in_and_defaults_stand_in_for_missing_and_empty_ones(tmp_path: Path) -> None:
    text = 'source: {kind: "${KIND}", connection: db}\ntarget: {root: "${ROOT:-/lake}/x", staging: "/s/${A}-${B:-}$${C}"}\n'
    text += "execution: ${E:-fused}\n"
    pipeline = loaded(tmp_path, text, {"KIND": "mariadb", "ROOT": "", "A": "a"})
    assert (pipeline.source.kind, pipeline.target.root, pipeline.target.staging) == (SourceKind.MARIADB, "/lake/x", "/s/a-${C}")
    assert pipeline.runs.execution is Execution.FUSED


def test_aliases_share_an_entry(tmp_path: Path) -> None:
    rules = loaded(tmp_path, "tables:\n  a.b: &big {cursor: id, parallelism: 8}\n  a.c: *big\n").tables
    assert [rule.settings.load.parallelism for rule in rules] == [8, 8]


def test_a_byte_order_mark_and_windows_line_ends_do_not_matter(tmp_path: Path) -> None:
    path = tmp_path / "shop.yaml"
    path.write_bytes(b"\xef\xbb\xbf" + f"pipeline: shop\n{HEAD}{TABLES}".replace("\n", "\r\n").encode())
    assert load_pipeline(path).tables[0].origin.endswith(":5")


def write(folder: Path, name: str, pipeline: str, rest: str = HEAD + TABLES) -> Path:
    (folder / name).write_text(f"# first line\npipeline: {pipeline}\n{rest}")
    return folder / name


def test_a_folder_gives_its_pipelines_by_name_and_not_those_below(tmp_path: Path) -> None:
    write(tmp_path, "1.yaml", "zoo")
    write(tmp_path, "2.yml", "ant")
    write(tmp_path, ".hidden.yaml", "bee")
    write(tmp_path, "notes.txt", "cow")
    (tmp_path / "examples").mkdir()
    write(tmp_path / "examples", "3.yaml", "dog")
    assert [pipeline.name for pipeline in load_pipelines(tmp_path)] == ["ant", "zoo"]


def test_two_files_with_one_pipeline_name_are_both_named(tmp_path: Path) -> None:
    first, second = write(tmp_path, "a.yaml", "shop"), write(tmp_path, "b.yaml", "shop")
    with pytest.raises(ConfigError) as caught:
        load_pipelines(tmp_path)
    assert str(caught.value).startswith(f"{second}:2:1: The pipeline name 'shop' is already used by {first}:2:1.")


def test_a_name_that_another_pipelines_reconcile_dag_has_is_refused(tmp_path: Path) -> None:
    write(tmp_path, "a.yaml", "shop", "reconcile_schedule: '0 3 * * *'\n" + HEAD + TABLES)
    second = write(tmp_path, "b.yaml", "shop_reconcile")
    contents = read_folder(tmp_path)
    assert [pipeline.name for pipeline in contents.pipelines] == ["shop"]
    [error] = contents.errors
    assert error.what.startswith(f"{second}:2:1: The pipeline name 'shop_reconcile' is that of the DAG that reconciles 'shop'")


def test_the_problems_of_all_files_are_in_one_error(tmp_path: Path) -> None:
    for name in ("a", "b"):
        write(tmp_path, f"{name}.yaml", name, HEAD.replace("kind", "knd") + TABLES)
    with pytest.raises(ConfigError) as caught:
        load_pipelines(tmp_path)
    assert str(caught.value).count("Unknown field 'knd'") == 2


def test_a_file_that_is_wrong_does_not_take_the_others_with_it(tmp_path: Path) -> None:
    write(tmp_path, "a.yaml", "good")
    write(tmp_path, "b.yaml", "bad", TABLES)
    contents = read_folder(tmp_path)
    assert [pipeline.name for pipeline in contents.pipelines] == ["good"]
    assert [error.what.partition(":")[0] for error in contents.errors] == [str(tmp_path / "b.yaml")]


def test_of_two_files_with_one_name_neither_is_used(tmp_path: Path) -> None:
    for name, pipeline in (("a", "shop"), ("b", "shop"), ("c", "other")):
        write(tmp_path, f"{name}.yaml", pipeline)
    contents = read_folder(tmp_path)
    assert ([pipeline.name for pipeline in contents.pipelines], len(contents.errors)) == (["other"], 1)


def test_a_file_is_read_again_when_and_only_when_it_or_its_variables_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reads: list[Path] = []
    read = Path.read_bytes
    monkeypatch.setattr(Path, "read_bytes", lambda self: reads.append(self) or read(self))  # type: ignore[func-returns-value]
    path = write(tmp_path, "shop.yaml", "shop", HEAD.replace("/lake", "'${LAKE:-/lake}'") + TABLES)
    first = load_pipeline(path, {"OTHER": "1"})
    assert load_pipeline(path, {"OTHER": "2"}) is first
    assert len(reads) == 1
    assert load_pipeline(path, {"LAKE": "/other"}).target.root == "/other"
    assert len(reads) == 2
    stamp = path.stat()
    path.write_text(path.read_text().replace("shop.orders", "shop.ordero"))
    os.utime(path, ns=(stamp.st_atime_ns, stamp.st_mtime_ns + 1))
    assert load_pipeline(path, {}).tables[0].pattern == "shop.ordero"


def test_equal_files_give_equal_values_whatever_the_order_of_their_mappings(tmp_path: Path) -> None:
    first = loaded(tmp_path, "spark: {conf: {spark.b: '1', spark.a: '2'}}\n")
    assert loaded(tmp_path, "spark: {conf: {spark.a: '2', spark.b: '1'}}\n") == first


def test_five_hundred_tables_load_at_once(tmp_path: Path) -> None:
    entries = "".join(
        f"  shop.t{n}: {{keys: [id], cursor: [updated_at, id], lookback: 5s, maintenance: {{retention: 3d}}}}\n" for n in range(500)
    )
    pipeline = loaded(tmp_path, f"tables:\n{entries}")
    assert len(pipeline.tables) == 500
    started = time.process_time()
    loading._cache.clear()
    load_pipeline(tmp_path / "shop.yaml")
    print(f"500 tables: {time.process_time() - started:.3f} s of CPU")


def test_neither_airflow_nor_spark_nor_pandas_is_imported() -> None:
    code = (
        "import sys, cdc_ops.config.loading as l, cdc_ops.config.fields.json_schema, cdc_ops.config.settings, cdc_ops.config.connections;"
        f"l.load_pipelines({str(ROOT / 'dags' / 'pipelines')!r});"
        "print([m for m in ('airflow', 'pyspark', 'delta', 'pandas', 'sqlalchemy', 'sqlglot', 'numpy') if m in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert ran.stdout.strip() == "[]"


def test_the_shipped_pipelines_load() -> None:
    (shop,) = load_pipelines(ROOT / "dags" / "pipelines", {"CDC_OPS_LAKE": "/lake", "CDC_OPS_STAGING": "/staging"})
    assert (shop.name, shop.source.kind, shop.source.connection) == ("shop", SourceKind.MARIADB, "shop_db")
    assert (shop.target.root, shop.target.staging) == ("/lake", "/staging")
    assert (shop.runs.execution, shop.schedule, shop.runs.tables_per_job) == (Execution.FUSED, "*/15 * * * *", 20)
    chosen = {rule.pattern: (rule.settings.keys, rule.settings.load.cursor, rule.settings.load.lookback) for rule in shop.tables}
    assert chosen == {
        "shop.sales": (("id",), ("modified",), timedelta(seconds=1)),
        "shop.orders": ((), ("updated_at", "id"), timedelta(seconds=1)),
    }


def test_a_cursor_and_an_order_may_be_calls_with_commas(tmp_path: Path) -> None:
    entry = "{cursor: 'COALESCE(a, b)', sequence_by: ['GREATEST(a, LEAST(b, c))', id]}"
    (tmp_path / "shop.yaml").write_text(
        "pipeline: shop\nsource: {kind: mysql, connection: shop_db}\ntarget: {root: /lake, staging: /staging}\n"
        f"tables:\n  shop.orders: {entry}\n"
    )
    (rule,) = load_pipeline(tmp_path / "shop.yaml", {}).tables
    assert rule.settings.load.cursor == ("COALESCE(a, b)",)
    assert rule.settings.order.sequence_by == ("GREATEST(a, LEAST(b, c))", "id")


def test_an_empty_cursor_is_a_decision_and_goes_over_the_defaults(tmp_path: Path) -> None:
    file = tmp_path / "shop.yaml"
    file.write_text(
        "pipeline: shop\nsource: {kind: mysql, connection: shop_db}\ntarget: {root: /data/lake, staging: /data/staging}\n"
        "defaults: {cursor: updated_at}\ntables:\n  shop.orders: {}\n  shop.codes: {cursor: []}\n"
    )
    assert {rule.pattern: rule.settings.load.cursor for rule in load_pipeline(file).tables} == {
        "shop.orders": ("updated_at",),
        "shop.codes": (),
    }
