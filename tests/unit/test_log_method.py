"""Where the log method joins plan, protocol and statement: pure, or on a folder and SQLite."""

import os
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from unittest.mock import Mock

import pytest

from cdc_ops.core.apply.deletes import DELETE_MARK
from cdc_ops.core.archive.file_names import DmsName, KafkaName, Layout, parse_name
from cdc_ops.core.archive.files import FileRecord, FileStatus, ListedFile
from cdc_ops.core.archive.watermarks import ArchiveWatermark, Gap, OffsetRange, PartitionWatermark
from cdc_ops.core.operation.log_batch import PRESENT, LogBatch, LogBatchResult
from cdc_ops.core.operation.merging.merge_plan import plan_merge
from cdc_ops.core.operation.operation import Operation
from cdc_ops.core.operation.protocol.commit_json import parse_record, render_record
from cdc_ops.core.operation.protocol.commit_record import commit_record
from cdc_ops.core.operation.protocol.table_progress import TableProgress
from cdc_ops.core.operation.protocol.table_state import Phase, TableState, committed, rebuilt
from cdc_ops.core.operation.results import Manifest
from cdc_ops.core.pipeline.archive_config import ArchiveConfig, OnGap
from cdc_ops.core.pipeline.pipeline import Pipeline, SourceConfig, SourceKind, TableRule, TargetConfig
from cdc_ops.core.pipeline.table_settings import Method, TableSettings
from cdc_ops.core.pipeline.tables.table_matching import resolve_tables
from cdc_ops.core.reconcile.diff import CompareLevel, CompareSpec, DeleteGuard
from cdc_ops.core.schema.tables import TableName
from cdc_ops.lake.merge.sql import merge_statement
from cdc_ops.state.sql import SqlStateStore, open_store
from cdc_ops.steps.archive.frozen_files import record_consumed, record_frozen, record_scan
from cdc_ops.steps.archive.scan import scan_archive
from cdc_ops.steps.planning import gap_recovery
from cdc_ops.steps.planning.gap_recovery import draft_gap_recovery, recovers_by_query
from cdc_ops.steps.planning.log import collects_unknown_tables, first_files
from cdc_ops.steps.planning.request import Draft
from tests.operations import with_fields
from tests.state_values import NOON, PIPELINE, make_operation, take

AT_NINE = ArchiveWatermark(streams=(PartitionWatermark(stream="t/0", to=(9,)),))
BATCH = LogBatch(archive=ArchiveConfig(url="/a"), url="/a", files=(), before=ArchiveWatermark())


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqlStateStore]:
    with open_store(f"sqlite:///{tmp_path}/ledger.db") as opened:
        yield opened


def log_spec(**changes: object) -> Operation:
    return with_fields(make_operation(), log=BATCH, **changes)


def manifest(**reading: object) -> Manifest:
    return Manifest.of(
        operation_id=make_operation().operation_id,
        attempt="a",
        rows=1,
        bytes=1,
        schema_fingerprint="",
        log=LogBatchResult(watermark=AT_NINE).changed(**reading),
    )


def test_the_watermark_that_the_commit_carries_is_the_one_that_reading_proved() -> None:
    state = TableState(pipeline=PIPELINE, table=make_operation().table)
    done = log_spec(archive_after=AT_NINE)
    record = parse_record(render_record(commit_record(done, rows=1, package_version="1")))
    assert record is not None
    assert record.progress.archive == AT_NINE
    after = committed(state, log_spec(), 4, record.progress.archive)  # the ledger's own copy of the operation did not know it yet
    assert (after.progress.archive, rebuilt(record, 4).progress.archive) == (AT_NINE, AT_NINE)
    assert committed(after, log_spec(), 4, record.progress.archive) == after
    later = committed(after, with_fields(make_operation(2), archive_after=AT_NINE), 5, AT_NINE)  # a resync leaves it where it is
    assert later.progress.archive == AT_NINE


def test_events_delete_rows_and_a_truncate_takes_all_others() -> None:
    plan = plan_merge(log_spec(), manifest(truncates=((3, 4),)))
    assert plan.batch_columns == ("id", DELETE_MARK)
    assert merge_statement("t1", "s1", plan) == (
        "MERGE INTO t1 t USING s1 s ON t.`id` = s.`id`\n"
        f"WHEN MATCHED AND s.`{DELETE_MARK}` THEN DELETE\n"
        f"WHEN NOT MATCHED AND NOT s.`{DELETE_MARK}` THEN INSERT (`id`) VALUES (s.`id`)\n"
        "WHEN NOT MATCHED BY SOURCE AND (true) THEN DELETE"
    )


def test_columns_that_no_event_spoke_of_stay_and_rows_that_are_not_known_as_a_whole_are_not_inserted() -> None:
    named = replace(make_operation().source.schema.columns[0], name="it's")
    wide = with_fields(log_spec(), schema=replace(make_operation().source.schema, columns=(*make_operation().source.schema.columns, named)))
    assert plan_merge(wide, manifest()).present == ""
    statement = merge_statement("t1", "s1", plan_merge(wide, manifest(partial=1)))
    known = rf"IF(s.`{PRESENT}` IS NULL OR array_contains(s.`{PRESENT}`, 'it\'s'), s.`it's`, t.`it's`)"
    assert f"UPDATE SET t.`it's` = {known}" in statement
    assert f"VALUES (IF(s.`{PRESENT}` IS NULL OR array_contains(s.`{PRESENT}`, ''), s.`id`, raise_error(" in statement


def test_a_run_takes_the_first_files_of_each_partition() -> None:
    names = [KafkaName(path=f"{part}-{at}", topic="t", partition=part, start_offset=at, digits=1) for part in (0, 1) for at in (0, 10, 5)]
    files = tuple(ListedFile(path=name.path, size=1) for name in names)
    assert first_files(files, names, 6) == files
    assert [file.path for file in first_files(files, names, 4)] == ["0-0", "0-5", "1-0", "1-5"]
    assert [file.path for file in first_files(files, names, 1)] == ["0-0", "1-0"]


def test_the_full_load_of_dms_is_read_before_the_changes_and_a_file_of_it_that_waits_holds_them_back(
    store: SqlStateStore, tmp_path: Path
) -> None:
    from cdc_ops.archives.local import LocalArchive

    paths = ("2024/01/02/20240102-000000000.csv", "2024/01/01/20240101-000000000.csv", "LOAD0000000A.csv", "LOAD00000009.csv")
    names = [name for path in paths if isinstance(name := parse_name(Layout.AWS_DMS, path), DmsName)]
    files = tuple(ListedFile(path=path, size=1) for path in paths)
    assert [file.path for file in first_files(files, names, 2)] == ["LOAD00000009.csv", "LOAD0000000A.csv"]
    assert [file.path for file in first_files(files, names, 3)] == [paths[1], "LOAD00000009.csv", "LOAD0000000A.csv"]

    archive, table = tmp_path / "archive", TableName(schema="shop", name="t")
    for path in paths:
        (archive / path).parent.mkdir(parents=True, exist_ok=True)
        (archive / path).write_bytes(b"id\n")
        os.utime(archive / path, (1, 1))
    (archive / paths[2]).touch()
    rules = ArchiveConfig.of(layout=Layout.AWS_DMS, min_file_age=timedelta(hours=1))
    found = scan_archive(LocalArchive(str(archive)), rules, store, (PIPELINE, table), None)
    assert [file.path for file in found.files.files] == ["LOAD00000009.csv"]


def test_what_the_ledger_calls_consumed_is_read_again_after_the_lake_was_set_back(store: SqlStateStore, tmp_path: Path) -> None:
    from cdc_ops.archives.local import LocalArchive

    archive, table = tmp_path / "archive", TableName(schema="shop", name="t")
    for offset in (0, 10, 20):
        path = archive / f"t/partition=0/t+0+{offset:010}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"\n" * 10)
    rules, opened = ArchiveConfig.of(layout=ArchiveConfig().files.layout, min_file_age=timedelta(0)), LocalArchive(str(archive))
    lease = take(store, table=table)
    found = scan_archive(opened, rules, store, (PIPELINE, table), None)
    record_scan(store, lease, found)
    operation = with_fields(make_operation(table=table), log=replace(BATCH, files=found.files.files))
    record_frozen(store, lease, operation, NOON)
    covers = tuple(
        OffsetRange(file=file.path, stream="t/0", low=(at,), high=(at + 10,))
        for file, at in zip(found.files.files, (0, 10, 20), strict=True)
    )
    all_of_it = LogBatchResult(watermark=AT_NINE, covers=covers, merged=tuple(file.path for file in found.files.files))
    record_consumed(store, lease, operation, all_of_it, NOON)

    def next_files(reached: int) -> list[str]:
        watermark = ArchiveWatermark(streams=(PartitionWatermark(stream="t/0", to=(reached,)),))
        return [file.path[-7:] for file in scan_archive(opened, rules, store, (PIPELINE, table), watermark, full=True).files.files]

    assert next_files(30) == []
    assert next_files(10) == ["10.json", "20.json"]


def test_files_behind_a_gap_wait_with_what_is_in_them(store: SqlStateStore) -> None:
    files = tuple(ListedFile(path=f"t/partition=0/t+0+{at:010}.json", size=1) for at in (0, 20))
    operation = with_fields(make_operation(), log=replace(BATCH, files=files))
    lease = take(store)
    record_frozen(store, lease, operation, NOON)
    covers = tuple(OffsetRange(file=file.path, stream="t/0", low=(at,), high=(at + 10,)) for file, at in zip(files, (0, 20), strict=True))
    record_consumed(store, lease, operation, LogBatchResult(watermark=AT_NINE, covers=covers, merged=(files[0].path,)), NOON)
    known: dict[str, FileRecord] = dict(store.archive_files(PIPELINE, operation.table))
    assert [(known[file.path].status, known[file.path].covers) for file in files] == [
        (FileStatus.CONSUMED, covers[:1]),
        (FileStatus.WAITING, covers[1:]),
    ]


@pytest.mark.parametrize(
    ("url", "expected"), [("/a", ["s.b"]), ("/a/{schema}", ["s.b", "t.a"]), ("/a/{schema}.{table}", ["s.b", "s.c", "t.a"])]
)
def test_one_table_of_each_folder_looks_after_records_of_unknown_tables(url: str, expected: list[str]) -> None:
    """The first by name of those that are fed from it: not one that is excluded, or read by query."""
    log = TableSettings.of(method=Method.LOG)
    rules = (
        TableRule(pattern="*", settings=log),
        TableRule(pattern="s.a*", settings=log, exclude=True),
        TableRule(pattern="a.a", settings=TableSettings.of(cursor=("at",))),
    )
    pipeline = Pipeline(
        name="shop",
        source=SourceConfig(kind=SourceKind.MARIADB, connection="shop_db"),
        target=TargetConfig(root="/lake", staging="/staging"),
        tables=rules,
        archive=ArchiveConfig.of(url=url, format="debezium-mysql"),
    )
    names = [TableName.parse(name) for name in ("t.a", "s.c", "s.b", "s.a", "a.a")]
    looking = []
    for config in resolve_tables(pipeline, names):
        if config.settings.method is Method.LOG:
            facts = Mock(pipeline=pipeline, config=config)
            looking += [str(config.table)] if collects_unknown_tables(Mock(source_table=facts, tables=lambda: tuple(names))) else []
    assert looking == expected


@pytest.mark.parametrize(
    ("gtids", "versions", "expected"),
    [("", False, True), ("server 1; ", False, True), ("", True, False), (f"{'a' * 36}:1-5", False, False)],
)
def test_a_gap_is_healed_where_one_comparison_can_stand_for_it(gtids: str, versions: bool, expected: bool) -> None:
    """Not for tables of versions, and not for sets of transactions, of which one comparison must not pass two gaps."""
    state = Mock(progress=TableProgress(archive=replace(AT_NINE, gtids=gtids)), phase=Phase.READY)
    facts = Mock(stored_as=Mock(keeps_versions=versions), pipeline=Mock(archive=ArchiveConfig(on_gap=OnGap.RECONCILE)))
    gap = Gap(stream="t/0", low=(9,), high=(12,))
    assert recovers_by_query(Mock(source_table=facts, state=state), (gap,)) is expected
    assert not recovers_by_query(Mock(source_table=facts, state=state), ())


def test_one_comparison_passes_the_first_gap_of_each_stream_and_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is merged from between two gaps may set back rows that the second one changed: that one needs a comparison of its own."""
    compare = CompareSpec(strength=CompareLevel.WHOLE, buckets=None, readers=1, guard=DeleteGuard())
    monkeypatch.setattr(
        gap_recovery,
        "draft_comparison",
        lambda order, heals: Draft(operations=(with_fields(make_operation(), compare=replace(compare, heals=heals)),)),
    )
    ranges = [("t/0", 30, 40), ("t/0", 9, 12), ("t/1", 5, 6), ("t/0", 20, 21)]
    gaps = tuple(Gap(stream=stream, low=(low,), high=(high,)) for stream, low, high in ranges)
    [healed] = draft_gap_recovery(Mock(table="s.t"), AT_NINE, gaps).operations
    assert healed.after.archive is not None
    assert {one.stream: one.to for one in healed.after.archive.streams} == {"t/0": (12,), "t/1": (6,)}
    assert {(one.stream, one.low, one.high) for one in healed.after.archive.accepted} == {("t/0", (9,), (12,)), ("t/1", (5,), (6,))}
    assert healed.read.compare == replace(compare, heals=True)
