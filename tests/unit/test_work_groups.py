"""Tables that share a Spark application: one that takes long does not hold the others' commits."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from hypothesis import given
from hypothesis import strategies as st

from cdc_ops.core.operation.operation import OperationKind
from cdc_ops.core.operation.run_request import RunKind, RunRequest
from cdc_ops.core.phases import PhaseSeconds, RunPhase
from cdc_ops.core.pipeline.pipeline import TableConfig
from cdc_ops.core.pipeline.table_settings import Method, TableSettings
from cdc_ops.core.schema.tables import TableName
from cdc_ops.core.work_groups import LONG_SECONDS, work_groups
from cdc_ops.state.sql import SqlStateStore, open_store
from cdc_ops.steps.runs.work_groups import groups_of_run
from tests.state_values import NOON, PIPELINE, run


def table(name: str, **settings: Any) -> TableConfig:
    return TableConfig(pipeline=PIPELINE, table=name_of(name), settings=TableSettings.of(**settings), path=f"/lake/{name}")


def name_of(name: str) -> TableName:
    return TableName(schema="shop", name=name)


def names(groups: tuple[tuple[TableConfig, ...], ...]) -> list[list[str]]:
    return [[one.table.name for one in group] for group in groups]


def test_without_long_tables_the_order_of_the_file_is_cut() -> None:
    tables = [table(name) for name in "abcde"]
    assert names(work_groups(tables, 2, {})) == [["a", "b"], ["c", "d"], ["e"]]
    assert names(work_groups(tables, 20, {name_of("c"): LONG_SECONDS - 1})) == [["a", "b", "c", "d", "e"]]
    assert work_groups([], 2, {}) == ()


def test_a_long_table_has_an_application_of_its_own_behind_the_others() -> None:
    seconds = {name_of("b"): 4_000.0, name_of("d"): LONG_SECONDS}
    assert names(work_groups([table(name) for name in "abcde"], 2, seconds)) == [["a", "c"], ["e"], ["d"], ["b"]]


@given(seconds=st.lists(st.none() | st.floats(0, 10_000), max_size=12), per_job=st.integers(1, 5))
def test_each_table_is_in_one_group_and_no_group_is_too_large(seconds: list[float | None], per_job: int) -> None:
    tables = [table(f"t{number}") for number in range(len(seconds))]
    known = {one.table: taken for one, taken in zip(tables, seconds, strict=True) if taken is not None}
    groups = work_groups(tables, per_job, known)
    assert sorted(one.table.name for group in groups for one in group) == sorted(one.table.name for one in tables)
    assert all(0 < len(group) <= per_job for group in groups)
    assert all(len(group) == 1 for group in groups if any(known.get(one.table, 0) >= LONG_SECONDS for one in group))


class Ledger:
    """A ledger with runs that took so long."""

    def __init__(self, folder: Path) -> None:
        self.store: SqlStateStore = open_store(f"sqlite:///{folder}/ledger.db")
        self.number = 0

    def ran(self, name: str, seconds: float, kind: OperationKind = OperationKind.INCREMENT) -> None:
        self.number += 1
        phases = (PhaseSeconds(phase=RunPhase.MERGE, seconds=seconds),)
        at = NOON + timedelta(minutes=self.number)
        done = run(f"run-{self.number}", at, table=name_of(name))
        self.store.record(replace(done, kind=kind, timing=replace(done.timing, phases=phases)))

    def groups(self, *tables: TableConfig, kind: RunKind = RunKind.INCREMENT) -> list[list[str]]:
        pipeline = SimpleNamespace(name=PIPELINE, runs=SimpleNamespace(tables_per_job=20))
        context = SimpleNamespace(pipeline=pipeline, store=self.store)
        return names(groups_of_run(cast(Any, context), RunRequest(run_id="r", trigger="cli", holder="h", kind=kind), tables))


def test_what_a_table_took_in_its_newest_run_of_that_kind_decides(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    ledger.ran("a", 5_000)
    ledger.ran("a", 2)  # the large batch is over
    ledger.ran("b", 900)
    ledger.ran("c", 900, OperationKind.RECONCILE)
    tables = [table(name) for name in "abc"]
    assert ledger.groups(*tables) == [["a", "c"], ["b"]]
    assert ledger.groups(*tables, kind=RunKind.RECONCILE) == [["a", "b"], ["c"]]


def test_tables_of_an_archive_stay_together_because_they_share_its_reading(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    ledger.ran("a", 900)
    ledger.ran("b", 900)
    assert ledger.groups(table("a", method=Method.LOG), table("b"), table("c")) == [["a", "c"], ["b"]]
