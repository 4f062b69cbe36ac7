"""A pipeline file with one declared table and an archive in a folder: plans of the log method without server and Spark."""

import json
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

from cdc_ops.config.loading import load_pipeline
from cdc_ops.core.archive.watermarks import OffsetRange
from cdc_ops.core.operation.job import TableResult
from cdc_ops.core.operation.log_batch import LogBatchResult
from cdc_ops.core.operation.operation import Operation, app_id
from cdc_ops.core.operation.protocol.commit_json import render_record
from cdc_ops.core.operation.protocol.commit_record import commit_record
from cdc_ops.core.operation.reads import ArchiveRead
from cdc_ops.core.operation.results import Manifest, OperationResult, Outcome
from cdc_ops.core.operation.run_request import RunRequest
from cdc_ops.core.operation.verified_batch import after_reading
from cdc_ops.core.pipeline.archive_config import OnGap
from cdc_ops.core.pipeline.pipeline import Pipeline
from cdc_ops.lake.staging.manifests import write_manifest
from cdc_ops.sources.base import open_source
from cdc_ops.state.sql import SqlStateStore, open_store
from cdc_ops.state.table_run import TableRun
from cdc_ops.steps.commit import commit_table
from cdc_ops.steps.context import LEASE_TTL, Context
from cdc_ops.steps.discovery import discover
from cdc_ops.steps.plan import TablePlan, freeze_table, plan_table
from cdc_ops.steps.recover import Rebuilt, rebuild_table
from tests.operations import with_fields

MAXWELL = (
    "format: maxwell, accept_losses: [truncate=dropped],"
    ' settings: {output_binlog_position: "true", output_xoffset: "true", ignore_producer_error: "false"}'
)
DEBEZIUM = (
    'format: debezium-mysql, settings: {skipped.operations: "none", event.converting.failure.handling.mode: "fail",'
    ' converter.replace.null.with.default: "false", enable.time.adjuster: "false"}'
)

FILE = f"""\
pipeline: shop
source:
  kind: none
  dialect: mysql
  tables:
    shop.orders: {{id: bigint primary key, name: varchar(40)}}
target: {{root: "@/lake", staging: "@/staging"}}
archive: {{url: "@/archive", {MAXWELL}, min_file_age: 0s}}
defaults: {{method: log}}
tables:
  shop.orders:
"""

SCHEMA = json.dumps(
    {
        "type": "struct",
        "fields": [
            {"name": name, "type": kind, "nullable": True, "metadata": {}}
            for name, kind in (
                ("id", "long"),
                ("name", "string"),
                ("_cdc_sequence", {"type": "array", "elementType": "long", "containsNull": True}),
            )
        ],
    }
)


@dataclass
class DeclaredWorld:
    """One folder with everything: pipeline file, archive, ledger and lake."""

    folder: Path
    runs: int = 0
    on_gap: OnGap = OnGap.FAIL
    ttl = LEASE_TTL

    def __post_init__(self) -> None:
        self.file.write_text(FILE.replace("@", str(self.folder)))

    @property
    def file(self) -> Path:
        """The pipeline file."""
        return self.folder / "shop.yaml"

    def correct(self, old: str, new: str) -> None:
        """Replaces a part of the pipeline file, as somebody does by hand."""
        text = self.file.read_text()
        assert old in text
        self.file.write_text(text.replace(old, new))

    def archive(self, offset: int, records: str = "{}\n", folder: str = "archive") -> Path:
        """Writes a file of partition 0 as a sink does."""
        path = self.folder / folder / f"t/partition=0/t+0+{offset:010}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(records)
        return path

    def store(self) -> SqlStateStore:
        """The ledger, opened."""
        return open_store(f"sqlite:///{self.folder / 'ledger.db'}")

    def plan(self, *, freeze: bool = True) -> TablePlan:
        """Plans the table as a new run does, and gives its lease back."""
        pipeline = self._pipeline()
        with closing(self.store()) as store, closing(open_source(pipeline.source, "")) as source:
            context = Context(pipeline=pipeline, store=store, connect=lambda config: open_source(config, ""))
            request = self._request()
            (config,) = discover(pipeline, source, request)
            if not freeze:
                return plan_table(context, source, request, config)
            plan = freeze_table(context, source, request, config)
            store.release(store.acquire("shop", config.table, request.holder, ttl=context.lease_ttl, live=True))
            return plan

    def run(self) -> TableRun:
        """One whole run, with what Spark would do: files are counted, and a commit of the table stands in its Delta log."""
        plan = self.plan()
        pipeline = self._pipeline()
        results = [self._apply(operation) for operation in plan.operations]
        with closing(self.store()) as store:
            context = Context(pipeline=pipeline, store=store, connect=lambda config: open_source(config, ""))
            done = TableResult(table=plan.table, operations=tuple(results))
            settled = commit_table(context, replace(self._request(), run_id=f"run-{self.runs - 1}"), plan.config, done)
        assert settled.error is None
        return settled.run

    def _apply(self, operation: Operation) -> OperationResult:
        assert isinstance(operation.read, ArchiveRead)
        covers = []
        for file in operation.read.batch.files:
            offset, lines = int(file.path[-15:-5]), (self.folder / "archive" / file.path).read_bytes().count(b"\n")
            covers.append(OffsetRange(file=file.path, stream="t/0", low=(offset,), high=(offset + lines,)))
        proven = after_reading(operation.read.batch, covers, table=str(operation.table))
        reading = LogBatchResult(watermark=proven.watermark, covers=tuple(covers), merged=proven.merged, gaps=proven.gaps)
        write_manifest(
            operation.target.staging,
            Manifest.of(
                operation_id=operation.operation_id,
                attempt="a",
                rows=0,
                bytes=0,
                schema_fingerprint=operation.source.schema.fingerprint,
                log=reading,
            ),
        )
        log = Path(operation.target.path) / "_delta_log"
        log.mkdir(parents=True, exist_ok=True)
        record = commit_record(with_fields(operation, archive_after=proven.watermark), rows=0, package_version="1")
        version = operation.op_seq - 1
        actions: list[dict[str, object]] = [
            {"commitInfo": {"timestamp": version, "operation": "MERGE", "userMetadata": render_record(record)}},
            {"txn": {"appId": app_id(operation.pipeline, operation.table), "version": operation.op_seq, "lastUpdated": 1}},
            {"add": {"path": f"part-{version}.parquet", "size": 1, "dataChange": True}},
        ]
        if not version:
            actions += [{"protocol": {"minReaderVersion": 1}}, {"metaData": {"id": "x", "schemaString": SCHEMA, "configuration": {}}}]
        (log / f"{version:020d}.json").write_text("".join(f"{json.dumps(action)}\n" for action in actions))
        return OperationResult(op_seq=operation.op_seq, operation_id=operation.operation_id, outcome=Outcome.APPLIED, delta_version=version)

    def rebuild(self) -> Rebuilt:
        """`cdc-ops state rebuild`."""
        pipeline = self._pipeline()
        with closing(self.store()) as store, closing(open_source(pipeline.source, "")) as source:
            context = Context(pipeline=pipeline, store=store, connect=lambda config: open_source(config, ""))
            (config,) = discover(pipeline, source, self._request())
            return rebuild_table(context, self._request(), config)

    def _pipeline(self) -> Pipeline:
        pipeline = load_pipeline(self.file, {})
        return replace(pipeline, archive=replace(pipeline.archive, on_gap=self.on_gap))

    def _request(self) -> RunRequest:
        self.runs += 1
        return RunRequest(run_id=f"run-{self.runs}", trigger="test", holder=f"run-{self.runs}").checked()
