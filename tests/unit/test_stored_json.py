"""JSON that ledgers and Delta logs hold already: what earlier code wrote is read, and written the same, byte for byte."""

import json
from datetime import UTC, datetime
from typing import Any, Final

import pytest

from cdc_ops.cli.output.render import report_data
from cdc_ops.core import json_codec
from cdc_ops.core.archive.completeness import MissingEvents
from cdc_ops.core.archive.watermarks import Gap
from cdc_ops.core.cursor.cursors import CursorValue
from cdc_ops.core.cursor.late_rows import LateRows
from cdc_ops.core.cursor.windows import Window
from cdc_ops.core.operation.operation import OperationKind
from cdc_ops.core.operation.protocol.commit_json import parse_record, render_record
from cdc_ops.core.operation.protocol.commit_record import CommitRecord
from cdc_ops.core.operation.results import Counts, Repairs
from cdc_ops.core.phases import PhaseSeconds, RunPhase
from cdc_ops.core.schema.table_identity import TableIdentity
from cdc_ops.core.schema.tables import TableName
from cdc_ops.errors import StateError
from cdc_ops.state.table_run import TableRun, TableRunStatus
from cdc_ops.steps.runs.run import RunReport
from tests.operations import made

NOON: Final = datetime(2026, 1, 5, 12, tzinfo=UTC)
WINDOW: Final = Window(low=CursorValue(parts=("1",)), high=CursorValue(parts=("9",)))
IDENTITY: Final[dict[str, Any]] = {
    "pipeline": "shop",
    "table": TableName(schema="shop", name="orders"),
    "run_id": "r1",
    "kind": OperationKind.INCREMENT,
}

RUN: Final = made(
    TableRun,
    **IDENTITY,
    trigger="scheduled",
    status=TableRunStatus.COMMITTED,
    started_at=NOON,
    finished_at=NOON.replace(minute=1),
    window=WINDOW,
    op_seq=3,
    delta_version=7,
    counts=Counts(read=8, inserted=5, updated=2, deleted=1, bytes=900, quarantined=1),
    message="1 record is in quarantine",
    schema_changes=("column price added",),
    late_rows=2,
    max_commit_lag=90.5,
    fresh_at=NOON,
    files=4,
    size_bytes=9000,
    held_by="transaction 7",
    advice="Set lookback to 2 minutes.",
    alert="1 gap in the archive",
    warnings=("no index on updated_at",),
    note="operation 3 was committed by another attempt",
    told_before=6,
    phases=(PhaseSeconds(phase=RunPhase.MERGE, seconds=1.5),),
    missing=MissingEvents(gaps=(Gap(stream="orders-0", low=(4,), high=(6,)),)),
)
STORED_RUN: Final = (
    '{"advice":"Set lookback to 2 minutes.","alert":"1 gap in the archive","asks":null,"cost":null,'
    '"counts":{"behind":0,"blank":0,"bytes":900,"columns":'
    '{"changes":[],"declared":false,"lacking":[],"rows":0,"statements":[],"undeclared":[],"unmapped":[]},"deleted":1,"inserted":5,'
    '"nulled":{"columns":[],"counted":true},"quarantined":1,"read":8,"reread":[],"unknown":{"records":0,"shown":[],"tables":0},'
    '"updated":2},"delta_version":7,"files":4,"finished_at":"2026-01-05T12:01:00+00:00",'
    '"fresh_at":"2026-01-05T12:00:00+00:00","held_by":"transaction 7","kind":"increment",'
    '"late_rows":2,"max_commit_lag":90.5,'
    '"max_lag":null,"message":"1 record is in quarantine","missing":{"gaps":['
    '{"after_file":"","before_file":"","high":[6],"low":[4],"reason":"","stream":"orders-0"}'
    '],"healing":false},"note":"operation 3 was committed by another attempt","op_seq":3,"phases":[{"phase":"merge","seconds":1.5}],'
    '"pipeline":"shop","run_id":"r1","schema_changes":["column price added"],"silent":false,"size_bytes":9000,'
    '"started_at":"2026-01-05T12:00:00+00:00",'
    '"status":"committed","table":{"name":"orders","schema":"shop"},"told_before":6,"trigger":"scheduled","warnings":["no index on '
    'updated_at"],"window":{"high":{"parts":["9"]},"low":{"parts":["1"]}},"wrong_request":false}'
)

FIRST_RUN: Final = made(TableRun, **IDENTITY, trigger="cli", status=TableRunStatus.FAILED, started_at=NOON, message="No space left")
STORED_FIRST_RUN: Final = (
    '{"kind":"increment","message":"No space left","pipeline":"shop","run_id":"r1","started_at":"2026-01-05T12:00:00+00:00",'
    '"status":"failed","table":{"name":"orders","schema":"shop"},"trigger":"cli"}'
)
"""A line of a version that had none of the optional fields."""

RECORD: Final = made(
    CommitRecord,
    **IDENTITY,
    generation=1,
    op_seq=7,
    operation_id="op-7",
    package_version="1.2",
    window=WINDOW,
    watermark=CursorValue(parts=("9",)),
    rows=8,
    keys=("id",),
    cursor=("updated_at",),
    schema_fingerprint="f1",
    deleted_column="_deleted",
    key_rules=(("code", "utf8mb4_general_ci"),),
    identity=TableIdentity(made="16384", exact=True, origin="7/1"),
    late=LateRows(rows=2, oldest="3", below=90_500_000),
    marked=1,
)
STORED_RECORD: Final = (
    '{"approval":null,"archive":null,"cdc_ops":1,"cursor":["updated_at"],"deleted_column":"_deleted","generation":1,"identity":{"exact":true,'
    '"made":"16384","number":"","origin":"7/1","server":""},"key_rules":[["code","utf8mb4_general_ci"]],"keys":["id"],"kind":"increment","late":{"below":90500000,"oldest":"3","rows":2},"marked":1,"op_seq":7,'
    '"operation_id":"op-7","own":{"deleted":"_deleted","deleted_at":"","op":"","operation":"","sequence":"_cdc_sequence","synced_at":""},'
    '"package_version":"1.2","pipeline":"shop","rows":8,"run_id":"r1","schema_fingerprint":"f1","snapshot":null,"table":{"name":"orders",'
    '"schema":"shop"},"watermark":{"parts":["9"]},"window":{"high":{"parts":["9"]},"low":{"parts":["1"]}}}'
)


def beside_counts(text: str) -> dict[str, Any]:
    """The fields of a stored run, without the counts: these get more fields, with defaults, from time to time."""
    return {name: value for name, value in json.loads(text).items() if name != "counts"}


def test_a_line_of_a_run_is_read_and_written_as_it_is_stored() -> None:
    assert json_codec.loads(TableRun, STORED_RUN) == RUN
    written = json_codec.dumps(RUN)
    assert beside_counts(written) == beside_counts(STORED_RUN)
    assert json.loads(written)["counts"]["read"] == 8


def test_what_was_put_right_stands_beside_the_rows_as_it_is_stored() -> None:
    repairs = {"reread": ["damaged"], "widened": ["id"], "not_by_tasks": ["no memory"], "corrected_bounds": 2}
    counts = json_codec.from_data(Counts, {"read": 3, **repairs})
    assert counts == Counts(read=3, repairs=Repairs(reread=("damaged",), widened=("id",), not_by_tasks=("no memory",), corrected_bounds=2))
    assert json.loads(json_codec.dumps(counts)).items() >= repairs.items()


def test_the_json_of_a_run_that_users_read_has_all_fields_beside_each_other() -> None:
    report = report_data(RunReport(runs=(RUN,), failures=()))
    assert set(report["tables"][0]) == set(json_codec.field_names(TableRun)) == set(json.loads(STORED_RUN))


def test_a_line_without_the_fields_that_came_later_is_read() -> None:
    assert json_codec.loads(TableRun, STORED_FIRST_RUN) == FIRST_RUN


@pytest.mark.parametrize("name", ["pipeline", "trigger", "status", "started_at"])
def test_a_line_that_lacks_what_every_run_has_is_refused(name: str) -> None:
    stored = {field: value for field, value in json.loads(STORED_FIRST_RUN).items() if field != name}
    with pytest.raises(StateError, match=name):
        json_codec.loads(TableRun, json.dumps(stored))


def test_a_commit_record_is_read_and_written_as_delta_logs_have_it() -> None:
    assert parse_record(STORED_RECORD) == RECORD
    assert render_record(RECORD) == STORED_RECORD
    before = parse_record(STORED_RECORD.replace('"origin":"7/1",', ""))
    assert before is not None
    assert before.columns.identity == TableIdentity(made="16384", exact=True), "of a version that did not record the server"
