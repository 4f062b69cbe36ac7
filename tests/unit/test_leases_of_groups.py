"""A group's leases are taken one after the other by name: two runs of the same tables never wait for each other."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest

from cdc_ops.core.schema.tables import TableName
from cdc_ops.errors import LeaseHeldError
from cdc_ops.steps.runs import table_groups
from cdc_ops.steps.runs.table_groups import GroupPlan, plan_group


class Runs:
    """Two runs, of which B stands where A plans; leases are a dictionary, and a pause is what B does meanwhile."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, pause: Callable[["Runs"], None], lease_wait: float = 60) -> None:
        self.leases: dict[str, str] = {}
        self.pauses = 0
        self._wait, self._pause, self._now = lease_wait, pause, 0.0
        monkeypatch.setattr(table_groups, "freeze_table", self._freeze)
        monkeypatch.setattr(table_groups, "hold", lambda *_: ())
        monkeypatch.setattr(table_groups, "record_failure", lambda *_: None)
        monkeypatch.setattr(table_groups, "time", SimpleNamespace(monotonic=lambda: self._now, sleep=self._sleep))

    def take(self, name: str, holder: str) -> bool:
        return self.leases.setdefault(name, holder) == holder

    def plan(self, *names: str) -> GroupPlan:
        runs = SimpleNamespace(lease_wait=timedelta(seconds=self._wait), run_retention=timedelta())
        store = SimpleNamespace(now=lambda: datetime(2026, 1, 1, tzinfo=UTC), prune=lambda *_: 0)
        context = SimpleNamespace(pipeline=SimpleNamespace(runs=runs), store=store)
        configs = tuple(SimpleNamespace(pipeline="shop", table=TableName(schema="shop", name=name)) for name in names)
        return plan_group(cast(Any, context), cast(Any, None), cast(Any, None), cast(Any, configs))

    def _freeze(self, _context: Any, _source: Any, _request: Any, config: Any) -> Any:
        if not self.take(config.table.name, "A"):
            raise LeaseHeldError(f"B holds {config.table}", why="", data="", next="")
        return SimpleNamespace(config=config, operations=(), name=config.table.name)

    def _sleep(self, seconds: float) -> None:
        self._now += seconds
        self.pauses += 1
        self._pause(self)


def test_a_run_that_waits_for_a_table_holds_none_behind_it(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    def b_goes_on(runs: Runs) -> None:
        assert runs.take("sales", "B"), "each would wait for the other, until its time is over"
        runs.leases.clear()  # B has both, and ends

    runs = Runs(monkeypatch, b_goes_on)
    runs.take("orders", "B")
    plan = runs.plan("sales", "orders")
    assert (runs.pauses, caplog.messages) == (1, ["waiting: B holds shop.orders"])
    assert [one.config.table.name for one in plan.plans] == ["sales", "orders"], "in the order of the pipeline file"
    assert plan.failures == ()


def test_a_table_that_stays_held_fails_and_those_behind_it_are_planned(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = Runs(monkeypatch, lambda _: None, lease_wait=5)
    runs.take("lines", "B")
    plan = runs.plan("orders", "lines", "customers")
    assert [one.config.table.name for one in plan.plans] == ["orders", "customers"]
    assert [one.config.table.name for one in plan.failures] == ["lines"]
    assert runs.pauses == 3
