"""The fast way to read binlogs equals the reference decoder on files of real servers, and through `spark.read.format("mysql_binlog")`."""

import gzip
import random
import sys
from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from cdc_ops import mysql_binlog
from cdc_ops.dev.databases.mysql import MySQLServer
from cdc_ops.events.binlog.decoder import BinlogFile, RowChange
from cdc_ops.events.binlog.files import open_binlog
from cdc_ops.mysql_binlog import BinlogDataSource, BinlogReader
from tests.binlog_rows import Tool
from tests.fast_binlogs import assert_equal_ways, ddl_of, exact, fast, opened, target, with_changed_bytes
from tests.integration.test_binlog_decoder import (
    DB,
    NARROW_ROWS,
    Session,
    fill_narrow,
    fill_partly_undone,
    fill_wide,
    session,  # noqa: F401
    tool,  # noqa: F401
)

NARROW = {
    **{"id": "int", "a": "bigint", "b": "string", "c": "decimal(12,2)", "d": "timestamp_ntz", "e": "timestamp", "f": "double"},
    **{"g": "string", "h": "date", "i": "string"},
}


@pytest.fixture(scope="module")
def files(session: Session) -> dict[str, Path]:  # noqa: F811
    """One file as servers write by default, and one with all that they can compress."""
    session.run(f"DROP DATABASE IF EXISTS {DB}", f"CREATE DATABASE {DB} CHARACTER SET utf8mb4", f"USE {DB}")
    session.begin_file()
    fill_wide(session)
    fill_narrow(session)
    made = {"plain": session.end_file()}
    session.run("DROP TABLE wide", "DROP TABLE narrow", "DROP TABLE digit")
    is_mysql = isinstance(session.server, MySQLServer)
    on = "SET SESSION binlog_transaction_compression = ON" if is_mysql else "SET GLOBAL log_bin_compress = ON"
    off = "SET SESSION binlog_transaction_compression = OFF" if is_mysql else "SET GLOBAL log_bin_compress = OFF"
    session.run(on)
    session.begin_file()
    fill_wide(session)
    fill_narrow(session)
    made["compressed"] = session.end_file()
    if is_mysql:
        session.begin_file()
        session.run("SET binlog_row_value_options = 'PARTIAL_JSON'", "UPDATE wide SET js = JSON_ARRAY_APPEND(js, '$', 7)")
        session.run("SET binlog_row_value_options = ''")
        made["partial"] = session.end_file()
    session.run(off)
    return made


def row_changes(path: Path, table: str) -> Iterator[RowChange]:
    for change in BinlogFile.open(path.name, open_binlog(str(path))).changes(lambda database, name: (database, name) == (DB, table)):
        if isinstance(change, RowChange):
            yield change


def types_of(path: Path, table: str) -> dict[str, str]:
    return {column.name: ddl_of(column) for column in next(row_changes(path, table)).table.columns}


@pytest.mark.parametrize("kind", ["plain", "compressed"])
def test_columns_of_every_type_equal_the_reference_decoder_with_all_row_images(files: dict[str, Path], kind: str) -> None:
    columns = types_of(files[kind], "wide")
    seen = 0
    for name, ddl in columns.items():
        if name == "id":  # is in every image
            continue
        found = assert_equal_ways(files[kind], f"{DB}.wide", {"id": "int", name: ddl})
        if isinstance(found, type):  # dates that no calendar has: as texts
            found = assert_equal_ways(files[kind], f"{DB}.wide", {"id": "int", name: "string"})
        assert not isinstance(found, type), name
        seen += len(found["rows"])
        assert any(any(row) for row in found["absent"])
    assert seen > 30 * len(columns)


@pytest.mark.parametrize("kind", ["plain", "compressed"])
def test_many_rows_of_frequent_types_equal_the_reference_decoder(files: dict[str, Path], kind: str) -> None:
    found = assert_equal_ways(files[kind], f"{DB}.narrow", NARROW, rows=7_001)
    assert found["kind"].count(1) == NARROW_ROWS
    assert len(found["rows"]) == 2 * NARROW_ROWS + NARROW_ROWS // 4


def test_changed_bytes_with_right_checksums_come_to_the_same_rows_or_an_error_in_both_ways(files: dict[str, Path]) -> None:
    path, chance, seen = files["plain"], random.Random(20), Counter[str]()
    data, columns = path.read_bytes(), types_of(path, "wide")
    columns |= {name: "string" for name, ddl in columns.items() if ddl.startswith(("date", "timestamp"))}  # zero dates
    wanted = target(f"{DB}.wide", columns, images=True)
    places = sorted({change.place.offset for change in row_changes(path, "wide")})
    for _ in range(80):
        damaged = with_changed_bytes(data, chance.choice(places), chance)
        file = opened(damaged)
        found, expected = fast(file, damaged, wanted), exact(file, wanted)
        if isinstance(found, type) or isinstance(expected, type):
            assert isinstance(found, type)
            assert isinstance(expected, type)  # of several things that are wrong, either may be told
            seen[found.__name__] += 1
        else:
            assert repr(found) == repr(expected)  # as texts, because no NaN equals itself
            seen["rows"] += 1
    assert seen["rows"] > 20
    assert seen["BinlogDamagedError"] > 20


def test_compressed_rows_are_those_that_the_servers_own_tool_prints(files: dict[str, Path], tool: Tool) -> None:  # noqa: F811
    seen = 0
    for printed, decoded in tool.pairs(files["compressed"], DB):
        assert decoded == printed
        seen += 1
    assert seen > 2 * NARROW_ROWS


def test_partial_updates_of_documents_equal_the_reference_decoder(files: dict[str, Path]) -> None:
    if "partial" not in files:
        pytest.skip("MariaDB logs documents whole")
    found = assert_equal_ways(files["partial"], f"{DB}.wide", {"id": "int", "js": "string", "v1": "string"})
    assert sum(row["js"] is not None and row["js"].endswith("7]") for row in found["rows"]) > 8


def schema(*more: str) -> str:
    return ", ".join((*(f"`{name}` {ddl}" for name, ddl in NARROW.items()), *more))


def rows(spark: SparkSession, path: object, columns: str, **options: str) -> list[dict[str, Any]]:
    spark.sparkContext.pythonExec = sys.executable
    spark.dataSource.register(BinlogDataSource)
    wanted = {"table": f"{DB}.narrow", **options}
    read = spark.read.format("mysql_binlog").schema(columns).options(**wanted).load(str(path))
    return [row.asDict(recursive=True) for row in read.orderBy("_offset", "_inner", "_row").collect()]


def as_collected(value: Any) -> Any:
    """Returns a value of Arrow as `collect` gives it: moments as the local clock showed them."""
    if isinstance(value, dict):
        return {name: as_collected(one) for name, one in value.items()}
    return value.astimezone().replace(tzinfo=None) if isinstance(value, datetime) and value.tzinfo else value


def rows_without_numba(path: Path, columns: str, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """The same rows by a process that has no kernels, without Spark: its workers cannot be patched."""
    monkeypatch.setattr(mysql_binlog, "is_available", lambda: False)
    reader = BinlogReader(StructType.fromDDL(columns), {"table": f"{DB}.narrow", "path": str(path), "splitBytes": "1"})
    [whole] = reader.partitions()
    found = [as_collected(row) for batch in reader.read(whole) for row in batch.to_pylist()]
    return sorted(found, key=lambda row: (row["_offset"], row["_inner"], row["_row"]))


def test_spark_reads_the_same_whole_and_cut_into_ranges_and_a_process_without_numba_does_too(
    spark: SparkSession, files: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    place = ("_op STRING", "_offset BIGINT", "_inner BIGINT", "_row BIGINT", "_gtid STRING", "_committed TIMESTAMP", "_time TIMESTAMP")
    columns = schema(*place, "_file STRING", "_before STRUCT<" + ", ".join(f"`{name}`: {ddl}" for name, ddl in NARROW.items()) + ">")
    whole = rows(spark, files["plain"], columns)
    assert len(whole) == 2 * NARROW_ROWS + NARROW_ROWS // 4
    assert {row["_op"] for row in whole} == {"c", "u", "d"}
    assert {row["_file"] for row in whole} == {files["plain"].name}
    assert all((row["_before"] is not None) == (row["_op"] == "u") for row in whole)
    assert all(row["_before"]["a"] == -row["a"] for row in whole if row["_op"] == "u")
    assert rows(spark, files["plain"], columns, splitBytes="1") == whole
    assert rows_without_numba(files["plain"], columns, monkeypatch) == whole


def test_positions_and_transactions_limit_what_is_read(spark: SparkSession, files: dict[str, Path]) -> None:
    columns = schema("_op STRING", "_offset BIGINT", "_inner BIGINT", "_row BIGINT", "_gtid STRING")
    whole = rows(spark, files["plain"], columns)
    scan = BinlogFile.open("f", open_binlog(str(files["plain"]))).scan
    border = next(end for end in scan.ends if end > whole[NARROW_ROWS - 1]["_offset"])
    name = files["plain"].name
    before, behind = (rows(spark, files["plain"], columns, **{word: f"{name}:{border}"}) for word in ("to", "from"))
    assert len(before) == NARROW_ROWS
    assert before + behind == whole
    if gtid := whole[0]["_gtid"]:
        assert rows(spark, files["plain"], columns, afterGtids=gtid) == behind


def test_only_what_was_committed_comes_out_of_the_table_that_is_asked_for_also_of_packed_files(
    spark: SparkSession,
    session: Session,  # noqa: F811
    tmp_path: Path,
) -> None:
    session.begin_file()
    fill_partly_undone(session)
    file = session.end_file()
    packed = tmp_path / f"{file.name}.gz"
    packed.write_bytes(gzip.compress(file.read_bytes()))
    columns = "id INT, v STRING, _op STRING, _offset BIGINT, _inner BIGINT, _row BIGINT, _before STRUCT<id: INT, v: STRING>"
    found = rows(spark, file, columns, table=f"{DB}.t", splitBytes="1")
    assert rows(spark, packed, columns, table=f"{DB}.t") == found
    held: dict[int, str] = {}
    for row in found:
        if row["_op"] != "c":
            del held[row["id"] if row["_before"] is None else row["_before"]["id"]]
        if row["_op"] != "d":
            held[row["id"]] = row["v"]
    assert held == {row["id"]: row["v"] for row in session.run("SELECT id, v FROM t")}
    assert {row["_op"] for row in found} == {"c", "u", "d"} or {row["_op"] for row in found} == {"c", "u"}


def test_a_large_file_is_cut_only_between_transactions(files: dict[str, Path]) -> None:
    from pyspark.sql.types import IntegerType, StructType

    options = {"path": str(files["plain"]), "table": f"{DB}.narrow", "splitBytes": "1"}
    parts = BinlogReader(StructType().add("id", IntegerType()), options).partitions()
    scan = BinlogFile.open("f", open_binlog(str(files["plain"]))).scan
    ranges = [(part.value.start, part.value.end) for part in parts]
    assert len(ranges) > 10
    assert [start for start, _ in ranges] == [4, *(end for _, end in ranges[:-1])]
    assert {end for _, end in ranges} <= {*scan.ends, scan.complete_to}
