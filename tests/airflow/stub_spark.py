"""A stand-in for spark-submit: a process of its own that does to Delta logs and results what Spark would, in a tenth of a second.

It is started by the real hook with the real command line and environment, both of which it writes down. `STUB_PLAN` names a JSON file
`{step: {table: how}}` with how = "retryable", "fatal", "drop" (fatal, and the Delta table is gone), "die" (the process kills itself
before it does anything) or "die late" (when all is done, before it writes a result); beside the tables, "sleep" gives seconds and "once"
makes the next start go well.
"""

import json
import os
import shutil
import signal
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

from cdc_ops import __version__
from cdc_ops.core import json_codec
from cdc_ops.core.apply.apply_spec import Landing
from cdc_ops.core.maintenance import TableStats, Upkeep
from cdc_ops.core.operation.job import JobSpec, Step, StepResult, TableResult
from cdc_ops.core.operation.operation import Operation, app_id
from cdc_ops.core.operation.protocol.commit_json import render_record
from cdc_ops.core.operation.protocol.commit_record import commit_record
from cdc_ops.core.operation.results import Counts, Manifest, OperationResult, Outcome
from cdc_ops.core.schema.tables import TableName
from cdc_ops.errors import CdcError, LakeConflictError, NullKeyError
from cdc_ops.lake.file_io import read_text, write_text
from cdc_ops.lake.staging.manifests import read_manifest, write_manifest


def main() -> None:
    job = json_codec.loads(JobSpec, read_text(sys.argv[-1]))
    how = json.loads(Path(os.environ["STUB_PLAN"]).read_text()).get(job.step.value, {})
    record = {
        "step": job.step.value,
        "argv": sys.argv,
        "environ": dict(os.environ),
        "tables": [str(operation.table) for operation in job.operations],
    }
    with Path(os.environ["STUB_CALLS"]).open("a") as calls:
        calls.write(json.dumps(record) + "\n")
    if how.pop("once", False):
        Path(os.environ["STUB_PLAN"]).write_text("{}")
    if "die" in how.values():
        print("java.lang.OutOfMemoryError: Java heap space", flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(float(how.pop("sleep", 0)))
    Path(os.environ["STUB_CALLS"]).with_suffix(".awake").touch()  # nobody has stopped it in its sleep
    started = datetime.now(UTC)
    late = "die late" in how.values()
    names = dict.fromkeys([operation.table for operation in job.operations] + [task.table for task in job.maintenance])
    tables = tuple(table_result(job, name, "" if late else how.get(str(name), "")) for name in names)
    if late:
        os.kill(os.getpid(), signal.SIGKILL)
    result = StepResult(step=job.step, run_id=job.run_id, tables=tables, started_at=started, finished_at=datetime.now(UTC))
    write_text(job.result_path, json_codec.dumps(result))


def table_result(job: JobSpec, name: TableName, how: str) -> TableResult:
    if how == "drop":
        [path] = {operation.target.path for operation in job.operations if operation.table == name}
        shutil.rmtree(path)
    if how:
        error: CdcError = LakeConflictError(f"{name}: stub conflict") if how == "retryable" else NullKeyError(f"{name}: stub NULL key")
        return TableResult(table=name, error=error.to_payload(), retryable=error.retryable)
    if job.step is Step.MAINTAIN:
        now = datetime.now(UTC)
        return TableResult(
            table=name, maintenance=TableStats(delta_version=9, files=1, size_bytes=1, upkeep=Upkeep(optimized_at=now, vacuumed_at=now))
        )
    results = tuple(operation_result(job.step, operation) for operation in job.operations if operation.table == name)
    return TableResult(table=name, operations=results)


def operation_result(step: Step, operation: Operation) -> OperationResult:
    if step is Step.EXTRACT or (step is Step.SYNC and operation.apply.landing is Landing.STAGED):
        manifest = Manifest.of(
            operation_id=operation.operation_id,
            attempt="a",
            rows=operation.expected_rows,
            bytes=1,
            files=1,
            schema_fingerprint=operation.source.schema.fingerprint,
        )
        write_text(f"{operation.target.staging}/a/part-0.parquet", "1")
        write_manifest(operation.target.staging, manifest)
    counts = Counts(read=operation.expected_rows, updated=operation.expected_rows)
    if step is Step.EXTRACT:
        return OperationResult(op_seq=operation.op_seq, operation_id=operation.operation_id, outcome=Outcome.LANDED, counts=counts)
    assert operation.apply.landing is Landing.DIRECT or read_manifest(operation.target.staging), "merged what was not landed"
    version = commit(operation)
    stats = TableStats(delta_version=version, files=version + 1, size_bytes=1000)
    return OperationResult(
        op_seq=operation.op_seq,
        operation_id=operation.operation_id,
        outcome=Outcome.APPLIED,
        delta_version=version,
        counts=counts,
        stats=stats,
    )


def commit(operation: Operation) -> int:
    log = Path(operation.target.path) / "_delta_log"
    log.mkdir(parents=True, exist_ok=True)
    version = len(list(log.glob("*.json")))
    metadata = render_record(commit_record(operation, rows=operation.expected_rows, package_version=__version__))
    owner = {"cdc_ops.pipeline": operation.pipeline, "cdc_ops.table": str(operation.table)}
    schema = json.dumps({"type": "struct", "fields": []})
    actions = [
        {"commitInfo": {"timestamp": int(time.time() * 1000), "operation": "MERGE", "userMetadata": metadata}},
        {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}},
        {
            "metaData": {
                "id": "x",
                "format": {"provider": "parquet"},
                "schemaString": schema,
                "partitionColumns": [],
                "configuration": owner,
            }
        },
        {"txn": {"appId": app_id(operation.pipeline, operation.table), "version": operation.op_seq}},
        {"add": {"path": f"{version}.parquet", "size": 1, "partitionValues": {}, "modificationTime": 1, "dataChange": True}},
    ]
    (log / f"{version:020d}.json").write_text("\n".join(json.dumps(action) for action in actions))
    return version


if __name__ == "__main__":
    main()
