"""A plan that waits for a table of another run holds no worker slot: it hands it back, comes again, and fails in its last turn."""

import time
from collections import deque
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from cdc_ops.airflow.turns import FIRST_PAUSE, LONGEST_PAUSE, this_turn, turn_of
from cdc_ops.core.operation.run_request import RunKind, RunRequest
from cdc_ops.core.schema.tables import TableName
from cdc_ops.errors import LeaseHeldError
from cdc_ops.state.base import StateStore
from cdc_ops.state.db.leases import LIVE_WAIT
from cdc_ops.state.sql import open_store
from cdc_ops.steps.runs import table_groups
from cdc_ops.steps.runs.table_groups import GroupPlan, IfHeld, first_held, plan_group

BEGUN = datetime(2026, 1, 1, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
TTL = timedelta(minutes=5)


def test_turns_come_at_longer_and_longer_pauses_and_the_last_one_is_at_the_end_of_the_wait_and_fails() -> None:
    now, pauses = BEGUN, list[timedelta]()
    for number in range(20):
        turn = turn_of(BEGUN, now, number, 3 * MINUTE)
        if turn.if_held is IfHeld.FAIL:
            break
        assert (turn.if_held, turn.is_later, turn.until) == (IfHeld.HAND_BACK, number > 0, BEGUN + 3 * MINUTE)
        pauses.append(turn.next_at - now)
        now = turn.next_at
    assert now == BEGUN + 3 * MINUTE, "the last turn is exactly then"
    assert pauses[:4] == [FIRST_PAUSE, 2 * FIRST_PAUSE, 4 * FIRST_PAUSE, LONGEST_PAUSE]
    assert max(pauses) == LONGEST_PAUSE < LIVE_WAIT, "the mark of a live run that waits would be gone when it comes again"


def test_a_pipeline_that_does_not_wait_fails_in_its_first_turn() -> None:
    assert turn_of(BEGUN, BEGUN, 0, timedelta()).if_held is IfHeld.FAIL


@pytest.mark.parametrize(("first", "count", "held"), [(None, None, IfHeld.HAND_BACK), (timedelta(hours=2), 40, IfHeld.FAIL)])
def test_the_wait_counts_from_the_first_turn_of_the_try(first: timedelta | None, count: int | None, held: IfHeld) -> None:
    begun = None if first is None else datetime.now(UTC) - first
    instance = SimpleNamespace(get_first_reschedule_date=lambda _: begun)
    turn = this_turn({"ti": instance, "task_reschedule_count": count}, 30 * MINUTE)
    assert (turn.if_held, turn.is_later) == (held, count is not None)


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[StateStore]:
    with open_store(f"sqlite:///{tmp_path}/ledger.db") as store:
        monkeypatch.setattr(table_groups, "freeze_table", _freeze)
        yield store


def _freeze(context: Any, _source: Any, request: RunRequest, config: Any) -> Any:
    """A plan that has something to do and so keeps its lease."""
    context.store.acquire(config.pipeline, config.table, request.holder, ttl=TTL, live=True)
    return SimpleNamespace(config=config, operations=(1,))


def _around(store: StateStore, *names: str) -> tuple[Any, Any]:
    runs = SimpleNamespace(lease_wait=30 * MINUTE, run_retention=timedelta(days=1))
    context = SimpleNamespace(pipeline=SimpleNamespace(runs=runs), store=store, lease_ttl=TTL)
    return context, tuple(SimpleNamespace(pipeline="shop", table=TableName(schema="shop", name=name)) for name in names)


def _request(name: str, kind: RunKind = RunKind.INCREMENT) -> RunRequest:
    return RunRequest(run_id=name, trigger="airflow", holder=name, kind=kind)


def _plan(store: StateStore, run: str, *names: str) -> GroupPlan:
    context, configs = _around(store, *names)
    return plan_group(context, cast(Any, None), _request(run), configs, IfHeld.HAND_BACK)


def _no_sleep(_: float) -> None:
    pytest.fail("a task waits in its slot")


def test_n_slots_with_n_plans_that_wait_for_a_run_without_a_slot_come_to_an_end(store: StateStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first run has planned; its next task stands in the queue behind as many plans as there are slots."""
    clock = SimpleNamespace(monotonic=time.monotonic, sleep=_no_sleep)
    monkeypatch.setattr(table_groups, "time", clock)  # of this module alone: threads of other tests sleep as they like
    slots, waits, done = 3, dict[str, int](), list[str]()
    assert _plan(store, "first", "orders").held is None
    waiting = [f"run {number}" for number in range(slots)]
    queue = deque([*((name, "plan") for name in waiting), ("first", "commit")])
    for _ in range(100):
        if not queue:
            break
        for name, task in [queue.popleft() for _ in range(min(slots, len(queue)))]:  # what the slots do at the same time
            if task == "commit":
                lease = store.lease("shop", TableName(schema="shop", name="orders"))
                assert lease is not None
                assert lease.holder == name
                store.release(lease)
                done.append(name)
            elif _plan(store, name, "orders").held is not None:
                waits[name] = waits.get(name, 0) + 1
                queue.append((name, "plan"))
            else:
                queue.append((name, "commit"))
    assert sorted(done) == ["first", *waiting]
    assert set(waits) == set(waiting), "each of them has waited"


def test_what_was_planned_before_the_table_that_is_held_is_planned_and_what_comes_behind_it_is_not(store: StateStore) -> None:
    _plan(store, "other", "b")
    plan = _plan(store, "mine", "c", "a", "b")
    assert ([one.config.table.name for one in plan.plans], plan.failures) == (["a"], ())
    assert "b" in str(plan.held)
    assert store.lease("shop", TableName(schema="shop", name="c")) is None


def test_a_later_turn_asks_the_ledger_alone_and_keeps_what_the_run_has(store: StateStore) -> None:
    context, configs = _around(store, "a", "b", "c")
    other = store.acquire("shop", configs[1].table, "other", ttl=TTL, live=True)
    mine = store.acquire("shop", configs[0].table, "mine", ttl=MINUTE, live=True)
    held = first_held(context, _request("mine"), configs)
    assert isinstance(held, LeaseHeldError)
    kept = store.lease("shop", configs[0].table)
    assert kept is not None
    assert kept.expires_at > mine.expires_at, "its own leases do not run out while it waits"
    store.release(other)
    with pytest.raises(LeaseHeldError, match="waits for it"):  # it keeps its place before those that are not live
        store.acquire("shop", configs[1].table, "backfill", ttl=TTL, live=False)
    assert first_held(context, _request("mine"), configs) is None
    assert store.lease("shop", configs[2].table) is None, "nobody has it, and nobody took it to look"


def test_a_backfill_that_waits_takes_no_place_before_live_runs(store: StateStore) -> None:
    context, configs = _around(store, "a")
    other = store.acquire("shop", configs[0].table, "other", ttl=TTL, live=True)
    assert first_held(context, _request("backfill", RunKind.BACKFILL), configs) is not None
    store.release(other)
    assert store.acquire("shop", configs[0].table, "resync", ttl=TTL, live=False).holder == "resync"
