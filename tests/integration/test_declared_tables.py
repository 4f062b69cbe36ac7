"""Tables that are fed from an archive alone, from the pipeline file to the lake: events of servers that nobody asks."""

import json
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from cdc_ops.config.loading import load_pipeline
from cdc_ops.core.operation.job import JobSpec, StepResult
from cdc_ops.core.operation.reads import ArchiveRead
from cdc_ops.core.operation.results import Outcome
from cdc_ops.errors import JobLostError
from cdc_ops.jobs import execute
from cdc_ops.sources.base import open_source
from cdc_ops.state.sql import open_store
from cdc_ops.steps.context import Context
from cdc_ops.steps.discovery import discover
from cdc_ops.steps.recover import Rebuilt, rebuild_table
from cdc_ops.steps.runs.run import RunReport, run_pipeline
from tests.conftest import GOLDEN
from tests.stores import place
from tests.world import request

HEAD = """\
pipeline: shop
source:
  kind: none
  dialect: {dialect}
  tables:
    {table}: {columns}
target: {{root: "{root}/lake", staging: "{root}/staging"}}
archive:
  url: "{root}/archive/{{schema}}.{{table}}"
  format: {format}
  settings: {settings}
  time_zone: "{zone}"
  min_file_age: 0s
defaults: {{method: log}}
tables:
  {table}:
"""


class Declared:
    """A pipeline file with one declared table, its archive, and runs of it."""

    def __init__(self, folder: Path, spark: SparkSession, form: str, columns: dict[str, str], dialect: str) -> None:
        self.folder, self.spark = folder, spark
        folder.mkdir(exist_ok=True)
        self.golden = GOLDEN / form
        described = json.loads((self.golden / "table.json").read_text("utf-8"))
        self.table = described["table"]
        self.text = HEAD.format(
            dialect=dialect,
            table=self.table,
            columns=json.dumps(columns),
            root=place(folder),
            format=form,
            settings=json.dumps(described["settings"]),
            zone=described.get("time_zone", ""),
        )
        (folder / "shop.yaml").write_text(self.text, "utf-8")
        self.offset = 0
        self.jobs: list[JobSpec] = []
        self.dies = False
        """If jobs die before they do anything, as a Spark application that cannot start."""

    def archive(self, *cases: str) -> None:
        """Archives the records of golden cases as one file."""
        self.archive_lines([line for case in cases for line in (self.golden / f"{case}.jsonl").read_text("utf-8").splitlines() if line])

    def archive_lines(self, lines: list[str]) -> None:
        """Archives records as one file."""
        topic = place(self.folder) / "archive" / self.table / "partition=0"
        topic.mkdir(parents=True, exist_ok=True)
        (topic / f"{self.table}+0+{self.offset:010}.json").write_text("".join(f"{line}\n" for line in lines), "utf-8")
        self.offset += len(lines)

    def run(self) -> RunReport:
        """One whole run in this process."""
        pipeline = load_pipeline(self.folder / "shop.yaml", {})
        with closing(open_store(f"sqlite:///{self.folder / 'ledger.db'}")) as store, closing(open_source(pipeline.source, "")) as source:
            context = Context(pipeline=pipeline, store=store, connect=lambda config: open_source(config, ""))
            return run_pipeline(context, source, request(), self._execute)

    def lake(self) -> list[dict[str, Any]]:
        """The rows of the Delta table, by their key."""
        schema, _, name = self.table.partition(".")
        rows = self.spark.read.format("delta").load(f"{place(self.folder)}/lake/{schema}/{name}").drop("_cdc_sequence").collect()
        return sorted((row.asDict() for row in rows), key=str)

    def correct(self, old: str, new: str) -> None:
        """Replaces a part of the pipeline file."""
        text = (self.folder / "shop.yaml").read_text("utf-8")
        assert old in text
        (self.folder / "shop.yaml").write_text(text.replace(old, new), "utf-8")

    def rebuild(self) -> Rebuilt:
        """`cdc-ops state rebuild`."""
        pipeline = load_pipeline(self.folder / "shop.yaml", {})
        with closing(open_store(f"sqlite:///{self.folder / 'ledger.db'}")) as store, closing(open_source(pipeline.source, "")) as source:
            context = Context(pipeline=pipeline, store=store, connect=lambda config: open_source(config, ""))
            (config,) = discover(pipeline, source, request())
            return rebuild_table(context, request(), config)

    def execute(self, job: JobSpec) -> StepResult:
        """Runs a job in the shared session."""
        return execute(self.spark, job, "")

    def _execute(self, job: JobSpec) -> StepResult:
        if job.operations:  # else it is upkeep
            self.jobs.append(job)
        if self.dies:
            raise JobLostError("The Spark application did not start.")
        return self.execute(job)


SQL_SERVER = {"id": "bigint primary key", "amount": "decimal(10,2)", "at": "datetime2(7)"}
ORACLE = {"ID": "number(19) primary key", "RATE": "number", "SEEN": "timestamp(6) with time zone"}
GOLDENGATE = {"id": "number(18) primary key", "name": "varchar2(40 char)", "at": "timestamp(6)"}
MONGODB = {"_id": "objectId primary key", "name": "string", "flag": "bool"}


@pytest.mark.long
def test_events_of_servers_that_nobody_asks_become_tables(spark: SparkSession, tmp_path: Path) -> None:
    sql_server = Declared(tmp_path / "sqlserver", spark, "debezium-sqlserver", SQL_SERVER, "sqlserver")
    oracle = Declared(tmp_path / "oracle", spark, "debezium-oracle", ORACLE, "oracle")
    goldengate = Declared(tmp_path / "goldengate", spark, "goldengate-json", GOLDENGATE, "oracle")
    mongodb = Declared(tmp_path / "mongodb", spark, "debezium-mongodb", MONGODB, "mongodb")
    sql_server.archive("snapshot", "insert", "update")
    oracle.archive("insert", "update", "delete", "update_pk")
    goldengate.archive("insert", "update")
    mongodb.archive("snapshot", "insert", "update")
    with ThreadPoolExecutor() as pool:
        reports = list(pool.map(Declared.run, (sql_server, oracle, goldengate, mongodb)))
    for report in reports:
        assert not report.failures, [str(failure.error) for failure in report.failures]
    nine = datetime(2024, 3, 1, 9)
    row = {"amount": Decimal("12.50"), "at": nine.replace(microsecond=100000)}
    assert sql_server.lake() == [{"id": 1, **row}, {"id": 2, **row}]
    assert oracle.lake() == [{"ID": Decimal(2), "RATE": "1.500", "SEEN": nine.replace(microsecond=123456)}]
    assert goldengate.lake() == [{"id": 1, "name": "Ann", "at": nine.replace(microsecond=250000)}]
    first, second = (f"596e275826f08b2730779e0{number}" for number in (1, 2))
    assert mongodb.lake() == [{"_id": first, "name": "Ann", "flag": None}, {"_id": second, "name": "Lee", "flag": True}]
    # What events have and the file has not is told.
    undeclared = [
        text.partition("the pipeline file does not declare: ")[2].partition(";")[0] for report in reports for text in report.warnings
    ]
    assert undeclared == [
        "'born', 'code', 'flag', 'name', 'price', 'seen', 'took', 'uid'",
        "'AMOUNT', 'AT', 'BORN', 'CODE', 'NAME', 'PRICE'",
        "'amount', 'big', 'born', 'doc', 'flags', 'kind', 'price', 'seen', 'took'",
        "'any', 'big', 'code', 'doc', 'n', 'price', 'rate', 'score', 'seen', 'tags'",
    ]


def test_a_corrected_pipeline_file_is_what_an_operation_that_failed_is_read_by_and_a_discarded_one_finds_its_number_taken(
    spark: SparkSession, tmp_path: Path
) -> None:
    world = Declared(tmp_path / "w", spark, "goldengate-json", GOLDENGATE, "oracle")
    right, wrong = (
        f"format: {form}\n  settings: {json.dumps(json.loads((GOLDEN / form / 'table.json').read_text('utf-8'))['settings'])}"
        for form in ("goldengate-json", "debezium-oracle")
    )
    world.archive("insert")
    world.correct(right, wrong)
    world.dies = True
    assert len(world.run().failures) == 1
    world.dies = False
    world.correct(wrong, right)
    report = world.run()
    assert not report.failures, [str(failure.error) for failure in report.failures]
    assert [operation.op_seq for job in world.jobs for operation in job.operations] == [1, 1]
    assert [
        isinstance(operation.read, ArchiveRead) and operation.read.batch.archive.events.format
        for job in world.jobs
        for operation in job.operations
    ] == [
        "debezium-oracle",
        "goldengate-json",
    ]
    assert [row["id"] for row in world.lake()] == [1]

    world.archive("update")
    world.dies = True
    assert len(world.run().failures) == 1
    (zombie,) = world.jobs[2:]
    rebuilt = world.rebuild()
    assert [spec.op_seq for spec in rebuilt.discarded] == [2]
    world.dies = False
    assert not world.run().failures
    (fourth,) = world.jobs[3:]
    assert [operation.op_seq for operation in fourth.operations] == [3]
    rows = world.lake()
    assert [(row["id"], row["name"]) for row in rows] == [(1, "Ann")]
    (late,) = world.execute(zombie).tables
    assert [operation.outcome for operation in late.operations] == [Outcome.NUMBER_TAKEN]
    assert world.lake() == rows
    assert not world.run().failures


def told(op: str, key: int, pos: int) -> str:
    """An event of Debezium about a row of two columns, or a TRUNCATE."""
    row = {"id": key, "name": f"row {key}"}
    images = {"before": row if op == "d" else None, "after": row if op == "c" else None}
    source = {"connector": "mysql", "db": "shop", "table": "orders", "file": "bin.000001", "pos": pos, "row": 0, "snapshot": "false"}
    return json.dumps({"op": op, **images, "source": {**source, "ts_ms": 1, "gtid": f"u:{pos}"}, "ts_ms": 1})


FIRST: dict[str, tuple[str, str, list[tuple[int, bool]]]] = {
    "soft": ("c1 c2 d1", "deletes: soft", [(2, False)]),
    "soft deletes only": ("d1 d2", "deletes: soft", []),
    "soft and emptied": ("c1 t0 c2 d2", "deletes: soft", []),
    "soft without a column": ("c1 d1", "deletes: soft, except_column_list: [name]", []),
    "kept": ("c1 c2 d1", "deletes: ignore", [(1, False), (2, False)]),
    "versions": ("c1 c2 d1", "stored_as_scd_type: 2", [(1, True), (2, False)]),
}
"""Events of a table's first batch, its settings, and which keys are there then; True for those that are marked or have ended. A row that
appears and goes within a batch is in no table of current rows."""


def test_the_first_batch_of_a_table_may_delete_whatever_becomes_of_deletes(spark: SparkSession, tmp_path: Path) -> None:
    worlds = {}
    for number, (name, (events, settings, _)) in enumerate(FIRST.items()):
        world = Declared(tmp_path / f"w{number}", spark, "debezium-mysql", {"id": "bigint primary key", "name": "varchar(9)"}, "mysql")
        world.correct("{method: log}", f"{{method: log, {settings}}}")
        world.archive_lines([told(event[0], int(event[1]), 4 + place) for place, event in enumerate(events.split())])
        worlds[name] = world
    with ThreadPoolExecutor(2) as pool:
        reports = dict(zip(worlds, pool.map(Declared.run, worlds.values()), strict=True))
    for name, (_, _, wanted) in FIRST.items():
        assert not reports[name].failures, (name, [str(failure.error) for failure in reports[name].failures])
        rows = worlds[name].lake()
        assert [(row["id"], bool(row.get("_deleted")) or row.get("__END_AT") is not None) for row in rows] == wanted, name
