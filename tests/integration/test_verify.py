"""verify from end to end: equal tables ship nothing, and what differs is named."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from cdc_ops.cli import app
from cdc_ops.cli.commands.verify import TableVerifier
from cdc_ops.cli.session import LocalSpark
from cdc_ops.core.operation.job import JobSpec, StepResult
from cdc_ops.core.operation.run_request import Accepts, AskedComparison, ResyncMode, RunKind
from cdc_ops.core.pipeline.receivers import AlertKind
from cdc_ops.core.reconcile.diff import CompareLevel
from cdc_ops.dev.servers import MariaDBServer
from cdc_ops.lake.diff.comparison import TableComparison
from cdc_ops.sources.base import JdbcRead, open_source
from cdc_ops.state.sql import open_reader
from cdc_ops.steps.discovery import discover
from cdc_ops.steps.planning.reconcile import plan_verification
from cdc_ops.steps.runs.run import RunReport
from cdc_ops.steps.table.source_table import read_source_table
from cdc_ops.steps.verify import verify
from tests.world import ORDERS, World, request

ROWS = 3_000


@pytest.fixture
def world(mariadb: MariaDBServer, spark: SparkSession, tmp_path: Path) -> World:
    world = World(mariadb, tmp_path, spark)
    fill = f"INSERT INTO orders (customer, amount) SELECT CONCAT('c', seq), seq / 7 FROM seq_1_to_{ROWS}"
    world.sql(ORDERS, fill, "ANALYZE TABLE orders")
    assert not world.run().failures
    return world


def compared(world: World, reads: list[JdbcRead]) -> TableComparison:
    source = open_source(world.pipeline.source, world.url)
    make_read = source.jdbc_read
    try:
        [config] = discover(world.pipeline, source, request())
        question = plan_verification(source, read_source_table(world.pipeline, source, config), 2)
        source.jdbc_read = lambda schema, slices: reads.append(make_read(schema, slices)) or reads[-1]  # type: ignore[method-assign]
        return verify(world.spark, source, question)
    finally:
        source.close()


def test_equal_tables_are_compared_without_reading_a_row_of_them(world: World) -> None:
    reads: list[JdbcRead] = []
    found = compared(world, reads)
    assert found.equal
    assert (found.rows_source, found.rows_lake) == (ROWS, ROWS)
    assert len(reads) == 1  # the one that the checksums borrow their settings from


def test_what_differs_is_counted_and_named(world: World) -> None:
    world.sql("DELETE FROM orders WHERE id = 5", "UPDATE orders SET amount = 1 WHERE id = 1000")
    world.spark.sql(f"DELETE FROM delta.`{world.path('orders')}` WHERE id = 2000")
    found = compared(world, [])
    assert (found.only_in_lake, found.only_in_source, found.different) == (1, 1, 1)
    assert (found.rows_source, found.rows_lake) == (ROWS - 1, ROWS - 1)
    assert found.samples == (("different", ("1000",)), ("only in lake", ("5",)), ("only in source", ("2000",)))


def repaired(world: World, *, repair: bool = True) -> dict[str, Any]:
    """What `cdc-ops verify --repair` tells of the table, in the shared session."""
    source = open_source(world.pipeline.source, world.url)
    context = world.context()
    try:
        [config] = discover(world.pipeline, source, request())
        verifier = TableVerifier(context=context, source=source, spark=HereSpark(world))
        return verifier.compare(config, repair=repair)
    finally:
        source.close()
        context.store.close()


def test_a_table_that_is_not_loaded_yet_is_no_crash_and_says_how_to_load_it(world: World) -> None:
    shutil.rmtree(world.path("orders"))
    found = repaired(world, repair=False)
    assert found["error"]["error"] == "RequestError"
    assert "there is no Delta table at" in found["error"]["what"]
    assert found["error"]["next"] == f"cdc-ops run --pipeline {world.pipeline.name} --table {found['table']}"


class HereSpark(LocalSpark):
    """The shared session in place of one of the command's own."""

    def __init__(self, world: World) -> None:
        super().__init__(pipeline=world.pipeline, _spark=world.spark)
        self._world = world

    def execute(self, job: JobSpec) -> StepResult:
        return self._world.execute(job)


def _done(report: RunReport) -> None:
    assert not report.failures, [str(failure.error) for failure in report.failures]


def test_what_differs_is_repaired_in_one_operation_that_reads_little_and_leaves_the_watermark(world: World) -> None:
    many = f"SELECT seq FROM seq_1_to_{ROWS} WHERE seq BETWEEN 1000 AND 1010"
    world.sql("DELETE FROM orders WHERE id = 5", f"UPDATE orders SET amount = 1, updated_at = '2020-01-01' WHERE id IN ({many})")
    world.spark.sql(f"DELETE FROM delta.`{world.path('orders')}` WHERE id = 2000")
    before = world.state("orders")
    assert "repair" not in repaired(world, repair=False)
    assert world.wrong() == [AlertKind.VERIFICATION]
    assert world.state("orders") == before
    found = repaired(world)
    assert (found["only_in_lake"], found["only_in_source"], found["different"]) == (1, 1, 11)
    [run] = found["repair"]["run"]["tables"]
    assert (run["kind"], run["status"]) == ("reconcile", "committed")
    assert tuple(run["counts"][name] for name in ("inserted", "updated", "deleted")) == (1, 11, 1)
    assert run["counts"]["read"] < ROWS / 2
    assert found["repair"]["equal"]
    after = world.state("orders")
    assert (after.op_seq, after.progress.watermark) == (before.op_seq + 1, before.progress.watermark)
    assert compared(world, []).equal
    assert world.lake("orders", "id, amount") == world.source("orders", "id, amount")
    assert repaired(world)["equal"]
    assert world.state("orders") == after
    assert world.wrong() == []


def test_a_repair_deletes_no_more_than_a_reconcile_may_and_says_what_is_left(world: World) -> None:
    world.sql("DELETE FROM orders WHERE id > 2000")
    found = repaired(world)
    [failure] = found["repair"]["run"]["failures"]
    assert failure["error"] == "DeletesRefusedError"
    assert (found["repair"]["equal"], found["repair"]["left"]["only_in_lake"]) == (False, ROWS - 2000)
    assert len(world.lake("orders", "id")) == ROWS
    assert world.wrong() == [AlertKind.DELETES, AlertKind.VERIFICATION], "the failure of the run is said once"
    with open_reader(world.ledger) as reader:
        [asked] = [run.waits_for.asks for run in reader.history("shop", world.name("orders")) if run.waits_for.asks]
    assert (asked.deletes, bool(asked.keys)) == (ROWS - 2000, True)
    world.run()
    assert world.wrong() == [AlertKind.DELETES, AlertKind.VERIFICATION], "an increment compares nothing"
    _done(world.run(kind=RunKind.RECONCILE, tables=(str(world.name("orders")),), accepts=Accepts(deletes=ROWS)))
    assert world.wrong() == [], "it was of keys, and so was what differed"


@pytest.mark.parametrize(
    "parts",
    [
        {"kind": RunKind.RECONCILE, "compare": AskedComparison(strength=CompareLevel.ROWS)},
        {"kind": RunKind.RESYNC, "mode": ResyncMode.FULL},
    ],
)
def test_a_difference_is_over_when_a_later_run_has_made_the_table_equal(world: World, parts: dict[str, Any]) -> None:
    world.sql("UPDATE orders SET amount = 4, updated_at = '2020-01-01' WHERE id IN (5, 1005)")
    assert not repaired(world, repair=False)["equal"]
    _done(world.run(kind=RunKind.RECONCILE))
    assert world.wrong() == [AlertKind.VERIFICATION], "the same keys say nothing of values"
    _done(world.run(**parts))
    assert world.wrong() == []
    assert repaired(world, repair=False)["equal"], "so it is"


PIPELINES = """\
pipeline: {name}
source: {{kind: mysql, connection: {connection}}}
target: {{root: "{root}", staging: "{root}/staging"}}
defaults: {{cursor: [updated_at, id]}}
tables: {{{tables}}}
"""


def write_pipelines(world: World, monkeypatch: pytest.MonkeyPatch, tables: dict[str, str], name: str = "shop") -> None:
    """Pipeline files of these entries, by name of the pipeline; `nowhere` is a connection that is not set."""
    folder = world.folder / "pipelines"
    folder.mkdir(exist_ok=True)
    entries = ", ".join(f'"{world.database}.{table}": {{{settings}}}' for table, settings in tables.items())
    connection = "shop_db" if name == "shop" else "nowhere"
    text = PIPELINES.format(name=name, connection=connection, root=world.pipeline.target.root, tables=entries)
    (folder / f"{name}.yaml").write_text(text, "utf-8")
    monkeypatch.setenv("CDC_OPS_PIPELINES", str(folder))
    monkeypatch.setenv("CDC_OPS_LEDGER", world.ledger)
    monkeypatch.setenv("CDC_OPS_CONN_SHOP_DB", world.url)
    monkeypatch.setattr(LocalSpark, "session", lambda self, small=False: world.spark)


def verified(*arguments: str) -> tuple[int, dict[str, Any]]:
    """The exit code, and what is said of each table, or of a pipeline without one."""
    result = CliRunner().invoke(app, ["verify", "--json", *arguments])
    assert isinstance(result.exception, SystemExit | None), result.exception
    documents = json.loads(result.stdout)
    assert isinstance(documents, list), documents
    return result.exit_code, {item.get("table", item["pipeline"]): item for item in documents}


def test_tables_that_the_source_does_not_show_fail_alone_and_the_others_are_compared(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.sql(ORDERS.replace("orders", "gone"), "INSERT INTO gone (customer, amount) VALUES ('c', 1)")
    assert not world.run().failures
    world.sql("DROP TABLE gone")
    here, gone, never = (f"{world.database}.{name}" for name in ("orders", "gone", "never"))
    write_pipelines(world, monkeypatch, {"orders": "", "gone": "", "never": ""})
    code, found = verified()
    assert (code, set(found)) == (5, {here, gone, never})
    assert found[here]["equal"]
    assert {found[name]["error"]["error"] for name in (gone, never)} == {"SourceTableError"}
    shown = CliRunner().invoke(app, ["verify"])
    assert (shown.exit_code, shown.stdout.count("failed"), shown.stdout.count("equal")) == (5, 2, 1)
    write_pipelines(world, monkeypatch, {"*": ""})
    code, found = verified()
    assert (code, set(found)) == (5, {here, gone}), "the lake has it, and a pattern covers it"
    assert verified("--table", gone)[0] == 5
    write_pipelines(world, monkeypatch, {"*": "dropped_tables: ignore"})
    code, found = verified()
    assert (code, set(found)) == (0, {here})
    write_pipelines(world, monkeypatch, {"other": ""}, name="another")
    code, found = verified()
    assert (code, set(found)) == (5, {here, "another"})
    assert found[here]["equal"]
