"""How far Spark is, by its status store: what is over is asked of once, whatever else is at work."""

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from cdc_ops.lake.spark.work_meter import Work, metered


@dataclass
class SparkContext:
    """A stand-in for Spark's context with the stages of one job, each of a status, rows, ended tasks and all tasks."""

    stages: dict[int, tuple[str, int, int, int]]
    asked: Counter[int] = field(default_factory=Counter)
    group: str = ""

    def setLocalProperty(self, name: str, value: str) -> None:
        self.group = value or self.group

    @property
    def _jsc(self) -> Any:
        return SimpleNamespace(
            statusTracker=lambda: SimpleNamespace(
                getJobIdsForGroup=lambda group: [7] if group == self.group else [],
                getJobInfo=lambda job: SimpleNamespace(stageIds=lambda: list(self.stages)),
                getActiveStageIds=lambda: [number for number, stage in self.stages.items() if stage[0] == "ACTIVE"],
            ),
            sc=lambda: SimpleNamespace(statusStore=lambda: SimpleNamespace(lastStageAttempt=self._last)),
        )

    def _last(self, stage: int) -> Any:
        self.asked[stage] += 1
        status, rows, done, tasks = self.stages[stage]
        if status == "PENDING":
            raise KeyError(stage)
        return SimpleNamespace(status=lambda: status, inputRecords=lambda: rows, numCompleteTasks=lambda: done, numTasks=lambda: tasks)


def test_rows_of_all_stages_and_tasks_of_those_at_work_are_told_and_what_is_over_is_asked_of_once() -> None:
    context = SparkContext({1: ("COMPLETE", 100, 4, 4), 2: ("SKIPPED", 0, 0, 4), 3: ("ACTIVE", 30, 1, 5), 4: ("PENDING", 0, 0, 2)})
    seen: list[Work] = []

    def told(work: Work) -> None:
        seen.append(work)
        if len(seen) == 2:
            context.stages[3] = ("COMPLETE", 50, 5, 5)

    with metered(SimpleNamespace(_sc=context), told, every=0.01):  # type: ignore[arg-type]
        _wait_for(lambda: len(seen) >= 4)
    assert seen[0] == Work(rows=130, tasks_done=1, tasks=5, stages_done=1)
    assert seen[3] == Work(rows=150, tasks_done=0, tasks=0, stages_done=2)
    assert context.asked[1] == context.asked[2] == 1
    assert context.asked[3] == 3
    assert context.asked[4] >= 4


def test_a_stage_that_failed_may_be_tried_again_and_is_asked_of_again() -> None:
    context = SparkContext({1: ("FAILED", 10, 1, 4)})
    seen: list[Work] = []
    with metered(SimpleNamespace(_sc=context), seen.append, every=0.01):  # type: ignore[arg-type]
        _wait_for(lambda: len(seen) >= 2)
        context.stages[1] = ("ACTIVE", 15, 2, 4)
        _wait_for(lambda: seen[-1].tasks_done == 2)
    assert seen[0] == Work(rows=10, tasks_done=0, tasks=0, stages_done=0)
    assert seen[-1] == Work(rows=15, tasks_done=2, tasks=4, stages_done=0)


def _wait_for(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.005)
