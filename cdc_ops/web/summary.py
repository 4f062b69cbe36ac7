"""The summary of each pipeline at the top of the overview: tables, failures, lag, questions, rows of the last day."""

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from cdc_ops.core.approvals import ApprovalRecord
from cdc_ops.state.base import StateReader
from cdc_ops.web.view import Health, PipelineInfo, TableSign

DAY: Final = timedelta(days=1)

KEPT: Final = 600.0
"""Seconds for which the rows of the last day are kept: the ledger adds up a figure of each run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineSummary:
    """How a pipeline stands.

    Args:
        name: The pipeline.
        info: What is known of it outside the ledger.
        tables: How many the ledger knows.
        failed: Of them, how many the last run failed for.
        behind: How many are further behind than they may be, failed or not.
        lag: How far the table is behind that is furthest behind; None if none has been complete yet.
        waiting: Questions to people that nobody has answered.
        rows: Inserted, updated and deleted by the runs of the last day.
    """

    name: str
    info: PipelineInfo
    tables: int
    failed: int
    behind: int
    lag: timedelta | None
    waiting: int
    rows: int


def summaries(signs: Iterable[TableSign], questions: Iterable[ApprovalRecord], written: Mapping[str, int]) -> tuple[PipelineSummary, ...]:
    """Returns the summaries of the pipelines that have a table, by name.

    Args:
        signs: Their tables.
        questions: Those that somebody may still answer.
        written: Rows of the last day, by pipeline.
    """
    tables: dict[str, list[TableSign]] = {}
    for sign in signs:
        tables.setdefault(sign.pipeline, []).append(sign)
    asked = [one.pipeline for one in questions]
    return tuple(_summary(name, tables[name], asked.count(name), written.get(name, 0)) for name in sorted(tables))


def _summary(name: str, signs: list[TableSign], waiting: int, written: int) -> PipelineSummary:
    return PipelineSummary(
        name=name,
        info=signs[0].info,
        tables=len(signs),
        failed=sum(sign.health is Health.FAILED for sign in signs),
        behind=sum(sign.is_late for sign in signs),
        lag=max((sign.lag for sign in signs if sign.lag is not None), default=None),
        waiting=waiting,
        rows=written,
    )


class DayOfRows:
    """The rows that each pipeline's runs of the last day have written, asked of the ledger again when ten minutes have passed.

    Args:
        clock: Seconds that only grow.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._known: tuple[float, dict[str, int]] | None = None

    def of(self, reader: StateReader, now: datetime) -> Mapping[str, int]:
        """Returns the rows by pipeline; a pipeline without any is not named.

        Args:
            reader: The ledger.
            now: Its clock, UTC.
        """
        asked = self._clock()
        if self._known is None or asked - self._known[0] >= KEPT:
            self._known = (asked, reader.rows_written(now - DAY))
        return self._known[1]
