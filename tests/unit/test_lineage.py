"""Lineage as plain values: which column of a Delta table comes from which column of what was read, and how datasets are named."""

from dataclasses import replace
from typing import Any

import pytest

from cdc_ops.config.expressions.spark_conditions import named_columns
from cdc_ops.core.apply.apply_spec import ApplyMode
from cdc_ops.core.apply.metadata_columns import MetadataColumns
from cdc_ops.core.apply.scd import POSITION_TYPE, Sequence, SequenceKind, TableStorage
from cdc_ops.core.archive.watermarks import ArchiveWatermark
from cdc_ops.core.cursor.cursors import Cursor, CursorColumn, CursorType, CursorValue
from cdc_ops.core.cursor.windows import Window
from cdc_ops.core.events.event_history import Replay
from cdc_ops.core.lineage.datasets import DatasetName, Dependency, TableLineage, WrittenDataset, catalog_dataset, folder_dataset
from cdc_ops.core.lineage.tables import Surroundings, table_lineage
from cdc_ops.core.operation.log_batch import LogBatch
from cdc_ops.core.operation.operation import Operation, OperationKind
from cdc_ops.core.operation.results import Counts, OperationResult, Outcome
from cdc_ops.core.pipeline.archive_config import ArchiveConfig
from cdc_ops.core.schema.collated_keys import with_key_columns
from cdc_ops.core.schema.tables import Column, TableName, TableSchema
from tests.operations import with_fields
from tests.state_values import make_operation

ORDERS = TableName(schema="shop", name="orders")
SOURCE = DatasetName(namespace="mysql://db:3306", name="shop.orders")
LAKE = DatasetName(namespace="s3://lake", name="tables/shop/orders")
WINDOW = Window(low=CursorValue(parts=("2026-01-01 00:00:00",)), high=CursorValue(parts=("2026-01-02 00:00:00",)))


def column(name: str, kind: str = "bigint", expression: str = "") -> Column:
    return Column(name=name, source_type=f"{kind} declared", delta_type=kind, nullable=True, expression=expression or f"`{name}`")


def schema(*columns: Column) -> TableSchema:
    return TableSchema(table=ORDERS, columns=columns, primary_key=("id",))


SCHEMA = schema(column("id"), column("note", "string", "CAST(`note` AS CHAR)"), column("updated_at", "timestamp"))


def increment(number: int = 1, **changes: Any) -> Operation:
    cursor = Cursor(columns=(CursorColumn(name="updated_at", type=CursorType.TIMESTAMP, precision=6),))
    plain = {"schema": SCHEMA, "cursor": cursor, "path": "s3a://lake/tables/shop/orders", "window": WINDOW, "operation_id": f"op-{number}"}
    return with_fields(make_operation(number), **(plain | changes))


def applied(operation: Operation, version: int = 7, outcome: Outcome = Outcome.APPLIED, **counts: int) -> dict[str, OperationResult]:
    result = OperationResult(op_seq=operation.op_seq, operation_id=operation.operation_id, outcome=outcome, counts=Counts(**counts))
    written = outcome in (Outcome.APPLIED, Outcome.ALREADY_APPLIED)
    return {operation.operation_id: replace(result, delta_version=version if written else None)}


def around(**changes: Any) -> Surroundings:
    plain: dict[str, Any] = {"origin": SOURCE, "catalog_name": None, "previous_key": ()}
    return Surroundings(**(plain | {"named": lambda text, columns: named_columns((text,), columns)} | changes))


def lineage(*operations: Operation, results: dict[str, OperationResult] | None = None, **changes: Any) -> TableLineage:
    return table_lineage(operations, results or {}, around(**changes))


def written(*operations: Operation, results: dict[str, OperationResult] | None = None, **changes: Any) -> WrittenDataset:
    found = lineage(*operations, results=results, **changes).written
    assert found is not None
    return found


def ways(found: tuple[Dependency, ...]) -> list[tuple[str, str, str]]:
    return [(one.column.column, one.flow.type, one.flow.subtype) for one in found]


def columns_of(dataset: WrittenDataset) -> dict[str, list[tuple[str, str, str]]]:
    assert dataset.columns
    return {name: ways(found) for name, found in dataset.columns}


def test_each_column_comes_from_the_one_of_its_name_as_it_is_or_by_its_expression() -> None:
    found = lineage(increment())
    assert found.written is not None
    assert columns_of(found.written) == {
        "id": [("id", "DIRECT", "IDENTITY")],
        "note": [("note", "DIRECT", "TRANSFORMATION")],
        "updated_at": [("updated_at", "DIRECT", "IDENTITY")],
    }
    assert {one.column.dataset for _, all_ in found.written.columns for one in all_} == {SOURCE}
    assert dict(found.written.columns)["note"][0].flow.description == "string declared as string"
    assert ways(found.written.whole) == [("id", "INDIRECT", "JOIN"), ("updated_at", "INDIRECT", "FILTER")]
    assert (found.written.name, [read.name for read in found.read]) == (LAKE, [SOURCE])
    assert [(field.name, field.type) for field in found.read[0].fields][1] == ("note", "string declared")
    assert [(field.name, field.type) for field in found.written.fields][1] == ("note", "string")


@pytest.mark.parametrize("expression", ["`we``ird.name`", '"we`ird.name"', "we`ird.name"])
def test_a_column_whose_name_has_quotes_and_dots_is_taken_as_it_is(expression: str) -> None:
    odd = column("we`ird.name", expression=expression)
    assert columns_of(written(increment(schema=schema(column("id"), odd))))["we`ird.name"] == [("we`ird.name", "DIRECT", "IDENTITY")]


def test_a_column_some_of_whose_values_become_null_is_not_the_same() -> None:
    odd = replace(column("born", "date"), lossy=True)
    [(_, [found])] = written(increment(schema=schema(odd))).columns
    assert (found.flow.subtype, found.flow.description) == ("TRANSFORMATION", "date declared as date; what that cannot hold becomes NULL")


def test_a_renamed_column_has_its_new_name_on_both_sides() -> None:
    operation = increment(schema=schema(column("id"), column("remark", "string")))
    stored = (("id", "bigint"), ("remark", "string"))
    found = columns_of(written(operation, results=applied(operation), stored=stored))
    assert found == {"id": [("id", "DIRECT", "IDENTITY")], "remark": [("remark", "DIRECT", "IDENTITY")]}


def test_a_column_that_was_dropped_at_the_source_is_in_the_schema_and_comes_from_nowhere() -> None:
    operation = increment()
    stored = (("ID", "bigint"), ("gone", "string"), ("note", "string"), ("updated_at", "timestamp"))
    dataset = written(operation, results=applied(operation), stored=stored)
    assert [field.name for field in dataset.fields] == ["ID", "gone", "note", "updated_at"]
    assert [field.name for field in dataset.fields if "keeps its values" in field.description] == ["gone"]
    assert set(columns_of(dataset)) == {"ID", "note", "updated_at"}, "as the lake spells them"


def test_columns_that_cdc_ops_adds_are_described_and_come_from_no_column() -> None:
    own = MetadataColumns(op="_op", synced_at="_at", operation="_number", deleted_at="_deleted_at")
    operation = increment(stored_as=TableStorage(own=own), deleted_column="_deleted")
    dataset = written(operation)
    added = {field.name: field for field in dataset.fields if field.name.startswith("_")}
    assert set(added) == {"_op", "_at", "_number", "_deleted", "_deleted_at"}
    assert all(field.description and field.type for field in added.values())
    assert not set(columns_of(dataset)) & set(added)


def test_a_column_of_the_source_that_has_the_name_of_one_of_ours_is_the_sources() -> None:
    operation = increment(schema=schema(column("id"), column("_cdc_sequence")))
    stored = (("id", "bigint"), ("_cdc_sequence", "bigint"))
    dataset = written(operation, results=applied(operation), stored=stored)
    assert [field.description for field in dataset.fields] == ["", ""]
    assert columns_of(dataset)["_cdc_sequence"] == [("_cdc_sequence", "DIRECT", "IDENTITY")]


def test_the_mark_of_deleted_rows_depends_on_the_columns_of_its_condition() -> None:
    condition = "note = 'gone' AND updated_at IS NOT NULL"
    soft = columns_of(written(increment(deleted_column="_deleted", delete_where=condition)))
    assert soft["_deleted"] == [("note", "INDIRECT", "CONDITIONAL"), ("updated_at", "INDIRECT", "CONDITIONAL")]
    hard = written(increment(delete_where=condition))
    assert "_deleted" not in columns_of(hard)
    assert ("note", "INDIRECT", "FILTER") in ways(hard.whole)


def test_versions_of_rows_are_bounded_by_the_columns_that_order_changes() -> None:
    sequence = Sequence(kind=SequenceKind.COLUMNS, type="timestamp", columns=("updated_at",), types=("timestamp",))
    both = columns_of(written(increment(stored_as=TableStorage(scd_type=2, sequence=sequence))))
    made = [("updated_at", "DIRECT", "TRANSFORMATION")]
    assert (both["__START_AT"], both["__END_AT"], both["_cdc_touched"]) == (made, made, made)
    one = written(increment(stored_as=TableStorage(sequence=sequence)))
    assert columns_of(one)["_cdc_sequence"] == [("updated_at", "DIRECT", "IDENTITY")]
    assert ("updated_at", "INDIRECT", "WINDOW") in ways(one.whole)


def test_a_sequence_that_is_no_column_comes_from_no_column() -> None:
    sequence = Sequence(kind=SequenceKind.POSITION, type=POSITION_TYPE)
    dataset = written(increment(stored_as=TableStorage(sequence=sequence)))
    assert "_cdc_sequence" in {field.name for field in dataset.fields}
    assert "_cdc_sequence" not in columns_of(dataset)


def test_a_key_that_is_compared_by_a_collation_makes_two_columns() -> None:
    loose = replace(column("code", "string"), loose="utf8mb4_general_ci", normal="HEX(WEIGHT_STRING(`code`))")
    operation = increment(schema=with_key_columns(schema(loose), ("code",)), keys=("_key_code",))
    found = lineage(operation)
    assert found.written is not None
    assert columns_of(found.written) == {"code": [("code", "DIRECT", "IDENTITY")], "_key_code": [("code", "DIRECT", "TRANSFORMATION")]}
    assert dict(found.written.columns)["_key_code"][0].flow.description == "HEX(WEIGHT_STRING(`code`))"
    assert ways(found.written.whole)[0] == ("code", "INDIRECT", "JOIN")
    assert [field.name for field in found.read[0].fields] == ["code"]


def test_a_backfill_of_columns_says_nothing_of_the_others() -> None:
    operation = increment(kind=OperationKind.BACKFILL, update_only=("note",), window=None)
    dataset = written(operation)
    assert columns_of(dataset) == {"note": [("note", "DIRECT", "TRANSFORMATION")]}
    assert ways(dataset.whole) == [("id", "INDIRECT", "JOIN")]


def test_a_snapshot_is_filtered_and_joined_by_nothing() -> None:
    assert written(increment(kind=OperationKind.SNAPSHOT_CHUNK, mode=ApplyMode.OVERWRITE, window=None)).whole == ()


def test_events_are_read_from_their_folder_and_their_columns_come_from_the_sources_table() -> None:
    batch = LogBatch(archive=ArchiveConfig(), url="s3a://events/shop.orders", files=(), before=ArchiveWatermark())
    operation = increment(log=batch, window=None)
    found = lineage(operation, results=applied(operation, read=40, updated=30))
    folder = DatasetName(namespace="s3://events", name="shop.orders")
    assert [(read.name, read.rows, bool(read.fields)) for read in found.read] == [(SOURCE, None, True), (folder, 40, False)]
    assert found.written is not None
    assert columns_of(found.written)["note"] == [("note", "DIRECT", "TRANSFORMATION")]
    alone = lineage(operation, origin=None)
    assert [(read.name, bool(read.fields)) for read in alone.read] == [(folder, True)]
    assert alone.written is not None
    assert {one.column.dataset for _, all_ in alone.written.columns for one in all_} == {folder}


def test_a_replay_reads_the_rows_of_the_tables_own_history() -> None:
    operation = increment(kind=OperationKind.REPLAY, replay=Replay(path="s3://lake/history/orders/1", since=None), window=None)
    found = lineage(operation)
    history = DatasetName(namespace="s3://lake", name="history/orders/1")
    assert [read.name for read in found.read] == [history]
    assert found.written is not None
    assert columns_of(found.written)["note"] == [("after.note", "DIRECT", "TRANSFORMATION")]


def test_several_operations_of_a_table_are_one_dataset_with_the_last_version() -> None:
    first, second = increment(1), increment(2, schema=schema(column("id"), column("added")))
    results = applied(first, 4, read=10, inserted=6, updated=3, deleted=1) | applied(second, 5, read=2, updated=2)
    found = lineage(first, second, results=results)
    assert [(read.name, read.rows) for read in found.read] == [(SOURCE, 12)]
    assert found.written is not None
    assert (found.written.version, found.written.rows, len(found.written.writes)) == (5, 11, 2)
    assert set(columns_of(found.written)) == {"id", "note", "updated_at", "added"}


@pytest.mark.parametrize("outcome", [Outcome.UNCHANGED, Outcome.NUMBER_TAKEN])
def test_what_was_equal_or_given_up_was_read_and_not_written(outcome: Outcome) -> None:
    operation = increment()
    found = lineage(operation, results=applied(operation, outcome=outcome, read=3))
    assert (found.written, [read.rows for read in found.read]) == (None, [3])


def test_what_failed_is_told_without_a_version() -> None:
    dataset = written(increment())
    assert (dataset.version, dataset.rows, dataset.results) == (None, None, ())


def test_a_key_from_before_a_change_is_joined_too() -> None:
    operation = increment(before=(column("old_id"),))
    assert operation.reads_before
    assert ("old_id", "INDIRECT", "JOIN") in ways(written(operation, previous_key=("old_id",)).whole)


@pytest.mark.parametrize(
    ("path", "namespace", "name"),
    [
        ("file:///lake/orders/", "file", "/lake/orders"),
        ("file:/lake/orders", "file", "/lake/orders"),
        ("s3a://key:secret@lake/a", "s3://lake", "a"),
        ("abfs://box@store.example.com/a/b", "abfss://box@store.example.com", "a/b"),
        ("gs://lake/a", "gs://lake", "a"),
        ("oss://lake", "oss://lake", "/"),
    ],
)
def test_folders_have_the_names_that_other_tools_give_them(path: str, namespace: str, name: str) -> None:
    assert folder_dataset(path) == DatasetName(namespace=namespace, name=name)


def test_a_name_in_a_catalog_is_that_of_its_metastore_without_a_login() -> None:
    conf = {"spark.hive.metastore.uris": "thrift://user:secret@meta:9083,thrift://other:9083"}
    assert catalog_dataset(("s", "t"), conf, "/lake") == DatasetName(namespace="hive://meta:9083", name="s.t")
    assert catalog_dataset(("s", "t"), {}, "/lake") == DatasetName(namespace="file:/lake", name="s.t")
    assert catalog_dataset((), conf, "/lake") is None
