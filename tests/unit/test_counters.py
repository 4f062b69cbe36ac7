"""Readings of a counter: no history of transactions and plans commits a number below a bound that they prove, and weaker rules do.

A history begins transactions, hands out numbers, commits and rolls back between any two questions of a plan; the clock stands still,
goes on, and goes back.
"""

import itertools
import random
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cdc_ops.core import json_codec
from cdc_ops.core.cursor.auto_increment import (
    MOST_READINGS,
    CounterObservation,
    CounterSample,
    CounterSamples,
    HeldBound,
    WritersOpen,
    bound_from_samples,
)

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
TICK = timedelta(microseconds=1)


def instant(tick: int) -> datetime:
    return EPOCH + tick * TICK


def reading(tick: int, counter: int) -> CounterSample:
    return CounterSample(at=instant(tick), counter=counter)


def look(newest: CounterSample, **parts: object) -> CounterObservation:
    plain = CounterObservation(server="s", up_since=instant(-1), column="id", reading=newest, handed_out=newest.counter)
    return replace(plain, **parts)  # type: ignore[arg-type]


def readings(*kept: CounterSample) -> CounterSamples:
    return CounterSamples(server="s", column="id", kept=kept)


def decide(earlier: CounterSamples | None, newest: CounterObservation, *starts: int, watermark: int = 0) -> HeldBound:
    return bound_from_samples(earlier, newest, WritersOpen(starts=tuple(map(instant, starts))), watermark)


# ------------------------------------------------------------------------------------------------------------------ every history


@dataclass(frozen=True)
class Rule:
    """What the server is like, and how plans ask and decide; the last three are ways to lose rows.

    Args:
        jumps: The clock is set back now and then.
        unsteady: Ticks by which a server says at most that a writer began earlier than it did, another time another number.
        clock_first: The clock is read before the counter.
        ties_count: A writer that began within the tick of a reading counts as later.
        clock_trusted: A reading is taken to be as old as the clock says, also when that was set back while a writer was open.
    """

    jumps: bool = False
    unsteady: int = 0
    clock_first: bool = False
    ties_count: bool = False
    clock_trusted: bool = False


class History:
    """One table, its writers, and plans whose questions are asked one by one between what the writers do."""

    def __init__(self, rule: Rule) -> None:
        self.rule = rule
        self.clock, self.next, self.highest = 10, 1, 0
        self.open: list[tuple[int, list[int]]] = []
        self.commits: list[tuple[int, int]] = []
        self.bound, self.noise = 0, 0
        self.readings: CounterSamples | None = None
        self.counter, self.at, self.seen = 0, 0, list[tuple[int, list[int]]]()
        first = (self.ask_clock, self.ask_counter) if rule.clock_first else (self.ask_counter, self.ask_clock)
        self.questions = itertools.cycle((*first, self.ask_writers, self.conclude))
        self.moves = (*(self.ask,) * 6, *(self.begin,) * 3, *(self.commit,) * 3, self.take, self.roll_back)

    def play(self, moves: list[int]) -> "History":
        """Each move is an action, which writer it is about, and whether a tick passes before it; seldom the clock goes back."""
        for move in moves:
            action, rest = divmod(move, 32)
            which, tick = divmod(rest, 8)
            self.clock += -3 if tick == 7 and self.rule.jumps else tick % 2
            self.noise = rest
            self.moves[action % len(self.moves)](which)
        return self

    def ask(self, more: int) -> None:
        for _ in range(more + 1):
            next(self.questions)()

    def begin(self, _: int) -> None:
        if len(self.open) < 3:
            self.open.append((self.clock, []))
            self.take(-1)

    def take(self, which: int) -> None:
        if self.open:
            self.open[which % len(self.open)][1].append(self.next)
            self.next += 1

    def commit(self, which: int) -> None:
        if self.open:
            _, numbers = self.open.pop(which % len(self.open))
            self.commits.append((min(numbers), self.bound))
            self.highest = max(self.highest, *numbers)

    @property
    def lost(self) -> list[tuple[int, int]]:
        """Numbers that were committed below the bound of that moment: rows that no window will read."""
        return [(number, bound) for number, bound in self.commits if number < bound]

    def roll_back(self, which: int) -> None:
        if self.open:
            self.open.pop(which % len(self.open))

    def ask_counter(self) -> None:
        self.counter = self.highest + 1

    def ask_clock(self) -> None:
        self.at = self.clock

    def ask_writers(self) -> None:
        self.seen = list(self.open)

    def conclude(self) -> None:
        """Writers that have ended since they were seen hold nothing back."""
        waiting = [one for one in self.seen if any(one is other for other in self.open)]
        if not waiting:
            self.bound = max(self.bound, self.counter)
            return
        starts = tuple(instant(start - (self.noise + index) % (self.rule.unsteady + 1)) for index, (start, _) in enumerate(waiting))
        newest = reading(self.at, self.counter)
        asked = look(newest, up_since=instant(-1000), handed_out=self.next)
        found = bound_from_samples(self.readings, asked, WritersOpen(starts=starts), self.bound)
        kept = found.readings.kept
        if self.rule.clock_trusted and kept:
            kept = (*kept[:-1], replace(kept[-1], at=min(kept[-1].at, newest.at)))
        if self.rule.ties_count and kept:
            kept = (*kept[:-1], replace(kept[-1], at=kept[-1].at - TICK))
        self.readings = replace(found.readings, kept=kept)
        if found.proven is not None:
            self.bound = max(self.bound, found.proven.counter)


histories = st.lists(st.integers(0, 14 * 32 - 1), min_size=30, max_size=60)


@pytest.mark.parametrize("rule", [Rule(jumps=True), Rule(unsteady=3)], ids=["jumps", "unsteady"])
@settings(max_examples=500, derandomize=True, deadline=None)
@given(moves=histories)
def test_no_number_is_committed_below_a_bound(rule: Rule, moves: list[int]) -> None:
    assert History(rule).play(moves).lost == []


def test_histories_get_as_far_as_bounds_that_readings_prove() -> None:
    """What the test above tries is not trivial."""
    chance = random.Random(1)
    proven = [History(Rule()).play([chance.randrange(14 * 32) for _ in range(60)]) for _ in range(200)]
    assert sum(one.readings is not None and one.bound > 0 and bool(one.open) for one in proven) > 50


@pytest.mark.parametrize(
    "weaker", [Rule(clock_first=True, unsteady=3), Rule(ties_count=True), Rule(clock_trusted=True, jumps=True)], ids=str
)
def test_with_a_weaker_rule_a_number_is_lost(weaker: Rule) -> None:
    chance = random.Random(7)
    for _ in range(20_000):
        moves = [chance.randrange(14 * 32) for _ in range(50)]
        if History(weaker).play(moves).lost:
            break
    else:
        pytest.fail("it loses nothing")
    assert (
        not History(replace(weaker, ties_count=False, clock_trusted=False, clock_first=False)).play(moves).lost
    )  # the rule itself loses nothing there


# ---------------------------------------------------------------------------------------------------------------- single rules


def test_while_writers_overlap_for_ever_the_bound_follows_them() -> None:
    kept: CounterSamples | None = None
    watermark, seen = 0, []
    for turn in range(1, 50):  # a writer of three turns begins at each: some are always open
        found = decide(kept, look(reading(turn * 10, turn)), turn * 10 - 25, turn * 10 - 15, turn * 10 - 5, watermark=watermark)
        kept, watermark = found.readings, found.proven.counter if found.proven else watermark
        seen.append(turn - watermark)
    assert set(seen[5:]) == {3}
    assert decide(None, look(reading(500, 50)), 475).proven is None


def test_the_newest_reading_before_the_oldest_writer_counts() -> None:
    kept = readings(reading(10, 5), reading(20, 7), reading(30, 9))
    assert decide(kept, look(reading(40, 12)), 29, 35).proven == reading(20, 7)
    assert decide(kept, look(reading(40, 12)), 30, 35).proven == reading(20, 7)
    assert decide(kept, look(reading(40, 12)), 10).proven is None


def test_a_reading_that_does_not_move_the_watermark_is_dropped() -> None:
    found = decide(readings(reading(10, 5), reading(20, 7)), look(reading(30, 9)), 15, watermark=5)
    assert (found.proven, found.readings) == (None, readings(reading(20, 7), reading(30, 9)))


def test_of_equal_counters_the_oldest_reading_is_kept() -> None:
    assert decide(readings(reading(10, 5)), look(reading(30, 5)), 1).readings == readings(reading(10, 5))


@pytest.mark.parametrize(
    "changed",
    [
        {"server": "another"},
        {"column": "version"},
        {"handed_out": 6},
        {"reading": reading(19, 9)},
        {"up_since": instant(20)},
    ],
    ids=lambda changed: next(iter(changed)),
)
def test_readings_of_another_server_column_or_time_are_dropped(changed: dict[str, object]) -> None:
    kept = readings(reading(10, 5), reading(20, 7))
    assert decide(kept, look(reading(40, 9)), 30).proven == reading(20, 7)
    assert decide(kept, look(reading(40, 9), **changed), 30).proven is None


def test_a_writer_of_unknown_age_proves_nothing_but_readings_are_kept() -> None:
    writers = WritersOpen(starts=(instant(30),), known=False)
    found = bound_from_samples(readings(reading(10, 5)), look(reading(40, 9)), writers, 0)
    assert (found.proven, found.readings) == (None, readings(reading(10, 5), reading(40, 9)))


def test_after_a_clock_that_went_back_a_reading_waits_for_the_writers_from_before() -> None:
    found = decide(None, look(reading(40, 9)), 60)
    assert found.readings == readings(reading(60, 9))
    assert decide(found.readings, look(reading(70, 12)), 60, 65).proven is None
    assert decide(found.readings, look(reading(70, 12)), 65).proven == reading(60, 9)


def test_readings_stay_few_and_are_never_twice_as_old_as_the_one_that_was_left_out() -> None:
    kept: CounterSamples | None = None
    for tick in range(1, 2001):
        kept = decide(kept, look(reading(tick, tick)), 0).readings
    assert kept is not None
    ticks = [one.counter for one in kept.kept]
    assert len(ticks) == MOST_READINGS
    assert (ticks[0], ticks[-1]) == (1, 2000)
    for tick in range(1, 2000):
        older = max(one for one in ticks if one <= tick)
        assert 2000 - older <= 2.5 * (2000 - tick)


def test_readings_come_back_from_the_ledger_as_they_were() -> None:
    kept = readings(reading(10, 2**63), reading(20, 2**64 - 1))
    assert json_codec.loads(CounterSamples, json_codec.dumps(kept)) == kept
