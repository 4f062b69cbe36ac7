"""Data files that are written without Spark: Spark reads them as its own, and a commit of Delta's makes them the table's once."""

import json
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from cdc_ops.core.operation.operation import Operation
from cdc_ops.core.schema.server_types.mysql_types import COLUMN, TypeMapping, mysql_mapping
from cdc_ops.decode.stored import NotPlainError, stored_values
from cdc_ops.errors import LakeConflictError
from cdc_ops.lake.data_files.commit import FileTransaction, can_commit, commit_files, why_not_plain
from cdc_ops.lake.data_files.writer import CODECS, DataFile, remove_data_files, write_data_file
from cdc_ops.lake.log.delta_log import DeltaLog
from cdc_ops.lake.log.head import find_commit, read_head
from cdc_ops.lake.table.create import ensure_table, translated_conflicts
from tests.lake_case import PIPELINE, TABLE, Lake
from tests.stores import at

COLUMNS = {
    **{"id": "bigint", "tiny": "tinyint", "small": "smallint", "whole": "int", "price": "decimal(12,2)", "huge": "decimal(38,10)"},
    **{"flag": "boolean", "half": "float", "ratio": "double", "day": "date", "wall": "timestamp_ntz", "moment": "timestamp"},
    **{"name": "string", "raw": "binary", "nothing": "string"},
}


@pytest.fixture
def lake(spark: SparkSession, tmp_path: Path) -> Lake:
    return Lake(spark, tmp_path)


def rows(count: int = 1000) -> list[tuple[Any, ...]]:
    wall = datetime(1580, 3, 1, 12, 30, 0, 123456)
    return [
        (
            *(number - 500, number % 128 - 64, number, number * 1000, Decimal(number) / 100 - 3),
            None if number % 7 == 0 else Decimal(number) * Decimal("12345678901234567890.0123456789"),
            *(number % 2 == 0, number / 4, number / 8, date(1580, 3, 1) + timedelta(days=number * 200)),
            *(wall + timedelta(hours=number), datetime(2020, 1, 1, 0, 0, 0, 999, UTC) + timedelta(seconds=number)),
            *(None if number % 3 == 0 else f"Ünï {number:06}", f"b{number}".encode(), None),
        )
        for number in range(count)
    ]


def batch(lake_rows: list[tuple[Any, ...]]) -> pa.RecordBatch:
    kinds = {
        **{"bigint": pa.int64(), "tinyint": pa.int8(), "smallint": pa.int16(), "int": pa.int32(), "decimal(12,2)": pa.decimal128(12, 2)},
        **{"decimal(38,10)": pa.decimal128(38, 10), "boolean": pa.bool_(), "float": pa.float32(), "double": pa.float64()},
        **{"date": pa.date32(), "timestamp_ntz": pa.timestamp("us"), "timestamp": pa.timestamp("us", tz="UTC")},
        **{"string": pa.string(), "binary": pa.binary()},
    }
    columns = zip(*lake_rows, strict=True)
    return pa.record_batch(
        {name: pa.array(list(column), kinds[kind]) for (name, kind), column in zip(COLUMNS.items(), columns, strict=True)}
    )


def statistics_of(path: str) -> dict[str, Any]:
    log = DeltaLog(path)
    [added] = [action for _, action in log.actions(log.newest() or 0, "add")]
    found: dict[str, Any] = json.loads(added["stats"], parse_float=Decimal)
    return found


def test_spark_reads_the_rows_of_a_file_as_its_own_and_delta_would_say_the_same_of_it(spark: SparkSession, tmp_path: Path) -> None:
    ddl = ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())
    path = str(tmp_path / "own")
    spark.createDataFrame(rows(), ddl).coalesce(1).write.format("delta").option("delta.enableDeletionVectors", "true").save(path)
    (tmp_path / "ours").mkdir()
    file = write_data_file(str(tmp_path / "ours"), [batch(rows()[:400]), batch(rows()[400:])], set(COLUMNS))
    assert file is not None
    assert (file.rows, file.size) == (1000, (tmp_path / "ours" / file.name).stat().st_size)
    ours = spark.read.parquet(str(tmp_path / "ours"))
    assert ours.schema == spark.read.format("delta").load(path).schema
    assert ours.orderBy("id").collect() == spark.read.format("delta").load(path).orderBy("id").collect()
    own, told = statistics_of(path), json.loads(file.statistics, parse_float=Decimal)
    for name in ("half", "ratio"):  # a footer does not tell of NaN
        del own["minValues"][name], own["maxValues"][name]
    assert told == own
    assert told["nullCount"]["nothing"] == 1000


def test_bounds_are_left_out_where_they_could_hide_a_row(tmp_path: Path) -> None:
    table = pa.table({"text": ["b" * 40, "a" * 40], "ratio": [1.0, float("nan")], "other": [1, 2]})
    file = write_data_file(str(tmp_path), table.to_batches(), {"text", "ratio"})
    assert file is not None
    told = json.loads(file.statistics)
    assert (told["minValues"], told["maxValues"]) == ({"text": "a" * 32}, {})
    assert told["nullCount"] == {"text": 0, "ratio": 0}


def test_rows_of_many_groups_are_one_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cdc_ops.lake.data_files.writer._GROUP_BYTES", 1)
    parts = [pa.record_batch({"id": pa.array([number, None], pa.int64())}) for number in range(5)]
    file = write_data_file(str(tmp_path), [*parts, parts[0].slice(0, 0)], {"id"})
    assert file is not None
    assert pq.read_metadata(tmp_path / file.name).num_row_groups == 5
    assert json.loads(file.statistics) == {
        **{"numRecords": 10, "minValues": {"id": 0}, "maxValues": {"id": 4}, "nullCount": {"id": 5}, "tightBounds": True}
    }


def test_no_rows_are_no_file_and_a_failure_leaves_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cdc_ops.lake.data_files.writer._GROUP_BYTES", 1)
    assert write_data_file(str(tmp_path), [], {"id"}) is None
    seen: list[bool] = []

    def failing() -> Any:
        yield pa.record_batch({"id": pa.array([1])})
        seen.append(any(tmp_path.iterdir()))
        raise OSError("the connection is gone")

    with pytest.raises(OSError, match="gone"):
        write_data_file(str(tmp_path), failing(), {"id"})
    assert seen == [True]
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("codec", CODECS)
def test_files_have_the_compression_that_is_chosen_for_spark(spark: SparkSession, tmp_path: Path, codec: str) -> None:
    file = write_data_file(str(tmp_path), [batch(rows())], {"id"}, codec)
    assert file is not None
    assert file.name.endswith(f"{codec}.parquet") or CODECS[codec] == "none"
    footer = pq.read_metadata(tmp_path / file.name)
    wanted = {"none": "UNCOMPRESSED"}.get(CODECS[codec], codec.upper())
    assert {footer.row_group(0).column(place).compression for place in range(footer.num_columns)} == {wanted}
    assert spark.read.parquet(str(tmp_path)).count() == 1000


def test_values_that_repeat_are_a_dictionary_and_others_are_not(tmp_path: Path) -> None:
    table = pa.table({"status": ["new", "paid"] * 50_000, "id": range(100_000)})
    file = write_data_file(str(tmp_path), table.to_batches(), {"id"})
    assert file is not None
    group = pq.read_metadata(tmp_path / file.name).row_group(0)
    assert [group.column(place).has_dictionary_page for place in range(2)] == [True, False]


def test_the_number_of_a_table_whose_log_has_no_checksum_is_found_too(lake: Lake) -> None:
    operation = created(lake)
    first = commit_files(lake.spark, operation, [file_for(lake)], record_of(lake, operation))
    assert first is not None
    lost = [at(f"{lake.path}/_delta_log/{first:020}.crc"), at(f"{lake.path}/_delta_log/.{first:020}.crc.crc")]
    assert lost[0].exists()
    for path in lost:
        path.unlink(missing_ok=True)
    lake.spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
    assert commit_files(lake.spark, operation, [file_for(lake)], record_of(lake, operation)) is None


def file_for(lake: Lake, first: int = 1) -> DataFile:
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    made = pa.record_batch(
        {
            "id": pa.array([first, first + 1], pa.int64()),
            "name": pa.array(["a", "b"]),
            "amount": pa.array([Decimal("1.50"), None], pa.decimal128(10, 2)),
            "updated_at": pa.array([moment, moment], pa.timestamp("us", tz="UTC")),
        }
    )
    file = write_data_file(lake.path, [made], {"id"})
    assert file is not None
    return file


def created(lake: Lake, number: int = 1, **changes: Any) -> Operation:
    operation = lake.case.operation(number, **changes)
    ensure_table(lake.spark, operation)
    return operation


def record_of(lake: Lake, operation: Operation) -> str:
    """Returns the record that a run would commit with."""
    from cdc_ops import __version__
    from cdc_ops.core.cursor.late_rows import NONE_LATE
    from cdc_ops.core.operation.protocol.commit_json import render_record
    from cdc_ops.core.operation.protocol.commit_record import commit_record

    return render_record(commit_record(operation, rows=2, package_version=__version__, late=NONE_LATE, marked=0, archive=None))


def test_a_commit_of_files_has_rows_number_record_and_counts(lake: Lake) -> None:
    operation = created(lake)
    assert can_commit(lake.spark)
    version = commit_files(lake.spark, operation, [file_for(lake)], record_of(lake, operation))
    head, found = read_head(lake.path, PIPELINE, TABLE), find_commit(lake.path, operation.operation_id)
    assert head is not None
    assert found is not None
    assert (head.version, head.txn_version, found.version) == (version, 1, version)
    assert found.metrics["numOutputRows"] == "2"
    assert [(row["id"], row["amount"]) for row in lake.spark.read.format("delta").load(lake.path).orderBy("id").collect()] == [
        (1, Decimal("1.50")),
        (2, None),
    ]
    assert lake.spark.read.format("delta").load(lake.path).where("id = 2").count() == 1


def test_a_number_that_the_table_has_is_not_committed_again(lake: Lake) -> None:
    operation = created(lake)
    first = commit_files(lake.spark, operation, [file_for(lake)], record_of(lake, operation))
    again = file_for(lake, first=3)
    assert first is not None
    assert commit_files(lake.spark, operation, [again], record_of(lake, operation)) is None
    assert DeltaLog(lake.path).newest() == first
    remove_data_files(lake.path, [again.name])
    assert lake.spark.read.format("delta").load(lake.path).count() == 2


def test_of_two_commits_under_one_number_one_is_refused(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    operation = created(lake)
    files = [file_for(lake), file_for(lake)]
    inner: list[int | None] = []
    append = FileTransaction.commit_append

    def in_between(transaction: FileTransaction, record: str) -> int:
        if not inner:  # the other one commits when this one has begun
            inner.append(None)
            inner[0] = commit_files(lake.spark, operation, files[:1], record_of(lake, operation))
        return append(transaction, record)

    monkeypatch.setattr(FileTransaction, "commit_append", in_between)
    with pytest.raises(LakeConflictError), translated_conflicts("a test"):
        commit_files(lake.spark, operation, files[1:], record_of(lake, operation))
    assert inner == [DeltaLog(lake.path).newest()]
    assert lake.spark.read.format("delta").load(lake.path).count() == 2


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"properties": (("delta.columnMapping.mode", "name"),)}, "it has the property delta.columnMapping"),
        ({"properties": (("delta.enableRowTracking", "true"),)}, "it has the property delta.enableRowTracking"),
        ({"partition_by": ("name",)}, "it is partitioned"),
        ({}, ""),
    ],
)
def test_tables_that_ask_more_of_a_file_are_left_to_spark(lake: Lake, changes: dict[str, Any], why: str) -> None:
    created(lake, **changes)
    log = DeltaLog(lake.path)
    found = why_not_plain(log.state(log.newest() or 0))
    assert found.startswith(why) if why else not found


def test_rows_of_such_files_are_changed_skipped_and_told_to_readers_of_changes_as_all_others(lake: Lake) -> None:
    operation = created(lake, properties=(("delta.enableChangeDataFeed", "true"),))
    first = commit_files(lake.spark, operation, [file_for(lake), file_for(lake, first=101)], record_of(lake, operation))
    assert first is not None
    lake.apply(lake.case.operation(2), [(2, "changed"), (500, "new")])
    table = lake.spark.read.format("delta").load(lake.path)
    assert [tuple(row) for row in table.select("id", "name").orderBy("id").collect()] == [
        *((1, "a"), (2, "changed"), (101, "a"), (102, "b"), (500, "new"))
    ]
    assert len(table.where("id = 101").select("_metadata.file_path").distinct().collect()) == 1
    feed = lake.spark.read.format("delta").option("readChangeFeed", "true").option("startingVersion", first).load(lake.path)
    counted = {row[0]: row[1] for row in feed.groupBy("_change_type").count().collect()}
    assert counted == {"insert": 5, "update_preimage": 1, "update_postimage": 1}
    lake.spark.sql(f"OPTIMIZE delta.`{lake.path}`")
    assert lake.spark.read.format("delta").load(lake.path).count() == 5


DECODED = {"date": [60, 366, 719528, 3652424, 59, 1, -1, None], "bigint unsigned": [0, 5, 2**63 - 1, -1, None]}
for _kind in ("datetime(6)", "timestamp(6)"):
    DECODED[_kind] = [-62162035200000000, -1, 1, 253402300799999999, 0, -62162035200000001, -9223372036854775807, None]


@pytest.mark.parametrize("declared", DECODED)
def test_a_finished_value_is_what_sparks_decoder_makes_of_it_or_refused(spark: SparkSession, tmp_path: Path, declared: str) -> None:
    mapping = mysql_mapping(declared)
    assert isinstance(mapping, TypeMapping)
    decoder = mapping.decoded("c") if declared != "bigint unsigned" else COLUMN.replace(COLUMN, "c")
    values = DECODED[declared]
    carried = "bigint" if declared != "date" else "int"
    frame = spark.createDataFrame([(value,) for value in values], f"c {carried}")
    expected = [str(row[0]) for row in frame.selectExpr(f"CAST(CAST({decoder} AS {mapping.delta_type}) AS STRING)").collect()]
    found: dict[int, pa.Array] = {}
    for number, value in enumerate(values):
        with suppress(NotPlainError):
            travelled = pa.array([value], pa.int32() if carried == "int" else pa.int64())
            found[number] = stored_values(travelled, mapping.finish, mapping.delta_type)
    assert len(found) == {"date": 5, "bigint unsigned": 4, "datetime(6)": 6, "timestamp(6)": 7}[declared]
    stored = pa.table({"number": list(found), "c": pa.concat_arrays(list(found.values()))})
    write_data_file(str(tmp_path), stored.to_batches(), ())
    shown = spark.read.parquet(str(tmp_path)).selectExpr("number", "CAST(c AS STRING)").collect()
    assert {row[0]: str(row[1]) for row in shown} == {number: expected[number] for number in found}
