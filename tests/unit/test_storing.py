"""How a table is stored: what settings mean, what they refuse, what is altered for them, and the statements."""

from dataclasses import replace
from datetime import timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest
import yaml

from cdc_ops.core.apply.apply_spec import ApplyMode
from cdc_ops.core.apply.deletes import Deletes, source_columns
from cdc_ops.core.apply.metadata_columns import DEFAULT_COLUMNS, END, SEQUENCE, START, TOUCHED, MetadataColumns
from cdc_ops.core.apply.scd import LATEST, Sequence, SequenceKind, TableStorage
from cdc_ops.core.approvals import asked_by
from cdc_ops.core.archive.watermarks import ArchiveWatermark
from cdc_ops.core.cursor.cursors import Cursor
from cdc_ops.core.cursor.windows import Window
from cdc_ops.core.operation.log_batch import LogBatchResult
from cdc_ops.core.operation.merging.merge_plan import plan_merge
from cdc_ops.core.operation.operation import OperationKind
from cdc_ops.core.operation.protocol.commit_record import LakeHead
from cdc_ops.core.operation.protocol.table_state import TableState
from cdc_ops.core.operation.results import Manifest
from cdc_ops.core.operation.run_request import ResyncMode, RunKind, RunRequest
from cdc_ops.core.pipeline.archive_config import OnBadRecord
from cdc_ops.core.pipeline.pipeline import Pipeline, SourceConfig, SourceKind, TableConfig, TableRule, TargetConfig
from cdc_ops.core.pipeline.table_settings import Method, TableSettings
from cdc_ops.core.schema.tables import TableName
from cdc_ops.errors import CdcError, ConfigError, RequestError, SchemaChangedError, SourceTableError
from cdc_ops.lake.merge.sql import merge_statement, versions_statement
from cdc_ops.steps.planning.draft import draft_operations
from cdc_ops.steps.planning.request import TableRequest
from cdc_ops.steps.stage.truncates import delete_older
from cdc_ops.steps.table.columns.schema_evolution import apply_schema_policy
from cdc_ops.steps.table.layout import layout_columns
from cdc_ops.steps.table.source_table import SourceTable
from cdc_ops.steps.table.storage import check_request, metadata_column_changes, stored_as
from tests.lake_case import CURSOR, TABLE, Case, schema, watermark
from tests.operations import made, with_fields

SCHEMA = schema(("id", "bigint"), ("name", "string"), ("changed_at", "timestamp"), ("change_id", "bigint"))
EVENTS = TableStorage(sequence=Sequence(kind=SequenceKind.POSITION, type="array<bigint>"), tombstones="/t")
HISTORY = replace(EVENTS, scd_type=2)
OWN = MetadataColumns(synced_at="written_at")
READING = LogBatchResult(watermark=ArchiveWatermark())


def pipeline() -> Pipeline:
    return Pipeline(
        name="shop",
        source=SourceConfig(kind=SourceKind.MYSQL, connection="db"),
        target=TargetConfig(root="/lake", staging="/staging"),
        tables=(TableRule(pattern="shop.orders", settings=TableSettings()),),
    )


def config(**settings: Any) -> TableConfig:
    return TableConfig(pipeline="shop", table=TABLE, settings=TableSettings.of(**settings), path="/lake/shop/orders")


def decided(keys: tuple[str, ...] = ("id",), **settings: Any) -> TableStorage:
    return stored_as(pipeline(), config(**settings), SCHEMA, keys)


def run(kind: RunKind = RunKind.INCREMENT, **parts: Any) -> RunRequest:
    return RunRequest(run_id="r", trigger="t", holder="h", kind=kind, **parts)


def head(*columns: tuple[str, str]) -> LakeHead:
    return LakeHead(version=1, txn_version=1, record=None, record_version=None, foreign_app_ids=(), columns=(("id", "bigint"), *columns))


def manifest(reading: LogBatchResult | None = READING) -> Manifest:
    return Manifest.of(operation_id="operation-1", attempt="a", rows=1, bytes=1, schema_fingerprint="", log=reading)


def test_tables_that_follow_a_log_are_ordered_by_positions_and_remember_deletes() -> None:
    found = decided(method=Method.LOG, tombstone_retention=timedelta(days=2))
    assert found.sequence == EVENTS.sequence
    assert (found.scd_type, found.tombstones, found.tombstone_retention) == (1, "/lake/_cdc_tombstones/shop/shop/orders", timedelta(days=2))
    assert found.order_columns == ((SEQUENCE, "array<bigint>"),)


def test_tables_that_are_read_by_query_have_no_order_unless_they_name_one_or_keep_versions() -> None:
    assert decided() == LATEST
    one, two = decided(sequence_by=("change_id",)), decided(sequence_by=("changed_at", "change_id"), stored_as_scd_type=2)
    assert one.order_columns == ((SEQUENCE, "bigint"),)
    kind = "struct<changed_at:timestamp,change_id:bigint>"
    assert two.order_columns == ((START, kind), (END, kind), (TOUCHED, f"array<{kind}>"))
    assert decided(stored_as_scd_type=2).order_columns[0] == (START, "timestamp")
    assert decided(sequence_by=("change_id",), apply_as_deletes="name IS NULL").tombstones


def test_what_ignores_deletes_removes_nothing_whatever_asks_for_it() -> None:
    stored = decided(method=Method.LOG, deletes=Deletes.IGNORE)
    assert stored.ignores_deletes
    assert decided(deletes=Deletes.IGNORE) == replace(LATEST, ignores_deletes=True)
    operation = Case(root="/r").operation(1, stored_as=stored, delete_missing_where="t.`id` = 1", delete_where="name = 'x'")
    told = plan_merge(operation, manifest(READING.changed(truncates=((1, 2),), deletes=1)))
    assert "BY SOURCE" not in merge_statement("t", "s", told)
    assert plan_merge(operation, manifest(None)).deleted_flag == ""


def test_changes_are_ordered_and_deleted_by_columns_that_are_not_stored() -> None:
    hidden = tuple(schema(("op", "string"), ("seq", "int")).columns)
    feed = config(keys=("name",), sequence_by=("seq",), except_column_list=("op", "seq"), apply_as_deletes="op = 'D'")
    found = stored_as(pipeline(), feed, SCHEMA, ("name",), hidden)
    assert found.sequence == Sequence(kind=SequenceKind.COLUMNS, type="int", columns=("seq",), types=("int",))
    operation = Case(root="/r").operation(1, stored_as=found, hidden=hidden)
    assert operation.read_schema.names == (*operation.source.schema.names, "op", "seq")
    assert plan_merge(operation, manifest(None)).columns == (*operation.source.schema.names, SEQUENCE)
    with pytest.raises(ConfigError, match="its keys are the primary key"):
        stored_as(pipeline(), feed, SCHEMA, ("id",), hidden)
    ignoring = replace(feed, settings=feed.settings.changed(deletes=Deletes.IGNORE))
    with pytest.raises(ConfigError, match="deletes: ignore"):
        stored_as(pipeline(), ignoring, SCHEMA, ("name",), hidden)


def test_nulls_are_ignored_in_columns_that_can_have_them() -> None:
    log = {"method": Method.LOG}
    assert decided(**log, ignore_null_updates=True).nulls_ignored == ("name", "changed_at", "change_id")
    assert decided(**log, ignore_null_updates_column_list=("ID", "Name")).nulls_ignored == ("name",)
    feed = decided(("name",), sequence_by=("change_id",), ignore_null_updates_except_column_list=("id",))
    assert feed.nulls_ignored == ("changed_at",)


def test_a_null_that_is_ignored_leaves_the_stored_value_and_a_new_row_is_known_as_a_whole() -> None:
    order = Sequence(kind=SequenceKind.COLUMNS, type="bigint", columns=("change_id",))
    operation = Case(root="/r").operation(1, stored_as=replace(EVENTS, sequence=order, nulls_ignored=("name",)))
    text = merge_statement("t", "s", plan_merge(operation, manifest(None)))
    known = "s.`__cdc_present` IS NULL OR array_contains(s.`__cdc_present`, "
    assert f"t.`name` = IF({known}'name'), s.`name`, t.`name`)" in text
    assert f"VALUES (IF({known}''), s.`id`, raise_error(" in text
    assert plan_merge(with_fields(operation, mode=ApplyMode.OVERWRITE), manifest(None)).present == ""


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("_Change_type", {"change_feed": True}),
        ("`ticks`", {"change_feed": True}),
        ("_commit_version", {"event_history": True, "method": Method.LOG}),
        ("_commit_timestamp", {"properties": (("delta.enableChangeDataFeed", "true"),)}),
        ("__cdc_gone", {}),
    ],
)
def test_a_column_whose_name_delta_or_a_batch_needs_is_refused_at_the_plan(name: str, settings: dict[str, Any]) -> None:
    taken = schema(("id", "bigint"), (name, "string"))
    with pytest.raises(SourceTableError) as refusal:
        stored_as(pipeline(), config(**settings), taken, ("id",))
    assert repr(name) in refusal.value.what
    assert yaml.safe_load(refusal.value.next.split("'")[1]) == {"except_column_list": [name]}
    if settings:
        stored_as(pipeline(), config(), taken, ("id",))


@pytest.mark.parametrize("request_", [run(), run(RunKind.RESYNC, mode=ResyncMode.FULL)])
def test_a_name_is_refused_by_what_the_table_records_whatever_the_file_says(request_: RunRequest) -> None:
    odd = schema(("id", "bigint"), ("`ticks`", "string"))
    found = SourceTable(pipeline=pipeline(), config=config(), schema=odd, keys=("id",), cursor=Cursor(columns=()), warnings=())
    there = head(("`ticks`", "string"))
    apply_schema_policy(found, there, request_)
    with pytest.raises(SourceTableError, match=r"which its Delta table cannot have") as refusal:
        apply_schema_policy(found, replace(there, records_changes=True), request_)
    assert "ALTER TABLE delta.`/lake/shop/orders` SET TBLPROPERTIES ('delta.enableChangeDataFeed' = 'false')" in refusal.value.next


def test_a_partition_with_a_backtick_in_its_name_is_refused_at_the_plan() -> None:
    taken = schema(("id", "bigint"), ("`ticks`", "string"))
    laid_out: Any = SimpleNamespace(config=config(partition_by=("`TICKS`",), cluster_by=("`ticks`",)), schema=taken)
    with pytest.raises(SourceTableError, match="cannot be partitioned by column '`ticks`'") as refusal:
        layout_columns(laid_out, "partition_by")
    assert "'cluster_by'" in refusal.value.next
    assert layout_columns(laid_out, "cluster_by") == ("`ticks`",)


def test_columns_whose_history_is_kept_are_named_or_all_but_some() -> None:
    assert decided(stored_as_scd_type=2, track_history_column_list=("name",)).tracked == ("name",)
    assert decided(stored_as_scd_type=2, track_history_except_column_list=("NAME",)).tracked == ("id", "changed_at", "change_id")


@pytest.mark.parametrize(
    ("settings", "error", "words"),
    [
        ({"method": Method.LOG, "sequence_by": ("change_id",)}, ConfigError, "their own order"),
        ({"sequence_by": ("change_id",), "previous_key": ("change_id",)}, ConfigError, "no place in the order"),
        ({"stored_as_scd_type": 2, "deletes": Deletes.SOFT}, ConfigError, "last version ends"),
        ({"previous_key": ("change_id",), "deletes": Deletes.IGNORE}, ConfigError, "the other keeps it"),
        ({"track_history_column_list": ("name",)}, ConfigError, "stored_as_scd_type: 2"),
        ({"sequence_by": ("name",)}, SourceTableError, "without a dependable order"),
        ({"method": Method.LOG, "apply_as_truncates": "name = 'T'"}, ConfigError, "show a TRUNCATE themselves"),
        ({"apply_as_truncates": "name = 'T'"}, ConfigError, "needs 'sequence_by'"),
        ({"apply_as_truncates": "name = 'T'", "sequence_by": ("change_id",)}, ConfigError, "its rows are not changes"),
        ({"apply_as_truncates": "x", "sequence_by": ("change_id",), "stored_as_scd_type": 2}, ConfigError, "as in AUTO CDC"),
        ({"apply_as_truncates": "x", "sequence_by": ("change_id",), "deletes": Deletes.IGNORE}, ConfigError, "that the other keeps"),
        ({"bad_records": OnBadRecord.QUARANTINE}, ConfigError, "other rows would be lost"),
        ({"ignore_null_updates": True}, ConfigError, "a NULL is a value"),
        ({"ignore_null_updates": True, "sequence_by": ("change_id",)}, ConfigError, "a NULL is a value"),
        ({"method": Method.LOG, "ignore_null_updates": True, "ignore_null_updates_column_list": ("name",)}, ConfigError, "exclude each"),
        ({"method": Method.LOG, "ignore_null_updates_except_column_list": ("nam",)}, SourceTableError, "Did you mean 'name'"),
        ({"sequence_by": ("change_id",), "ignore_null_updates": True, "deletes": Deletes.SOFT}, ConfigError, "last values are not known"),
        ({"sequence_by": ("chang_id",)}, SourceTableError, "change_id"),
        ({"stored_as_scd_type": 2, "track_history_column_list": ("nam",)}, SourceTableError, "'nam'"),
        ({"stored_as_scd_type": 2, "keyless": True}, SourceTableError, "no keys"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(settings: dict[str, Any], error: type[CdcError], words: str) -> None:
    keys = () if settings.get("keyless") else ("id",)
    with pytest.raises(error, match=words):
        decided(keys, **{name: value for name, value in settings.items() if name != "keyless"})


@pytest.mark.parametrize(
    ("stored", "request_", "refused"),
    [
        (HISTORY, run(), False),
        (HISTORY, run(RunKind.RECONCILE), True),
        (HISTORY, run(RunKind.RESYNC, mode=ResyncMode.FULL), True),
        (EVENTS, run(RunKind.RESYNC, mode=ResyncMode.FULL), False),
        (decided(stored_as_scd_type=2), run(RunKind.RECONCILE), False),
        (decided(stored_as_scd_type=2), run(RunKind.BACKFILL, columns=("name",)), True),
        (decided(stored_as_scd_type=2, sequence_by=("change_id",)), run(RunKind.RECONCILE), True),
    ],
)
def test_what_would_lose_or_falsify_versions_is_refused(stored: TableStorage, request_: RunRequest, refused: bool) -> None:
    if not refused:
        check_request(stored, config(), head(), request_)
        return
    with pytest.raises(RequestError, match="keeps the versions"):
        check_request(stored, config(), head(), request_)


def test_single_columns_of_a_table_of_changes_are_not_filled() -> None:
    chosen = config(keys=("name",), sequence_by=("change_id",))
    source_table = SourceTable(pipeline=pipeline(), config=chosen, schema=SCHEMA, keys=("name",), cursor=CURSOR, warnings=())
    state = made(TableState, pipeline="shop", table=TABLE, watermark=watermark(1))
    asked = run(RunKind.BACKFILL, columns=("changed_at",))
    order = TableRequest(source=cast(Any, None), run=asked, source_table=source_table, state=state, ledger=cast(Any, None), tables=tuple)
    with pytest.raises(RequestError, match="the rows at the source are changes"):
        draft_operations(order)


def test_a_table_that_is_stored_otherwise_needs_a_full_resync() -> None:
    versions = head((START, "timestamp"), (END, "timestamp"))
    with pytest.raises(SchemaChangedError, match="SCD type 2"):
        check_request(LATEST, config(), versions, run())
    check_request(LATEST, config(), versions, run(RunKind.RESYNC, mode=ResyncMode.FULL))
    with pytest.raises(SchemaChangedError, match="orders changes"):
        check_request(EVENTS, config(), head((SEQUENCE, "bigint")), run())


def test_columns_of_ours_are_added_once_and_are_none_of_the_source() -> None:
    assert [change.column for change in metadata_column_changes(HISTORY, "", head())] == [START, END, TOUCHED]
    assert metadata_column_changes(EVENTS, "", head((SEQUENCE, "array<bigint>"))) == metadata_column_changes(EVENTS, "", None) == ()
    assert source_columns(head((SEQUENCE, "bigint"), ("name", "string")).columns, "", [DEFAULT_COLUMNS]) == (
        ("id", "bigint"),
        ("name", "string"),
    )


@pytest.mark.parametrize(
    ("stored", "column", "declared", "said"),
    [
        (EVENTS, SEQUENCE, False, "existing rows have NULL in it, which counts as older than any change: nothing has to be filled"),
        (HISTORY, START, False, "nothing has to be filled"),
        (replace(LATEST, own=OWN), "written_at", False, "until they are written again; 'cdc-ops resync --mode full' writes all of them"),
        (replace(HISTORY, own=OWN), "written_at", False, "existing rows have NULL in it until they are written again"),
        (replace(LATEST, own=OWN), "written_at", True, "existing rows have NULL in it until they are written again"),
    ],
)
def test_no_backfill_is_advised_for_a_column_of_ours(stored: TableStorage, column: str, declared: bool, said: str) -> None:
    changes = {change.column: change for change in metadata_column_changes(stored, "", head(), declared=declared)}
    text = changes[column].meaning("shop", TABLE, declared=declared)
    assert text.endswith(said)
    assert "backfill" not in text


@pytest.mark.parametrize(
    ("stored", "keys", "settings", "advised"),
    [
        (LATEST, ("id",), {}, True),
        (EVENTS, ("id",), {"method": Method.LOG}, True),
        (LATEST, (), {}, False),
        (HISTORY, ("id",), {"method": Method.LOG, "stored_as_scd_type": 2}, False),
        (LATEST, ("name",), {"sequence_by": ("change_id",)}, False),
    ],
    ids=["rows", "events", "no keys", "versions", "changes"],
)
def test_a_backfill_of_a_new_column_is_advised_only_where_it_can_run(
    stored: TableStorage, keys: tuple[str, ...], settings: dict[str, Any], advised: bool
) -> None:
    source_table = SourceTable(
        pipeline=pipeline(), config=config(**settings), schema=SCHEMA, keys=keys, cursor=CURSOR, warnings=(), stored_as=stored
    )
    kept = [(column.name, column.delta_type) for column in SCHEMA.columns if column.name not in ("id", "changed_at")]
    [note] = apply_schema_policy(replace(source_table, cursor=Cursor(columns=())), head(*kept, *stored.order_columns), run()).notes
    assert "column changed_at" in note
    assert ("backfill" in note) is advised


@pytest.mark.parametrize(("stored", "settings", "asks"), [(EVENTS, {}, True), (HISTORY, {"stored_as_scd_type": 2}, False)])
def test_a_change_of_columns_asks_for_a_full_resync_only_where_one_can_run(
    stored: TableStorage, settings: dict[str, Any], asks: bool
) -> None:
    chosen = config(method=Method.LOG, **settings)
    source_table = SourceTable(
        pipeline=pipeline(), config=chosen, schema=SCHEMA, keys=("id",), cursor=Cursor(columns=()), warnings=(), stored_as=stored
    )
    lake = head(("name", "bigint"), ("changed_at", "timestamp"), ("change_id", "bigint"), *stored.order_columns)
    with pytest.raises(SchemaChangedError) as caught:
        apply_schema_policy(source_table, lake, run())
    assert (asked_by(caught.value) is not None) is asks
    full = run(RunKind.RESYNC, mode=ResyncMode.FULL)
    if asks:
        apply_schema_policy(source_table, lake, full)
    else:
        with pytest.raises(RequestError, match="keeps the versions"):
            apply_schema_policy(source_table, lake, full)


def test_an_event_that_is_older_than_its_row_is_neither_written_nor_deletes() -> None:
    operation = Case(root="/r").operation(1, stored_as=EVENTS)
    plan = plan_merge(operation, manifest(READING.changed(truncates=((1, 2), (3, 4)), deletes=1)))
    text = merge_statement("t", "s", plan)
    guard = "(t.`_cdc_sequence` IS NULL OR t.`_cdc_sequence` <= s.`_cdc_sequence`)"
    assert f"WHEN MATCHED AND s.`__cdc_delete` AND {guard} THEN DELETE" in text
    assert f"WHEN MATCHED AND NOT s.`__cdc_delete` AND {guard} THEN UPDATE SET" in text
    assert "WHEN NOT MATCHED BY SOURCE AND (t.`_cdc_sequence` IS NULL OR t.`_cdc_sequence` < array(3L, 4L)) THEN DELETE" in text


def test_a_resync_of_a_range_of_changes_sets_no_newer_row_back() -> None:
    order = Sequence(kind=SequenceKind.COLUMNS, type="bigint", columns=("change_id",))
    operation = Case(root="/r").operation(1, kind=OperationKind.RESYNC, stored_as=replace(EVENTS, sequence=order))
    assert plan_merge(with_fields(operation, window=Window(low=None, high=None)), manifest(None)).sequence == SEQUENCE
    assert plan_merge(operation, manifest(None)).sequence == ""  # of keys: the rows are what the source has


def test_of_a_table_that_was_emptied_a_null_keeps_nothing_older() -> None:
    order = Sequence(kind=SequenceKind.COLUMNS, type="bigint", columns=("change_id",))
    operation = Case(root="/r").operation(1, stored_as=replace(EVENTS, sequence=order, nulls_ignored=("name",)))
    text = merge_statement("t", "s", delete_older(plan_merge(operation, manifest(None)), SEQUENCE, "CAST('7' AS bigint)"))
    older = "t.`_cdc_sequence` IS NULL OR t.`_cdc_sequence` < CAST('7' AS bigint)"
    assert f"WHEN NOT MATCHED BY SOURCE AND ({older}) THEN DELETE" in text
    assert f"'name') OR (array_contains(s.`__cdc_present`, '') AND ({older})), s.`name`, t.`name`)" in text


def test_without_one_order_no_event_is_taken_for_an_old_one() -> None:
    plan = plan_merge(Case(root="/r").operation(1, stored_as=EVENTS), manifest(READING.changed(ordered=False, deletes=1)))
    assert (plan.sequence, plan.columns[-1]) == ("", SEQUENCE)


def test_a_row_that_is_marked_as_deleted_keeps_the_place_of_its_delete() -> None:
    operation = Case(root="/r").operation(1, stored_as=EVENTS, deleted_column="_deleted")
    text = merge_statement("t", "s", plan_merge(operation, manifest()))
    assert "THEN UPDATE SET t.`_deleted` = TRUE, t.`_cdc_sequence` = s.`_cdc_sequence`" in text


def test_rows_that_are_read_keep_the_sequence_that_they_have() -> None:
    read = Case(root="/r").operation(1, stored_as=EVENTS, kind=OperationKind.RECONCILE)
    assert SEQUENCE not in merge_statement("t", "s", plan_merge(read, manifest(None)))
    replaced = with_fields(read, mode=ApplyMode.OVERWRITE)
    assert plan_merge(replaced, manifest(None)).columns[-1] == SEQUENCE


def test_versions_take_all_their_values_from_the_batch() -> None:
    plan = replace(plan_merge(Case(root="/r").operation(1, stored_as=HISTORY), manifest()), versions=True)
    lines = versions_statement("t", "s", plan).splitlines()
    assert lines[0].endswith("s.__cdc_reused AND t.`__START_AT` <=> s.__cdc_from")
    assert lines[1] == "WHEN MATCHED AND s.__cdc_gone THEN DELETE"
    assert "= t." not in lines[2]
    assert lines[3].startswith("WHEN NOT MATCHED AND NOT s.__cdc_reused THEN INSERT")
    assert TableName(schema="shop", name="orders") == TABLE
