"""Ends of ranges of changes: how they are told, and which versions they are; and what a table's log says before Spark reads anything."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import cdc_ops
from cdc_ops.cli import app
from cdc_ops.core.archive.watermarks import ArchiveWatermark, PartitionWatermark
from cdc_ops.core.change_range import Bound, BoundKind, ChangeMode, LoggedCommit, parse_bound, version_at
from cdc_ops.core.cursor.cursors import CursorValue
from cdc_ops.core.operation.operation import OperationKind
from cdc_ops.core.operation.protocol.commit_json import render_record
from cdc_ops.core.operation.protocol.commit_record import CommitRecord
from cdc_ops.core.pipeline.table_settings import CHANGE_FEED
from cdc_ops.core.schema.tables import TableName
from cdc_ops.errors import CdcError, ChangesUnavailableError, RequestError
from cdc_ops.lake.log.change_feed_log import find_range
from tests.operations import made

START = datetime(2026, 1, 1, tzinfo=UTC)


def record(op_seq: int, *parts: str, archive: ArchiveWatermark | None = None) -> CommitRecord:
    return made(
        CommitRecord,
        pipeline="shop",
        table=TableName(schema="shop", name="orders"),
        generation=1,
        op_seq=op_seq,
        operation_id=f"o{op_seq}",
        run_id="run",
        kind=OperationKind.INCREMENT,
        package_version="0",
        watermark=CursorValue(parts=parts) if parts else None,
        keys=("id",),
        archive=archive,
    )


def commits(*records: CommitRecord | None, first: int = 0) -> list[LoggedCommit]:
    """Commits a minute apart, newest first."""
    made = [LoggedCommit(version=first + n, at=START + timedelta(minutes=n), record=one) for n, one in enumerate(records)]
    return made[::-1]


@pytest.mark.parametrize(
    ("value", "kind", "meant"),
    [
        (12, BoundKind.VERSION, 12),
        ("12", BoundKind.VERSION, 12),
        ("version:0", BoundKind.VERSION, 0),
        ("2026-01-01T01:00:00+01:00", BoundKind.TIME, START),
        ("time:2026-01-01T00:00:00Z", BoundKind.TIME, START),
        (START, BoundKind.TIME, START),
        ("watermark:2026-01-01 00:00:00.5, 7", BoundKind.WATERMARK, "2026-01-01 00:00:00.5, 7"),
        ("watermark: 1200", BoundKind.WATERMARK, "1200"),
    ],
)
def test_an_end_is_a_version_an_instant_or_a_watermark(value: Any, kind: BoundKind, meant: Any) -> None:
    bound = parse_bound(value, "begin")
    assert bound.kind is kind
    assert meant == {BoundKind.VERSION: bound.version, BoundKind.TIME: bound.at, BoundKind.WATERMARK: bound.text}[kind]


@pytest.mark.parametrize("value", ["", "yesterday", "-1", "1.5", "watermark:", "version:x", "2026-01-01T00:00:00", datetime(2026, 1, 1)])
def test_what_is_no_end_is_refused(value: Any) -> None:
    with pytest.raises(RequestError):
        parse_bound(value, "begin")


def at(text: str | int, log: list[LoggedCommit]) -> int:
    return version_at(parse_bound(text, "begin"), log, "begin")


def test_a_time_reaches_the_newest_commit_made_at_it_or_before() -> None:
    log = commits(None, record(1), record(2), None)
    assert [at(text, log) for text in ("2026-01-01T00:02:00Z", "2026-01-01T00:02:59Z", "2030-01-01T00:00:00Z", "2025-12-31T00:00:00Z")] == [
        2,
        2,
        3,
        -1,
    ]
    with pytest.raises(RequestError, match="does not reach back") as caught:
        at("2025-12-31T00:00:00Z", commits(record(8), first=8))
    assert "version 8, of 2026-01-01T00:00:00+00:00" in caught.value.why


def test_a_watermark_reaches_the_first_commit_that_has_it_so_that_later_backfills_are_missed_by_nobody() -> None:
    log = commits(None, record(1), record(2, "9"), record(3, "10"), record(4, "10"), None, record(5, "12"))
    assert [at(f"watermark:{value}", log) for value in (9, 10, 11, 12)] == [2, 3, 3, 6]
    with pytest.raises(RequestError, match="has not reached the watermark 13 yet") as caught:
        at("watermark:13", log)
    assert caught.value.why == "Its newest watermark is 12."
    with pytest.raises(RequestError, match="does not reach back"):
        at("watermark:8", log)


def test_watermarks_are_ordered_by_what_they_are() -> None:
    moments = commits(None, record(1, "2026-01-01 00:00:00.000000"), record(2, "2026-01-01 00:00:00.500000", "7"))
    assert [at(f"watermark:{value}", moments) for value in ("2026-01-01 00:00:00.25", "2026-01-01T00:00:00.5, 7")] == [1, 2]
    days = commits(None, record(1, "2026-01-09"), record(2, "2026-01-10"))
    assert at("watermark:2026-01-09", days) == 1
    with pytest.raises(RequestError, match="is not a watermark of this table"):
        at("watermark:soon", days)
    offsets = [ArchiveWatermark(streams=(PartitionWatermark(stream="t/0", to=(number,)),)) for number in (900, 1000)]
    assert at("watermark:999", commits(None, *(record(n, archive=offset) for n, offset in enumerate(offsets)))) == 1


def test_a_watermark_that_went_back_or_whose_first_commit_may_be_gone_is_refused() -> None:
    back = commits(None, record(1, "5"), record(2, "9"), record(3, "6"), record(4, "8"))
    assert [at(f"watermark:{value}", back) for value in (6, 7, 8)] == [3, 3, 4]
    with pytest.raises(RequestError, match="was set back since") as caught:
        at("watermark:5", back)
    assert "does not reach back" in caught.value.what
    with pytest.raises(RequestError, match="does not reach back"):
        at("watermark:5", commits(record(1, "5"), record(2, "9"), first=4))
    with pytest.raises(RequestError, match="does not reach back"):
        version_at(Bound(kind=BoundKind.WATERMARK, text="5"), commits(None, record(1)), "begin")


def test_the_package_knows_changes_without_loading_spark() -> None:
    assert "changes" in cdc_ops.__all__
    with pytest.raises(AttributeError, match="no attribute 'change'"):
        _ = cdc_ops.change  # type: ignore[attr-defined]
    assert list(ChangeMode) == ["op_key_only", "data_before", "data_before_after"]


class Log:
    """A table of which only the log is there, and the files that a test leaves."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "orders"
        (self.path / "_delta_log").mkdir(parents=True)
        self.version = -1

    def commit(self, *actions: dict[str, Any], files: tuple[str, ...] = (), op_seq: int = 0) -> None:
        self.version += 1
        info: dict[str, Any] = {"timestamp": int((START + timedelta(minutes=self.version)).timestamp() * 1000)}
        if op_seq:
            info["userMetadata"] = render_record(record(op_seq, str(op_seq)))
        named = [{"cdc" if file.startswith("_change_data") else "add": {"path": file, "dataChange": True}} for file in files]
        lines = [json.dumps(one, separators=(",", ":")) for one in ({"commitInfo": info}, *actions, *named)]
        (self.path / "_delta_log" / f"{self.version:020d}.json").write_text("\n".join(lines))
        for file in files:
            (self.path / file).parent.mkdir(exist_ok=True)
            (self.path / file).touch()

    def find(self, begin: int, end: int | None = None) -> Any:
        return find_range(str(self.path), parse_bound(begin, "begin"), None if end is None else parse_bound(end, "end"))

    def refused(self, begin: int, end: int | None = None) -> CdcError:
        with pytest.raises(ChangesUnavailableError) as caught:
            self.find(begin, end)
        return caught.value


def metadata(*columns: tuple[str, str], feed: bool = True) -> dict[str, Any]:
    fields = [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in columns]
    configuration = {CHANGE_FEED: "true"} if feed else {}
    return {"metaData": {"schemaString": json.dumps({"type": "struct", "fields": fields}), "configuration": configuration}}


@pytest.fixture
def log(tmp_path: Path) -> Log:
    log = Log(tmp_path)
    log.commit(metadata(("id", "integer"), ("name", "string"), feed=False))
    log.commit(files=("a.parquet",), op_seq=1)
    log.commit(metadata(("id", "integer"), ("name", "string")))
    log.commit(files=("b.parquet", "_change_data/c.parquet"), op_seq=2)
    log.commit(files=("d%20e.parquet",), op_seq=3)
    (log.path / "d e.parquet").touch()
    return log


def test_a_range_is_found_with_its_times_and_the_newest_record(log: Log) -> None:
    found = log.find(1)
    assert (found.begin, found.end, [version for version, _ in found.times], found.widened) == (1, 4, [2, 3, 4], False)
    assert found.times[0][1] == START + timedelta(minutes=2)
    assert log.find(2, 3).record.op_seq == 2
    assert log.find(4).times == ()


def test_what_is_no_range_is_refused(log: Log, tmp_path: Path) -> None:
    for ends in ((3, 2), (5,), (2, 9)):
        with pytest.raises(RequestError, match="are not a valid range"):
            log.find(*ends)
    with pytest.raises(RequestError, match="No Delta table exists"):
        find_range(str(tmp_path / "other"), parse_bound(1, "begin"), None)


def test_changes_from_before_the_feed_was_on_are_refused_and_so_are_those_from_while_it_was_off(log: Log) -> None:
    assert "its change feed was off at version 1." in log.refused(0).what
    log.commit(metadata(("id", "integer"), ("name", "string"), feed=False))
    off = log.refused(2)
    assert ("off at version 5." in off.what, off.why) == (True, "It is still off.")
    log.commit(metadata(("id", "integer"), ("name", "string")))
    assert log.refused(2).why == "It was switched on by version 6."
    assert log.find(2, 4).end == 4


def test_a_cleaned_log_and_vacuumed_files_are_named(log: Log) -> None:
    (log.path / "b.parquet").unlink()
    assert log.find(2).end == 4, "the files of the feed are enough"
    (log.path / "_change_data/c.parquet").unlink()
    error = log.refused(2)
    assert "VACUUM removed files with the changes of version 3 and earlier" in error.what
    assert "Start after version 3," in error.next
    assert log.find(3).end == 4
    (log.path / "_delta_log" / f"{3:020d}.json").unlink()
    assert "its log no longer has version 3" in log.refused(2).what


def test_many_files_are_found_by_a_listing(log: Log) -> None:
    names = tuple(f"_change_data/{number}.parquet" for number in range(40))
    log.commit(files=names, op_seq=4)
    assert log.find(4).end == 5
    (log.path / names[7]).unlink()
    assert names[7] in log.refused(4).why


def test_widened_columns_are_read_and_others_refused(log: Log) -> None:
    log.commit(metadata(("id", "long"), ("name", "string"), ("note", "string")))
    assert (log.find(2).widened, log.find(4).widened, log.find(5).widened) == (True, True, False)
    log.commit(metadata(("id", "string"), ("note", "string")), files=("f.parquet",), op_seq=4)
    error = log.refused(2)
    assert "its columns at version 5 differ from the current ones" in error.what
    assert error.why.startswith("Column id changed from bigint to string;")
    assert "Start after version 6," in error.next
    assert log.refused(5).why == error.why, "a commit that replaces the columns removes rows of the old ones"
    log.commit(files=("g.parquet",), op_seq=5)
    assert log.find(6).end == 7


FILE = """\
pipeline: {name}
source: {{kind: mysql, connection: shop_db}}
target: {{root: {folder}, staging: {folder}/staging}}
tables: {{shop.orders: {{path: {path}, cursor: updated_at}}}}
"""


def test_the_command_refuses_before_spark_starts(log: Log, tmp_path: Path) -> None:
    (tmp_path / "pipelines").mkdir()

    def ask(*words: str) -> tuple[int, str]:
        result = CliRunner().invoke(app, ["changes", *words, "--pipelines", str(tmp_path / "pipelines")])
        return result.exit_code, result.output

    (tmp_path / "pipelines" / "shop.yaml").write_text(FILE.format(name="shop", folder=tmp_path, path=log.path))
    for words, code, text in (
        (("shop.orders", "--from", "0"), 4, "its change feed was off"),
        (("shop.orders", "--from", "soon"), 2, "--from='soon' is not an end"),
        (("shop.orders", "--from", "2", "--output", str(tmp_path)), 2, "already exists"),
        (("shop.others", "--from", "2"), 2, "No pipeline has the table shop.others"),
    ):
        assert (ask(*words)[0], text in ask(*words)[1]) == (code, True), ask(*words)
    (tmp_path / "pipelines" / "twice.yaml").write_text(FILE.format(name="twice", folder=tmp_path, path=log.path))
    assert "More than one pipeline has the table shop.orders" in ask("shop.orders", "--from", "2")[1]
