"""What a corrected pipeline file does to a run that failed because of it, and what `state rebuild` discards: plans, no Spark."""

import json
import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cdc_ops.cli import app
from cdc_ops.core.operation.operation import Operation
from cdc_ops.core.operation.protocol.table_state import Phase
from cdc_ops.core.operation.reads import ArchiveRead
from cdc_ops.core.operation.results import Manifest
from cdc_ops.core.reconcile.diff import AbandonedOperation
from cdc_ops.core.schema.tables import TableName
from cdc_ops.errors import StateError
from cdc_ops.lake.staging.manifests import is_landed, write_manifest
from tests.declared_world import DEBEZIUM, MAXWELL, DeclaredWorld

ORDERS = TableName(schema="shop", name="orders")


@pytest.fixture
def world(tmp_path: Path) -> DeclaredWorld:
    world = DeclaredWorld(tmp_path)
    world.archive(0)
    return world


def land(operation: Operation) -> None:
    write_manifest(
        operation.target.staging,
        Manifest.of(
            operation_id=operation.operation_id, attempt="a", rows=0, bytes=0, schema_fingerprint=operation.source.schema.fingerprint
        ),
    )


def test_an_operation_that_has_landed_nothing_takes_format_settings_and_accept_of_now(world: DeclaredWorld) -> None:
    (frozen,) = world.plan().new.operations
    world.correct(
        MAXWELL, DEBEZIUM.replace('skipped.operations: "none"', 'skipped.operations: "t"') + ', accept_losses: ["skipped.operations=t"]'
    )
    plan = world.plan()
    (resumed,) = plan.unfinished
    assert plan.new.operations == ()
    assert isinstance(frozen.read, ArchiveRead)
    assert isinstance(resumed.read, ArchiveRead)
    assert (resumed.op_seq, resumed.operation_id, resumed.read.batch.files) == (frozen.op_seq, frozen.operation_id, frozen.read.batch.files)
    assert resumed.read.batch.archive.events.format == "debezium-mysql"
    assert ("skipped.operations", "t") in resumed.read.batch.archive.events.settings
    assert resumed.read.batch.archive.events.accept_losses == ("skipped.operations=t",)
    assert world.plan().unfinished == (resumed,)  # it is kept: a third run finds what the second has written
    assert any("is read with the new settings" in text for text in plan.warnings)


def test_rows_that_a_try_lands_by_the_old_settings_are_not_taken_for_those_of_the_new_ones(world: DeclaredWorld) -> None:
    (frozen,) = world.plan().new.operations
    world.correct(MAXWELL, DEBEZIUM)
    (resumed,) = world.plan().unfinished
    land(frozen)  # a try that was still alive
    assert not is_landed(resumed)
    assert world.plan().unfinished == (resumed,)


def test_an_operation_that_has_landed_stays_as_it_was_read(world: DeclaredWorld) -> None:
    (frozen,) = world.plan().new.operations
    land(frozen)
    world.correct(MAXWELL, DEBEZIUM)
    assert world.plan().unfinished == (frozen,)


def test_an_operation_that_has_landed_nothing_reads_the_files_of_a_corrected_url(world: DeclaredWorld) -> None:
    (frozen,) = world.plan().new.operations
    world.archive(0, "{}\n{}\n", folder="right")
    world.archive(2, folder="right")
    world.correct("/archive", "/right")
    (resumed,) = world.plan().unfinished
    assert isinstance(frozen.read, ArchiveRead)
    assert isinstance(resumed.read, ArchiveRead)
    assert resumed.read.batch.url == f"{world.folder}/right"
    assert [(file.path, file.size) for file in resumed.read.batch.files] == [
        ("t/partition=0/t+0+0000000000.json", 6),
        ("t/partition=0/t+0+0000000002.json", 3),
    ]


def test_a_first_load_that_has_committed_nothing_is_planned_anew_by_the_partitions_of_a_corrected_file(world: DeclaredWorld) -> None:
    (frozen,) = world.plan().new.operations
    world.correct("shop.orders:\n", "shop.orders: {partition_by: name}\n")
    plan = world.plan()
    (anew,) = plan.new.operations
    assert (frozen.target.partition_by, anew.target.partition_by) == ((), ("name",))
    assert (plan.unfinished, anew.op_seq) == ((), frozen.op_seq + 1), "a try of the old one can commit no more"
    assert any("the first load of shop.orders begins anew" in text for text in plan.warnings)
    land(anew)
    world.correct("partition_by: name", "partition_by: id")
    assert world.plan().unfinished == (anew,), "events that have landed are in the history under its number"


def test_an_operation_whose_pipeline_file_was_not_touched_stays_as_it_was_frozen(world: DeclaredWorld) -> None:
    (frozen,) = world.plan().new.operations
    assert world.plan().unfinished == (frozen,)
    assert world.plan(freeze=False).unfinished == (frozen,)


def test_state_rebuild_discards_open_operations_of_a_table_that_the_lake_does_not_have_and_burns_their_numbers(
    world: DeclaredWorld,
) -> None:
    (frozen,) = world.plan().new.operations
    rebuilt = world.rebuild()
    assert [spec.operation_id for spec in rebuilt.discarded] == [frozen.operation_id]
    assert (rebuilt.has_table, rebuilt.state.phase, rebuilt.state.op_seq) == (False, Phase.NEW, 1)
    with world.store() as store:
        assert store.open_operations("shop", ORDERS) == ()
        assert store.table_state("shop", ORDERS) == rebuilt.state
    shown = world.plan(freeze=False)
    assert (shown.unfinished, shown.new.idle) == ((), "")
    (planned,) = world.plan().new.operations
    assert planned.op_seq == frozen.op_seq + 1  # a try of the discarded one that commits later finds a larger number, or is found


def test_the_command_says_what_it_has_discarded_and_with_what_the_table_begins(
    world: DeclaredWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CDC_OPS_LEDGER", f"sqlite:///{world.folder / 'ledger.db'}")
    monkeypatch.setenv("CDC_OPS_PIPELINES", str(world.folder))
    world.plan()
    told = CliRunner().invoke(app, ["state", "rebuild"])
    assert told.exit_code == 0, told.output
    assert "no Delta table" in told.output
    assert "1 unfinished operation was discarded" in told.output
    (plan,) = json.loads(CliRunner().invoke(app, ["plan", "--json"]).output)
    assert "interrupted" not in json.dumps(plan)
    (again,) = json.loads(CliRunner().invoke(app, ["state", "rebuild", "--json"]).output)
    assert (again["discarded"], again["state"]["op_seq"]) == ([], 1)


def test_the_command_says_which_operation_the_table_holds_and_not_which_number_is_burnt(
    world: DeclaredWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CDC_OPS_LEDGER", f"sqlite:///{world.folder / 'ledger.db'}")
    monkeypatch.setenv("CDC_OPS_PIPELINES", str(world.folder))
    world.run()
    world.archive(1)
    assert [operation.op_seq for operation in world.plan().new.operations] == [2]
    told = CliRunner().invoke(app, ["state", "rebuild"]).output
    assert re.search(r"operation 1, Delta version 0, watermark [\d :.-]+; 1 unfinished operation was discarded", " ".join(told.split()))
    assert [operation.op_seq for operation in world.plan().new.operations] == [3]


def test_an_open_operation_of_another_version_is_refused_with_the_command_that_discards_it(world: DeclaredWorld) -> None:
    """Plans are not kept readable across versions; state, number and lake are."""
    (frozen,) = world.plan().new.operations
    _write_otherwise(world, frozen.operation_id)
    with world.store() as store, pytest.raises(StateError, match="cannot be read from the ledger") as refused:
        store.open_operations("shop", ORDERS)
    assert refused.value.next.startswith(f"cdc-ops state rebuild --pipeline shop --table {ORDERS} ")
    assert "unknown field path, slices" in refused.value.why
    with pytest.raises(StateError, match="cannot be read from the ledger"):
        world.plan()
    rebuilt = world.rebuild()
    assert [(one.op_seq, one.operation_id) for one in rebuilt.discarded] == [(frozen.op_seq, frozen.operation_id)]
    (planned,) = world.plan().new.operations
    assert planned.op_seq == frozen.op_seq + 1


def test_of_an_operation_of_another_version_that_was_given_up_its_number_and_identity_are_read(world: DeclaredWorld) -> None:
    (frozen,) = world.plan().new.operations
    _write_otherwise(world, frozen.operation_id, status="abandoned")
    with world.store() as store:
        found = store.last_abandoned("shop", ORDERS)
    assert found == AbandonedOperation(op_seq=frozen.op_seq, operation_id=frozen.operation_id, run_id=frozen.plan.run_id, kind=frozen.kind)


def _write_otherwise(world: DeclaredWorld, operation_id: str, status: str = "open") -> None:
    """Writes the plan of an operation as an earlier version did: without groups."""
    with closing(sqlite3.connect(world.folder / "ledger.db")) as ledger, ledger:
        [(text,)] = ledger.execute("SELECT spec FROM cdc_operations WHERE operation_id = ?", (operation_id,)).fetchall()
        plan = {name: value for name, value in json.loads(text).items() if name not in ("read", "apply", "target", "source")}
        old = json.dumps(plan | {"slices": [], "path": "/lake"})
        ledger.execute("UPDATE cdc_operations SET spec = ?, status = ? WHERE operation_id = ?", (old, status, operation_id))
