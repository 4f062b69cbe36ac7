"""How far Spark is with the jobs of one thread: its tasks, and the rows that they have read, asked of Spark's own status store.

Spark counts rows of running tasks with the heartbeat of its executors, every 10 seconds; tasks that have ended are counted at once.
A Spark Connect server has no such store for its clients: nothing is measured there.
"""

import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final

from pyspark.sql import SparkSession

EVERY: Final = 1.0
"""Seconds between two looks."""
_OVER: Final = frozenset(("COMPLETE", "SKIPPED"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What has been seen of the work.

    Args:
        rows: Rows that its tasks have read so far, 0 if they do not count them.
        tasks_done: Tasks of the stages at work that have ended.
        tasks: All tasks of these stages; 0 if none is at work.
        stages_done: Stages that have ended before.
    """

    rows: int = 0
    tasks_done: int = 0
    tasks: int = 0
    stages_done: int = 0


@contextmanager
def metered(spark: SparkSession, report: Callable[[Work], None], every: float = EVERY) -> Iterator[None]:
    """Tells every second what Spark has done of the jobs that this thread starts in the block.

    Args:
        spark: The session.
        report: Receives what was seen; called in a thread of its own.
        every: Seconds between two looks.
    """
    context = getattr(spark, "_sc", None)
    if context is None:
        yield
        return
    group, ended = f"cdc-ops-{uuid.uuid4().hex[:12]}", threading.Event()
    context.setLocalProperty("spark.jobGroup.id", group)
    looking = threading.Thread(target=_look, args=(context, group, report, ended, every), name=f"meter-{group}", daemon=True)
    looking.start()
    try:
        yield
    finally:
        ended.set()
        looking.join(timeout=5)  # a JVM that hangs must not keep what waits for its end
        with suppress(Exception):  # the JVM may have died, which the work itself has reported
            context.setLocalProperty("spark.jobGroup.id", None)


def _look(context: Any, group: str, report: Callable[[Work], None], ended: threading.Event, every: float) -> None:
    with suppress(Exception):  # a JVM that ends meanwhile; whatever it is, nothing depends on what is reported here
        tracker, store = context._jsc.statusTracker(), context._jsc.sc().statusStore()
        over: dict[int, _Stage] = {}
        while not ended.wait(every):
            work = _work(tracker, store, group, over)
            if work is not None and not ended.is_set():
                report(work)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stage:
    """What a stage has done, that is over: `ended` is False if it was left out because its result was there."""

    rows: int
    ended: bool


def _work(tracker: Any, store: Any, group: str, over: dict[int, _Stage]) -> Work | None:
    """Returns what the jobs of a group have done, None if there is none yet.

    Spark sorts all stages that it remembers to tell of one, so none is asked of again that is over (`over` is written to).
    """
    jobs = tuple(tracker.getJobIdsForGroup(group))
    stages = {stage for job in jobs if (known := tracker.getJobInfo(job)) is not None for stage in known.stageIds()}
    if not stages:
        return None
    active = stages & set(tracker.getActiveStageIds())
    rows = done = tasks = 0
    for stage in sorted(stages - over.keys()):
        with suppress(Exception):  # a stage that has not begun has no attempt, nor one that is skipped while its job is at work
            data = store.lastStageAttempt(stage)
            if str(data.status()) in _OVER:
                over[stage] = _Stage(rows=data.inputRecords(), ended=str(data.status()) == "COMPLETE")
                continue
            rows += data.inputRecords()
            if stage in active:
                done, tasks = done + data.numCompleteTasks(), tasks + data.numTasks()
    return Work(
        rows=rows + sum(stage.rows for stage in over.values()),
        tasks_done=done,
        tasks=tasks,
        stages_done=sum(stage.ended for stage in over.values()),
    )
