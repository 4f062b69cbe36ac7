"""How many rows a piece of work takes in a second and in a processor second."""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass

from benchmarks._harness import cpu_of, family


@dataclass(frozen=True, slots=True)
class Rate:
    """The best of some equal runs, by processor seconds."""

    name: str
    rows: int
    wall: float
    processor: float

    @property
    def per_processor_second(self) -> float:
        return self.rows / self.processor

    @property
    def per_second(self) -> float:
        return self.rows / self.wall

    def line(self) -> str:
        return (
            f"{self.name:<46} {self.per_processor_second:>12,.0f} rows in a processor second,"
            f" {self.rows:>9,} rows in {self.wall:6.2f} s ({self.processor:.2f} s of processor time)"
        )


def measured(name: str, work: Callable[[], int], repeats: int = 3) -> Rate:
    """Measures this process and its children."""
    found = []
    for _ in range(repeats):
        used, start = processor_seconds(), time.monotonic()
        rows = work()
        found.append(Rate(name, rows, time.monotonic() - start, processor_seconds() - used))
    best = min(found, key=lambda rate: rate.processor)
    print(best.line(), flush=True)
    return best


def processor_seconds() -> float:
    ended = os.times()
    return ended.children_user + ended.children_system + sum(cpu_of(pid) for pid in family(os.getpid()))
