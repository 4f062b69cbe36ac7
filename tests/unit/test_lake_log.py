"""Reading a Delta log without Spark, on logs written by hand in the shapes that the protocol allows."""

import json
import uuid
from dataclasses import replace
from pathlib import Path
from typing import Any

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cdc_ops.core.operation.operation import app_id
from cdc_ops.core.operation.protocol.commit_json import render_record
from cdc_ops.core.operation.protocol.commit_record import CommitRecord, ForeignChange, LakeHead, commit_record, with_rows
from cdc_ops.core.operation.protocol.ledger_and_lake import LedgerStatus, compare
from cdc_ops.core.operation.protocol.table_state import TableState, rebuilt
from cdc_ops.errors import LakeBehindError, LedgerBehindError, StateError, TargetForeignError, TargetNotDeltaError
from cdc_ops.lake.log.head import find_commit, read_head
from tests.lake_case import PIPELINE, TABLE, Case

OURS = app_id(PIPELINE, TABLE)
OWNED = {"cdc_ops.pipeline": PIPELINE, "cdc_ops.table": str(TABLE)}
ADD = {"add": {"path": "part-0.parquet", "size": 1, "dataChange": True}}
FIELDS = [
    {"name": "id", "type": "long", "nullable": True, "metadata": {}},
    {"name": "tags", "type": {"type": "array", "elementType": "integer", "containsNull": True}, "nullable": True, "metadata": {}},
]


class Log:
    """Writes the files of a `_delta_log` below any fsspec path."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.case = Case(root=path)
        self.filesystem, self.root = fsspec.core.url_to_fs(path)
        self.filesystem.makedirs(f"{self.root}/_delta_log", exist_ok=True)

    def put(self, name: str, text: str) -> None:
        self.filesystem.pipe_file(f"{self.root}/_delta_log/{name}", text.encode())

    def remove(self, *versions: int, ending: str = ".json") -> None:
        for version in versions:
            self.filesystem.rm(f"{self.root}/_delta_log/{version:020d}{ending}")

    def commit(
        self, version: int, operation: str, *actions: dict[str, Any], info: dict[str, Any] | None = None, last: bool = False
    ) -> None:
        head = {"commitInfo": {"timestamp": version, "operation": operation, **(info or {})}}
        ordered = [*actions, head] if last else [head, *actions]
        self.put(f"{version:020d}.json", "".join(json.dumps(action, separators=(",", ":")) + "\n" for action in ordered))

    def create(self, properties: dict[str, str] = OWNED) -> None:
        self.commit(0, "CREATE TABLE", {"metaData": self.metadata(properties)}, {"protocol": {"minReaderVersion": 1}})

    def data(self, version: int, op_seq: int, operation_id: str | None = None) -> CommitRecord:
        operation = self.case.operation(op_seq, operation_id=operation_id or f"operation-{op_seq}")
        record = commit_record(operation, rows=1, package_version="1")
        txn = {"txn": {"appId": OURS, "version": op_seq, "lastUpdated": 1}}
        self.commit(version, "MERGE", txn, ADD, info={"userMetadata": render_record(record)})
        return record

    def checksum(self, version: int, txns: dict[str, int] | None, properties: dict[str, str] = OWNED) -> None:
        ids = None if txns is None else [{"appId": name, "version": number} for name, number in txns.items()]
        body = {"tableSizeBytes": 1, "numFiles": 1, "setTransactions": ids, "metadata": self.metadata(properties)}
        self.put(f"{version:020d}.crc", json.dumps({name: value for name, value in body.items() if value is not None}))

    def checkpoint(self, version: int, *names: str, txns: dict[str, int], hint: bool = True) -> None:
        """Writes a checkpoint; with several names the transaction ids go into the last part."""
        txn_type = pa.struct([("appId", pa.string()), ("version", pa.int64()), ("lastUpdated", pa.int64())])
        map_type = pa.map_(pa.string(), pa.string())
        metadata_type = pa.struct([("id", pa.string()), ("schemaString", pa.string()), ("configuration", map_type)])
        metadata = {**self.metadata({}), "configuration": list(OWNED.items())}
        ids = [{"appId": name, "version": number, "lastUpdated": None} for name, number in txns.items()]
        for index, name in enumerate(names):
            rows = [None] * 3 + (ids if index == len(names) - 1 else [])
            table = {
                "txn": pa.array(rows, txn_type),
                "add": pa.array([{"path": "f"}] * len(rows)),
                "metaData": pa.array([metadata if index == 0 else None] + [None] * (len(rows) - 1), metadata_type),
            }
            with self.filesystem.open(f"{self.root}/_delta_log/{version:020d}.checkpoint{name}", "wb") as file:
                pq.write_table(pa.table(table), file)
        if hint:
            self.put("_last_checkpoint", json.dumps({"version": version, "size": 1}))

    @staticmethod
    def metadata(properties: dict[str, str]) -> dict[str, Any]:
        return {"id": "x", "schemaString": json.dumps({"type": "struct", "fields": FIELDS}), "configuration": properties}

    def head(self) -> LakeHead | None:
        return read_head(self.path, PIPELINE, TABLE)

    def there(self) -> LakeHead:
        head = self.head()
        assert head is not None
        return head


@pytest.fixture(params=["disk", "object store"])
def log(request: pytest.FixtureRequest, tmp_path: Path) -> Log:
    return Log(str(tmp_path / "orders") if request.param == "disk" else f"memory://{uuid.uuid4().hex}/orders")


def test_nothing_at_the_path_is_no_table(tmp_path: Path) -> None:
    assert read_head(str(tmp_path / "absent"), PIPELINE, TABLE) is None
    assert read_head(str(tmp_path), PIPELINE, TABLE) is None
    assert read_head(f"file://{tmp_path}", PIPELINE, TABLE) is None
    assert find_commit(str(tmp_path), "x") is None


def test_a_log_without_commits_is_no_table(log: Log) -> None:
    log.filesystem.makedirs(f"{log.root}/_delta_log/_staged_commits", exist_ok=True)
    assert log.head() is None


def test_a_folder_with_other_files_is_refused(tmp_path: Path) -> None:
    (tmp_path / "data.csv").write_text("1")
    with pytest.raises(TargetNotDeltaError, match=r"data\.csv"):
        read_head(str(tmp_path), PIPELINE, TABLE)


def test_a_file_at_the_path_is_refused(tmp_path: Path) -> None:
    (tmp_path / "orders").write_text("1")
    with pytest.raises(TargetNotDeltaError):
        read_head(str(tmp_path / "orders"), PIPELINE, TABLE)


def test_a_table_made_and_never_loaded_is_ours_and_may_be_loaded(log: Log) -> None:
    log.create()
    head = log.there()
    assert (head.version, head.txn_version, head.record, head.created_by_us) == (0, None, None, True)
    assert head.columns == (("id", "bigint"), ("tags", "array<int>"))
    assert compare(TableState(pipeline=PIPELINE, table=TABLE), head) is LedgerStatus.EQUAL


def test_an_empty_table_that_was_made_anew_may_be_loaded_under_a_number_of_its_own(log: Log) -> None:
    log.create()
    log.commit(1, "WRITE", {"txn": {"appId": OURS, "version": 1, "lastUpdated": 1}}, {"metaData": log.metadata(OWNED)})
    head, state = log.there(), TableState(pipeline=PIPELINE, table=TABLE, op_seq=1)
    assert (head.txn_version, head.record, head.created_by_us) == (1, None, True)
    assert with_rows(head) is None
    assert compare(state, head) is LedgerStatus.EQUAL
    with pytest.raises(LedgerBehindError):
        compare(replace(state, op_seq=0), head)
    with pytest.raises(LakeBehindError):
        compare(replace(state, committed_op_seq=1), head)


def test_whether_changes_are_recorded_is_what_the_table_says(log: Log) -> None:
    log.create()
    assert not log.there().records_changes
    log.commit(1, "SET TBLPROPERTIES", {"metaData": log.metadata({**OWNED, "delta.enableChangeDataFeed": "true"})})
    assert log.there().records_changes


def test_a_table_made_by_us_and_filled_by_others_is_refused(log: Log) -> None:
    log.create()
    log.commit(1, "WRITE", ADD)
    head = log.there()
    assert not head.created_by_us
    assert head.foreign_changes == (ForeignChange(version=1, operation="WRITE"),)
    with pytest.raises(TargetForeignError):
        compare(TableState(pipeline=PIPELINE, table=TABLE), head)


def test_a_table_of_somebody_else_is_refused(log: Log) -> None:
    log.create({})
    log.commit(1, "WRITE", ADD)
    head = log.there()
    assert not head.created_by_us
    with pytest.raises(TargetForeignError, match="did not write"):
        compare(TableState(pipeline=PIPELINE, table=TABLE), head)


def test_another_pipeline_is_named_by_its_property_before_its_first_load(log: Log) -> None:
    log.create({"cdc_ops.pipeline": "crm", "cdc_ops.table": "shop.orders"})
    head = log.there()
    assert head.foreign_app_ids == ("cdc-ops/crm/shop.orders",)
    with pytest.raises(TargetForeignError, match="cdc-ops/crm"):
        compare(TableState(pipeline=PIPELINE, table=TABLE), head)


def test_the_newest_record_and_number_are_read(log: Log) -> None:
    log.create()
    log.data(1, 1)
    record = log.data(2, 2)
    head = log.there()
    assert (head.version, head.txn_version, head.record, head.record_version) == (2, 2, record, 2)
    assert head.foreign_changes == ()


def test_upkeep_after_the_newest_record_is_no_change(log: Log) -> None:
    log.create()
    record = log.data(1, 1)
    log.commit(2, "OPTIMIZE", {"add": {"path": "p", "dataChange": False}}, {"remove": {"path": "q", "dataChange": False}})
    log.commit(3, "VACUUM START")
    log.commit(4, "SET TBLPROPERTIES", {"metaData": log.metadata({**OWNED, "a": "b"})})
    head = log.there()
    assert (head.version, head.record, head.record_version, head.foreign_changes) == (4, record, 1, ())


def test_changes_by_others_after_the_newest_record_are_listed(log: Log) -> None:
    log.create()
    log.data(1, 1)
    log.commit(2, "DELETE", {"remove": {"path": "p", "dataChange": True}})
    log.commit(3, "WRITE", ADD, last=True)  # other writers put commitInfo at the end
    changes = log.there().foreign_changes
    assert [(change.version, change.operation, change.undoes_commits) for change in changes] == [(3, "WRITE", False), (2, "DELETE", False)]


@pytest.mark.parametrize("checksum", [False, True])
def test_a_checksum_saves_reading_the_commits_and_its_absence_loses_nothing(log: Log, checksum: bool) -> None:
    log.create()
    log.data(1, 1)
    if checksum:
        log.checksum(1, {OURS: 1, "cdc-ops/crm/shop.orders": 7, "somebody": 3})
    log.data(2, 2)  # the writer died before it wrote the checksum of this one
    head = log.there()
    assert head.txn_version == 2
    assert head.foreign_app_ids == (("cdc-ops/crm/shop.orders",) if checksum else ())


@pytest.mark.parametrize("text", ["", "{", "[]", '{"metadata": {}}'])
def test_a_damaged_checksum_is_passed_over(log: Log, text: str) -> None:
    log.create()
    log.data(1, 1)
    log.put(f"{1:020d}.crc", text)
    assert log.there().txn_version == 1


@pytest.mark.parametrize(
    "names",
    [
        (".parquet",),
        (".0000000001.0000000002.parquet", ".0000000002.0000000002.parquet"),
        (".5c6f1c8e-8a0f-4b44-9c0b-7a4c6b1a2d3e.parquet",),
    ],
    ids=["one file", "parts", "V2"],
)
def test_the_number_survives_the_clean_up_of_the_log(log: Log, names: tuple[str, ...]) -> None:
    log.create()
    log.data(1, 1)
    log.commit(2, "OPTIMIZE")
    log.checkpoint(2, *names, txns={OURS: 1, "cdc-ops/crm/shop.orders": 4})
    log.remove(0, 1, 2)
    log.commit(3, "VACUUM END")
    head = log.there()
    assert (head.version, head.txn_version, head.record) == (3, 1, None)
    assert head.foreign_app_ids == ("cdc-ops/crm/shop.orders",)
    assert head.columns[0] == ("id", "bigint")


def test_a_v2_checkpoint_in_json_is_read(log: Log) -> None:
    log.create()
    lines = [{"checkpointMetadata": {"version": 1}}, {"txn": {"appId": OURS, "version": 5}}, {"metaData": log.metadata(OWNED)}, ADD]
    log.put(f"{1:020d}.checkpoint.{uuid.uuid4()}.json", "\n".join(json.dumps(line, separators=(",", ":")) for line in lines))
    log.remove(0)
    head = log.there()
    assert (head.version, head.txn_version) == (1, 5)


def test_an_incomplete_checkpoint_is_not_taken(log: Log) -> None:
    log.create()
    log.data(1, 1)
    log.checkpoint(1, ".0000000001.0000000002.parquet", txns={OURS: 99}, hint=False)
    assert log.there().txn_version == 1


def test_a_hint_that_lags_behind_or_leads_nowhere_does_not_hide_commits(log: Log) -> None:
    log.create()
    for version in range(1, 6):
        log.data(version, version)
    log.checkpoint(2, ".parquet", txns={OURS: 2})
    assert log.there().version == 5
    log.checkpoint(4, ".parquet", txns={OURS: 4}, hint=False)
    log.remove(0, 1, 2, 3, 4)
    assert (log.there().version, log.there().txn_version) == (5, 5)
    log.remove(5)
    assert (log.there().version, log.there().txn_version) == (4, 4)


def test_a_log_with_a_hole_is_refused(log: Log) -> None:
    log.create()
    log.data(1, 1)
    log.data(2, 2)
    log.remove(1)
    with pytest.raises(StateError, match="incomplete"):
        log.head()


def test_after_a_restore_the_record_of_that_version_counts_and_the_number_stays(log: Log) -> None:
    log.create()
    old = log.data(1, 1)
    log.data(2, 2)
    log.data(3, 3)
    log.commit(4, "RESTORE", ADD, info={"operationParameters": {"version": "1", "timestamp": None}})
    head = log.there()
    assert (head.txn_version, head.record, head.record_version) == (3, old, 1)
    assert head.foreign_changes == (ForeignChange(version=4, operation="RESTORE"),)
    state = TableState(pipeline=PIPELINE, table=TABLE, op_seq=3, committed_op_seq=3, operation_id="operation-3", delta_version=3)
    with pytest.raises(LakeBehindError):
        compare(state, head)
    followed = rebuilt(old, head.version, txn_version=head.txn_version)
    assert (followed.op_seq, followed.progress.watermark) == (3, old.progress.watermark)
    assert compare(followed, head) is LedgerStatus.EQUAL


def test_a_restore_of_a_restore_is_followed(log: Log) -> None:
    log.create()
    first = log.data(1, 1)
    log.data(2, 2)
    log.commit(3, "RESTORE", ADD, info={"operationParameters": {"version": "1"}})
    log.data(4, 3)
    log.commit(5, "RESTORE", ADD, info={"operationParameters": {"version": "3"}})
    assert (log.there().record, log.there().record_version) == (first, 1)


def test_a_restore_that_does_not_name_its_version_leaves_no_record(log: Log) -> None:
    log.create()
    log.data(1, 1)
    log.commit(2, "RESTORE", ADD, info={"operationParameters": {"version": None, "timestamp": "2026-01-01"}})
    head = log.there()
    assert (head.txn_version, head.record) == (1, None)
    assert [change.operation for change in head.foreign_changes] == ["RESTORE"]


def test_records_of_others_are_not_taken_for_ours(log: Log) -> None:
    log.create()
    record = log.data(1, 1)
    other = render_record(commit_record(Case(root="x").operation(9, pipeline="crm"), rows=None, package_version="1"))
    log.commit(2, "WRITE", ADD, info={"userMetadata": other})
    log.commit(3, "WRITE", ADD, info={"userMetadata": "loaded by hand"})
    head = log.there()
    assert (head.record, [change.version for change in head.foreign_changes]) == (record, [3, 2])


def test_a_commit_is_found_by_its_operation_and_by_its_number(log: Log) -> None:
    log.create()
    for version in range(1, 4):
        log.data(version, version * 2)
    assert [found and found.version for found in (find_commit(log.path, "operation-4"), find_commit(log.path, 4))] == [2, 2]
    assert find_commit(log.path, "operation-9") is None
    assert find_commit(log.path, 3) is None
    log.remove(0, 1)
    assert find_commit(log.path, 2) is None
