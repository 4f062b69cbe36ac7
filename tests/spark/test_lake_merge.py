"""One statement per operation: applied once, whatever is retried, doubled or left behind."""

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from delta.exceptions import ConcurrentAppendException
from pyspark.sql import SparkSession

from cdc_ops.core.apply.apply_spec import ApplyMode
from cdc_ops.core.operation.merging.merge_plan import keys_condition, plan_merge
from cdc_ops.core.operation.protocol.commit_json import parse_record
from cdc_ops.core.operation.protocol.commit_record import commit_record
from cdc_ops.core.operation.results import Outcome
from cdc_ops.errors import ConfigError, DuplicateKeyError, LakeConflictError, TargetForeignError, TargetNotDeltaError, TargetSchemaError
from cdc_ops.lake.log.head import find_commit, read_head
from cdc_ops.lake.merge.apply import apply
from cdc_ops.lake.merge.batch import Batch
from cdc_ops.lake.staging.landing import land, read_landed
from cdc_ops.lake.table.create import ensure_table, make_first_table, translated_conflicts
from tests.commits import commits
from tests.lake_case import PIPELINE, SCHEMA, SCHEMA_DDL, TABLE, Lake, history, schema
from tests.operations import with_fields
from tests.stores import at


@pytest.fixture
def lake(spark: SparkSession, tmp_path: Path) -> Lake:
    return Lake(spark, tmp_path)


def test_a_first_load_makes_the_table_and_commits_rows_number_and_state_at_once(lake: Lake) -> None:
    operation = lake.case.operation(1, ApplyMode.APPEND)
    result = lake.apply(operation, [(1, "a"), (2, "b")])
    assert (result.outcome, result.delta_version, result.counts.inserted, result.counts.read) == (Outcome.APPLIED, 1, 2, 2)
    assert result.stats is not None
    assert result.stats.delta_version == 1
    head = read_head(lake.path, PIPELINE, TABLE)
    assert head is not None
    assert (head.version, head.txn_version, head.record_version) == (1, 1, 1)
    assert head.record == commit_record(operation, rows=2, package_version=head.record.package_version if head.record else "")
    assert head.columns == SCHEMA_DDL


@pytest.mark.parametrize("mode", list(ApplyMode))
def test_a_replay_changes_nothing_and_makes_no_version(lake: Lake, mode: ApplyMode) -> None:
    lake.load([(1, "a"), (2, "b")])
    operation = lake.case.operation(2, mode)
    first = lake.apply(operation, [(2, "c"), (3, "d")])
    before, versions = lake.rows(), lake.versions()
    again = lake.apply(operation, [(2, "c"), (3, "d")])
    assert (first.outcome, again.outcome) == (Outcome.APPLIED, Outcome.ALREADY_APPLIED)
    assert (again.delta_version, again.counts) == (first.delta_version, first.counts)
    assert (lake.rows(), lake.versions()) == (before, versions)


def test_a_merge_updates_inserts_and_deletes_what_has_vanished(lake: Lake) -> None:
    lake.load([(1, "a"), (2, "b"), (3, "c"), (4, "d")])
    condition = keys_condition(("id",), ("bigint",), (("2",), ("3",), ("5",)))
    result = lake.apply(lake.case.operation(2, delete_missing_where=condition), [(2, "B"), (5, "e")])
    assert lake.rows() == [(1, "a"), (2, "B"), (4, "d"), (5, "e")]
    assert (result.counts.inserted, result.counts.updated, result.counts.deleted) == (1, 1, 1)


def test_an_overwrite_replaces_all_rows_under_the_next_number(lake: Lake) -> None:
    lake.load([(1, "a"), (2, "b")])
    result = lake.apply(lake.case.operation(2, ApplyMode.OVERWRITE, generation=2), [(7, "z")])
    assert (lake.rows(), result.counts.inserted) == ([(7, "z")], 1)
    head = read_head(lake.path, PIPELINE, TABLE)
    assert head is not None
    assert head.record is not None
    assert (head.txn_version, head.record.generation) == (2, 2)


@pytest.mark.parametrize("mode", list(ApplyMode))
def test_an_empty_batch_still_advances_the_table(lake: Lake, mode: ApplyMode) -> None:
    lake.load([(1, "a")])
    result = lake.apply(lake.case.operation(2, mode), [])
    head = read_head(lake.path, PIPELINE, TABLE)
    assert head is not None
    assert (result.outcome, head.txn_version, head.record_version) == (Outcome.APPLIED, 2, result.delta_version)
    assert lake.rows() == ([] if mode is ApplyMode.OVERWRITE else [(1, "a")])


def test_a_number_that_another_operation_took_is_reported_and_nothing_written(lake: Lake) -> None:
    lake.load([(1, "a")])
    lake.apply(lake.case.operation(2), [(2, "b")])
    result = lake.apply(lake.case.operation(2, operation_id="another"), [(2, "x"), (3, "c")])
    assert (result.outcome, result.delta_version, result.stats) == (Outcome.NUMBER_TAKEN, None, None)
    assert lake.rows() == [(1, "a"), (2, "b")]


def test_an_operation_that_comes_too_late_is_skipped_by_its_number(lake: Lake) -> None:
    lake.load([(1, "a")])
    lake.apply(lake.case.operation(3), [(2, "b")])
    assert lake.apply(lake.case.operation(2), [(2, "old")]).outcome is Outcome.NUMBER_TAKEN
    assert lake.rows() == [(1, "a"), (2, "b")]


def test_nothing_of_an_operation_leaks_into_later_statements(lake: Lake) -> None:
    lake.load([(1, "a")])
    lake.apply(lake.case.operation(2), [(2, "b")])
    lake.spark.sql(f"INSERT INTO delta.`{lake.path}` VALUES (9, 'by hand', 1, TIMESTAMP'2026-01-01')")
    assert lake.rows()[-1] == (9, "by hand")
    newest = commits(lake.path)[-1]
    assert (newest["operation"], newest["userMetadata"]) == ("WRITE", None)
    for name in ("write.txnAppId", "write.txnVersion", "commitInfo.userMetadata"):
        assert lake.spark.conf.get(f"spark.databricks.delta.{name}", None) is None
    views = [row["viewName"] for row in lake.spark.sql("SHOW VIEWS IN global_temp").collect()]
    assert not [view for view in views if view.startswith("cdc_ops_")]


def test_tables_worked_on_side_by_side_do_not_mix_their_numbers(spark: SparkSession, tmp_path: Path) -> None:
    lakes = [Lake(spark, tmp_path / name) for name in ("a", "b")]

    def run(index: int) -> list[Outcome]:
        lake, first = lakes[index], 10 * (index + 1)
        operations = [lake.case.operation(first, ApplyMode.APPEND), *(lake.case.operation(first + n) for n in (1, 2))]
        return [lake.apply(operation, [(operation.op_seq, "x")]).outcome for operation in operations]

    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(run, range(2))) == [[Outcome.APPLIED] * 3] * 2
    assert [[row[0] for row in lake.rows()] for lake in lakes] == [[10, 11, 12], [20, 21, 22]]


def test_a_failed_statement_leaves_nothing_behind_and_may_be_repeated(lake: Lake) -> None:
    lake.load([(1, "a")])
    operation, versions = lake.case.operation(2), lake.versions()
    with pytest.raises(DuplicateKeyError) as caught:
        lake.apply(operation, [(1, "x"), (1, "y"), (2, "b")])
    assert caught.value.what.endswith("have the same key (id): 1.")
    assert lake.versions() == versions
    assert lake.apply(operation, [(1, "y"), (2, "b")]).outcome is Outcome.APPLIED
    assert lake.rows() == [(1, "y"), (2, "b")]


def test_a_crash_between_creation_and_first_load_is_harmless(lake: Lake) -> None:
    operation = lake.case.operation(1, ApplyMode.APPEND)
    ensure_table(lake.spark, operation)
    head = read_head(lake.path, PIPELINE, TABLE)
    assert head is not None
    assert (head.created_by_us, head.txn_version, head.record) == (True, None, None)
    ensure_table(lake.spark, operation)
    assert lake.apply(operation, [(1, "a")]).delta_version == 1
    assert lake.rows() == [(1, "a")]


def test_a_table_that_a_first_load_left_empty_becomes_what_the_next_one_needs(lake: Lake) -> None:
    odd = schema(*SCHEMA_DDL, ("a b", "timestamp_ntz"))
    text = schema(("id", "string"), *SCHEMA_DDL[1:])
    ensure_table(lake.spark, lake.case.operation(1, ApplyMode.APPEND, schema=text, cluster_by=("name",)))
    make_first_table(lake.spark, lake.case.operation(2, ApplyMode.APPEND, schema=text, partition_by=("name",)))
    head = read_head(lake.path, PIPELINE, TABLE)
    assert head is not None
    assert (head.created_by_us, head.partition_by, head.columns[0]) == (True, ("name",), ("id", "string"))
    make_first_table(lake.spark, lake.case.operation(3, ApplyMode.APPEND, schema=odd))
    replaced = lake.versions()
    make_first_table(lake.spark, lake.case.operation(3, ApplyMode.APPEND, schema=odd))
    assert lake.versions() == replaced
    assert lake.apply(lake.case.operation(2, ApplyMode.APPEND), [(9, "z")]).outcome is Outcome.NUMBER_TAKEN, "it was given up"
    assert lake.apply(lake.case.operation(3, ApplyMode.APPEND), [(1, "a")]).outcome is Outcome.APPLIED
    make_first_table(lake.spark, lake.case.operation(4, ApplyMode.APPEND, schema=text))
    assert lake.rows() == [(1, "a")]


def test_a_table_of_others_is_refused_before_anything_is_written(lake: Lake) -> None:
    lake.load([(1, "a")])
    versions = lake.versions()
    with pytest.raises(TargetForeignError, match=r"table shop\.orders of pipeline 'shop'"):
        lake.apply(lake.case.operation(2, pipeline="crm"), [(1, "x")])
    assert lake.versions() == versions


def test_a_table_without_our_mark_is_refused(lake: Lake) -> None:
    lake.frame([(1, "a")]).write.format("delta").save(lake.path)
    with pytest.raises(TargetForeignError, match="no properties of cdc-ops"):
        lake.load([(2, "b")])
    assert lake.rows() == [(1, "a")]


def test_a_folder_with_other_files_is_refused(lake: Lake) -> None:
    at(lake.path).mkdir(parents=True)
    at(lake.path).joinpath("data.csv").write_text("1")
    with pytest.raises(TargetNotDeltaError):
        lake.load([(1, "a")])


def test_columns_that_do_not_fit_are_refused(lake: Lake) -> None:
    lake.load([(1, "a")])
    wider = schema(*SCHEMA_DDL[:2], ("amount", "decimal(12,2)"), SCHEMA_DDL[3], ("note", "string"))
    with pytest.raises(TargetSchemaError, match="lacks note; amount: decimal"):
        lake.apply(lake.case.operation(2, schema=wider), [(1, "b")])


def test_a_property_that_would_break_replays_is_refused(lake: Lake) -> None:
    properties = (("delta.setTransactionRetentionDuration", "interval 1 day"),)
    with pytest.raises(ConfigError, match="does not allow the property"):
        lake.apply(lake.case.operation(1, ApplyMode.APPEND, properties=properties), [(1, "a")])
    with pytest.raises(ConfigError, match="cannot be created"):
        lake.apply(lake.case.operation(1, ApplyMode.APPEND, properties=(("delta.enableDeletionVectors", "perhaps"),)), [(1, "a")])
    assert read_head(lake.path, PIPELINE, TABLE) is None
    lake.load([(1, "a")])
    lake.spark.sql(f"ALTER TABLE delta.`{lake.path}` SET TBLPROPERTIES ('delta.setTransactionRetentionDuration' = 'interval 1 day')")
    with pytest.raises(ConfigError, match=r"which is set on .*lake/orders") as refusal:
        lake.apply(lake.case.operation(2), [(2, "b")])
    lake.spark.sql(refusal.value.next)
    assert lake.apply(lake.case.operation(2), [(2, "b")]).outcome is Outcome.APPLIED


def test_a_new_table_has_the_properties_of_the_policy(lake: Lake) -> None:
    kept = ("delta.deletedFileRetentionDuration", "interval 1000 hours")
    operation = lake.case.operation(1, ApplyMode.APPEND, properties=(("delta.enableDeletionVectors", "false"), ("note", "it's ours"), kept))
    ensure_table(lake.spark, operation)
    properties = {row["key"]: row["value"] for row in lake.spark.sql(f"SHOW TBLPROPERTIES delta.`{lake.path}`").collect()}
    assert properties["delta.dataSkippingStatsColumns"] == "`id`,`updated_at`"
    assert properties["delta.enableTypeWidening"] == "true"
    assert properties["delta.logRetentionDuration"] == "interval 1000 hours"
    assert (properties["delta.enableDeletionVectors"], properties["note"]) == ("false", "it's ours")


def test_a_table_that_is_there_follows_the_retention_of_the_policy(lake: Lake) -> None:
    def properties(op_seq: int, hours: int) -> dict[str, str]:
        kept = (("delta.deletedFileRetentionDuration", f"interval {hours} hours"), ("note", str(op_seq)))
        ensure_table(lake.spark, lake.case.operation(op_seq, ApplyMode.APPEND, properties=kept))
        return {row["key"]: row["value"] for row in lake.spark.sql(f"SHOW TBLPROPERTIES delta.`{lake.path}`").collect()}

    assert properties(1, 168)["delta.deletedFileRetentionDuration"] == "interval 168 hours"
    longer = properties(2, 1000)
    assert longer["delta.deletedFileRetentionDuration"] == "interval 1000 hours"
    assert longer["delta.logRetentionDuration"] == "interval 1000 hours"
    assert longer["note"] == "1", "other properties are those that the table was made with"
    assert properties(3, 48)["delta.deletedFileRetentionDuration"] == "interval 48 hours"
    version = read_head(lake.path, PIPELINE, TABLE)
    properties(4, 48)
    assert read_head(lake.path, PIPELINE, TABLE) == version


def test_odd_names_and_keys_without_statistics_make_a_table_too(lake: Lake) -> None:
    odd = schema(("a b", "int"), ("t`x", "timestamp"), ("bin", "binary"), keys=("a b", "bin"))
    operation = lake.case.operation(1, ApplyMode.APPEND, schema=odd, keys=("a b", "bin"))
    batch = lake.spark.sql("SELECT 1 `a b`, timestamp'2026-01-01' `t``x`, X'01' bin")
    assert apply(operation, Batch(rows=batch, plan=plan_merge(operation, None), read_rows=1)).counts.inserted == 1
    merge = with_fields(operation, op_seq=2, operation_id="m", mode=ApplyMode.MERGE)
    assert apply(merge, Batch(rows=batch, plan=plan_merge(merge, None), read_rows=1)).counts.updated == 1


def test_pruning_literals_keep_delta_from_opening_other_files(lake: Lake) -> None:
    lake.load([(1, "a"), (2, "b")])
    lake.apply(lake.case.operation(2, ApplyMode.APPEND), [(101, "c"), (102, "d")])
    _spoil_files(lake, lambda low: low > 100)
    operation = lake.case.operation(3)
    manifest = land(lake.spark, lake.frame([(2, "B"), (3, "C")]), operation, "a")
    result = apply(operation, Batch(rows=read_landed(lake.spark, operation, manifest), plan=plan_merge(operation, manifest), read_rows=2))
    assert (result.counts.updated, result.counts.inserted) == (1, 1)
    with pytest.raises(Exception, match="part-"):
        lake.apply(lake.case.operation(4), [(2, "B")])


def _spoil_files(lake: Lake, which: Callable[[int], bool]) -> None:
    """Cuts the files off whose smallest id fits: whoever opens one fails."""
    spoiled = 0
    for log in sorted(at(lake.path).joinpath("_delta_log").glob("*.json")):
        for action in (json.loads(line) for line in log.read_text().splitlines()):
            stats = json.loads(action.get("add", {}).get("stats", "{}"))
            if stats.get("minValues") and which(stats["minValues"]["id"]):
                file = at(lake.path).joinpath(action["add"]["path"])
                file.write_bytes(file.read_bytes()[:8])
                (file.parent / f".{file.name}.crc").unlink(missing_ok=True)
                spoiled += 1
    assert spoiled


def test_a_merge_into_a_table_with_deletion_vectors_copies_no_rows(lake: Lake) -> None:
    lake.load([(number, "a") for number in range(1000)])
    lake.apply(lake.case.operation(2), [(5, "b")])
    metrics: dict[str, Any] = commits(lake.path)[-1]["operationMetrics"]
    assert (metrics["numTargetRowsCopied"], metrics["numTargetDeletionVectorsAdded"]) == ("0", "1")


def test_a_merge_shuffles_of_the_tables_keys_those_of_the_batch_only(lake: Lake) -> None:
    lake.load([(key, "old") for key in range(40_000)])
    before = set(_shuffled(lake.spark))
    changes = [(key, "new") for key in range(5, 40_000, 4_000)] + [(40_001, "new")]
    result = lake.apply(lake.case.operation(2), changes)
    assert (result.counts.updated, result.counts.inserted) == (10, 1)
    after = _shuffled(lake.spark)
    # A bloom filter lets some others pass.
    assert 0 < sum(rows for stage, rows in after.items() if stage not in before) < 4_000


def _shuffled(spark: SparkSession) -> dict[int, int]:
    """Rows that each stage has written for a shuffle, by its number; of the last thousand stages, for Spark forgets older ones."""
    context = spark.sparkContext
    assert context._gateway is not None
    nothing = context._gateway.new_array(context._gateway.jvm.double, 0)
    stages = context._jsc.sc().statusStore().stageList(None, False, False, nothing, context._gateway.jvm.java.util.ArrayList())
    found = [stages.apply(number) for number in range(stages.size())]
    return {stage.stageId(): stage.shuffleWriteRecords() for stage in found}


def test_after_a_restore_the_older_record_counts_and_the_number_stays(lake: Lake) -> None:
    lake.load([(1, "a")])
    lake.apply(lake.case.operation(2), [(2, "b")])
    lake.spark.sql(f"RESTORE TABLE delta.`{lake.path}` TO VERSION AS OF 1")
    head = read_head(lake.path, PIPELINE, TABLE)
    assert head is not None
    assert head.record is not None
    assert (head.version, head.txn_version, head.record.op_seq, head.record_version) == (3, 2, 1, 1)
    assert [(change.version, change.operation) for change in head.foreign_changes] == [(3, "RESTORE")]


@pytest.mark.parametrize("policy", ["classic", "v2"])
def test_the_number_survives_when_delta_cleans_its_log(lake: Lake, policy: str) -> None:
    properties = ("delta.checkpointInterval", "3"), ("delta.checkpointPolicy", policy)
    operation = lake.case.operation(1, ApplyMode.APPEND, properties=properties)
    lake.apply(operation, [(1, "a")])
    for number in range(4):
        lake.spark.sql(f"ALTER TABLE delta.`{lake.path}` SET TBLPROPERTIES ('n' = '{number}')")
    log = at(lake.path).joinpath("_delta_log")
    checkpoint = max(int(path.name[:20]) for path in log.glob("0*.checkpoint*"))
    for path in [*log.glob("*.json"), *log.glob("*.crc")]:
        if path.name[:20].isdigit() and int(path.name[:20]) <= checkpoint and "checkpoint" not in path.name:
            path.unlink()
    for path in log.glob("*.crc"):
        path.unlink()
    head = read_head(lake.path, PIPELINE, TABLE)
    assert head is not None
    assert (head.version, head.txn_version, head.record) == (5, 1, None)
    assert head.columns == SCHEMA_DDL
    assert find_commit(lake.path, operation.operation_id) is None


def test_log_and_history_tell_the_same_of_a_commit(lake: Lake) -> None:
    lake.load([(1, "a")])
    for number in range(2, 4):
        lake.apply(lake.case.operation(number), [(number, "b")])
    for row in history(lake.spark, lake.path):
        record = parse_record(row["userMetadata"])
        if record is not None:
            found = find_commit(lake.path, record.operation_id)
            assert found is not None
            assert (found.version, found.record) == (row["version"], record)
            assert find_commit(lake.path, record.op_seq) == found


def test_a_conflict_with_another_writer_may_be_retried() -> None:
    with pytest.raises(LakeConflictError) as caught, translated_conflicts("a test"):
        raise ConcurrentAppendException("Files were added")
    assert caught.value.retryable
    with pytest.raises(ValueError, match="x"), translated_conflicts("a test"):
        raise ValueError("x")


def test_all_values_of_the_schema_reach_the_table_in_their_types(lake: Lake) -> None:
    lake.load([(1, "a")])
    stored = lake.spark.read.format("delta").load(lake.path).schema
    assert [(field.name, field.dataType.simpleString()) for field in stored.fields] == list(SCHEMA_DDL)
    assert all(field.nullable for field in stored.fields)
    assert SCHEMA.primary_key == ("id",)
