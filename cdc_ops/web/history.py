"""The charts of a table's page, from the lines of its runs in the ledger: runs on a time line, lag, rows, seconds, files. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from cdc_ops.core.operation.operation import OperationKind
from cdc_ops.core.text import plural
from cdc_ops.state.table_run import TableRun, TableRunStatus
from cdc_ops.web.charts.charts import (
    BOTTOM,
    HEIGHT,
    RIGHT,
    TOP,
    Bar,
    Chart,
    Tick,
    TimeAxis,
    ValueAxis,
    bar_width,
    number_step,
    polyline,
    span_step,
    stack,
)
from cdc_ops.web.charts.windows import windows_chart
from cdc_ops.web.view import PipelineInfo
from cdc_ops.web.words import count, duration, instant

_MARKS: Final = 4
"""Labels of a vertical axis above 0, at most."""
_LANE: Final = 24
"""Height of a lane of the time line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """What the runs of a table are drawn from.

    Args:
        runs: Oldest first.
        info: What is known of the pipeline.
        now: The ledger's clock, UTC.
        fresh_at: Up to when the table is complete now, UTC; None if it has never been.
    """

    runs: tuple[TableRun, ...]
    info: PipelineInfo
    now: datetime
    fresh_at: datetime | None = None

    @property
    def axis(self) -> TimeAxis:
        """The axis of time that all charts share."""
        return TimeAxis.over((run.timing.started_at for run in self.runs), self.now)

    @property
    def finished(self) -> tuple[tuple[TableRun, datetime], ...]:
        """Runs that have ended, with when, in the order in which they ended: a line through them must not go back in time."""
        ended = ((run, run.timing.finished_at) for run in self.runs if run.timing.finished_at is not None)
        return tuple(sorted(ended, key=lambda item: item[1]))


def charts(history: History) -> tuple[Chart, ...]:
    """Returns the charts of a table; those of which nothing is known say so."""
    windows = windows_chart(history.runs, history.axis)
    return (time_line(history), windows, lag_chart(history), rows_chart(history), seconds_chart(history), files_chart(history))


def lag_chart(history: History) -> Chart:
    """Returns how far the table was behind: it grows with time, and falls when a run has carried the table forward."""
    known = [(end, run.result.fresh_at) for run, end in history.finished if run.result.fresh_at is not None]
    points: list[tuple[datetime, float]] = []
    for number, (end, fresh_at) in enumerate(known):
        if number:
            points.append((end, (end - known[number - 1][1]).total_seconds()))
        points.append((end, (end - fresh_at).total_seconds()))
    if points and history.fresh_at is not None:
        points.append((history.now, (history.now - history.fresh_at).total_seconds()))
    if len(points) < 2:
        return Chart(title="Behind the source", words="No run of this version of cdc-ops has said up to when the table is complete.")
    values = [max(value, 0.0) for _, value in points]
    time, axis = history.axis, _of_spans(max(values))
    line, area = polyline([(time.place(at), axis.place(value)) for (at, _), value in zip(points, values, strict=True)])
    worst = max(range(len(values)), key=values.__getitem__)
    words = (
        f"Now {_span(values[-1])} behind; at most {_span(values[worst])}, at {instant(points[worst][0])},"
        f" in {plural(len(known), 'run')} since {instant(time.start)}."
    )
    return Chart(title="Behind the source", words=words, line=line, area=area, rows=axis.rows, columns=time.ticks)


def rows_chart(history: History) -> Chart:
    """Returns the rows that each run inserted, updated and deleted."""
    runs = [(run, end) for run, end in history.finished if run.status is TableRunStatus.COMMITTED]
    sums = [(run.result.counts.inserted, run.result.counts.updated, run.result.counts.deleted) for run, _ in runs]
    if not any(map(sum, sums)):
        return Chart(title="Rows written", words="No run of this list has written a row.")
    largest = max(map(sum, sums))
    axis = ValueAxis.up_to(largest, number_step(largest, _MARKS))
    time, width = history.axis, bar_width(len(runs))
    bars = tuple(
        bar
        for (run, end), (inserted, updated, deleted) in zip(runs, sums, strict=True)
        for bar in stack(
            time.place(end),
            width,
            axis,
            (("inserted", inserted), ("updated", updated), ("deleted", deleted)),
            f"{instant(end)}, {run.kind.words}: {count(inserted)} inserted, {count(updated)} updated, {count(deleted)} deleted",
        )
    )
    totals = [count(sum(part)) for part in zip(*sums, strict=True)]
    written = f"inserted {totals[0]}, updated {totals[1]} and deleted {totals[2]} rows"
    words = f"{plural(len(runs), 'run')} {written}; the largest wrote {count(largest)}."
    key = (("inserted", "inserted"), ("updated", "updated"), ("deleted", "deleted"))
    return Chart(title="Rows written", words=words, bars=bars, rows=axis.rows, columns=time.ticks, key=key)


def seconds_chart(history: History) -> Chart:
    """Returns how long each run worked on the table, by the ledger's clock."""
    took = [(run, end, (end - run.timing.started_at).total_seconds()) for run, end in history.finished]
    took = [item for item in took if item[0].status is not TableRunStatus.IDLE]
    if not took:
        return Chart(title="Time taken", words="No run of this list has read or written anything.")
    longest = max(took, key=lambda item: item[2])
    axis, time, width = _of_spans(longest[2]), history.axis, bar_width(len(took))
    bars = tuple(
        bar
        for run, end, seconds in took
        for bar in stack(
            time.place(end),
            width,
            axis,
            ((run.status.value, seconds),),
            f"{instant(end)}, {run.kind.words}, {run.status}: {_span(seconds)}",
        )
    )
    failed = sum(run.status is TableRunStatus.FAILED for run, _, _ in took)
    words = (
        f"{plural(len(took), 'run')} took {_span(sum(item[2] for item in took) / len(took))} on average,"
        f" the longest {_span(longest[2])}, at {instant(longest[1])}; {failed} failed."
    )
    key = (("committed", "committed"), ("failed", "failed"))
    return Chart(title="Time taken", words=words, bars=bars, rows=axis.rows, columns=time.ticks, key=key)


def files_chart(history: History) -> Chart:
    """Returns how many data files the Delta table had after each run."""
    known = [(end, run.result.files) for run, end in history.finished if run.result.files is not None]
    if not known:
        return Chart(title="Files of the Delta table", words="No run of this version of cdc-ops has counted the table's files.")
    counts = [files for _, files in known]
    time, axis = history.axis, ValueAxis.up_to(max(counts), number_step(max(counts), _MARKS))
    points: list[tuple[float, float]] = []
    for end, files in known:
        if points:
            points.append((time.place(end), points[-1][1]))
        points.append((time.place(end), axis.place(files)))
    line, area = polyline([*points, (time.place(history.now), points[-1][1])])
    words = f"{plural(counts[-1], 'file')} now; between {count(min(counts))} and {count(max(counts))} after {plural(len(known), 'run')}."
    return Chart(title="Files of the Delta table", words=words, line=line, area=area, rows=axis.rows, columns=time.ticks)


def time_line(history: History) -> Chart:
    """Returns the runs on a time line, a lane for each kind, with the times in which no run came although the schedule has one."""
    if not history.runs:
        return Chart(title="Runs", words="No run has looked at the table yet.")
    kinds = [kind for kind in OperationKind if any(run.kind is kind for run in history.runs)]
    time, bottom = history.axis, TOP + _LANE * len(kinds)
    gaps = silent_times(history)
    bars = [
        Bar(
            x=time.place(start),
            y=TOP,
            width=max(round(time.place(end) - time.place(start), 1), 1.0),
            height=bottom - TOP,
            look="silent",
            words=f"no run from {instant(start)} to {instant(end)}",
        )
        for start, end in gaps
    ]
    on_top = sorted(history.runs, key=lambda run: run.status is TableRunStatus.FAILED)  # or their neighbours hide them
    bars += [_run_bar(run, time, kinds.index(run.kind), history.now) for run in on_top]
    silent = f" No run came in {plural(len(gaps), 'stretch', 'stretches')} of time, the longest {_span(_longest(gaps))}." if gaps else ""
    failed = sum(run.status is TableRunStatus.FAILED for run in history.runs)
    words = f"{plural(len(history.runs), 'run')} since {instant(time.start)}, {failed} failed.{silent}"
    used = {bar.look for bar in bars}
    key = tuple((look, name) for look, name in _LOOKS if look in used)
    lanes = tuple(Tick(at=TOP + _LANE * (n + 0.5), text=kind.words) for n, kind in enumerate(kinds))
    height = HEIGHT - BOTTOM + bottom
    return Chart(title="Runs", words=words, bars=tuple(bars), rows=lanes, columns=time.ticks, key=key, height=height)


def silent_times(history: History) -> tuple[tuple[datetime, datetime], ...]:
    """Returns when no run was at work for longer than a table may be behind; () where no schedule is known.

    A run without an end is at work until another one has the table's lease. One that failed does not say that it had it.
    """
    if not history.info.every or not history.runs:
        return ()
    found: list[tuple[datetime, datetime]] = []
    worked_to = history.runs[0].timing.started_at
    for number, run in enumerate(history.runs):
        found.append((worked_to, run.timing.started_at))
        next_start = (later.timing.started_at for later in history.runs[number + 1 :] if later.status is not TableRunStatus.FAILED)
        worked_to = max(worked_to, run.timing.finished_at or next(next_start, history.now))
    found.append((worked_to, history.now))
    return tuple((start, end) for start, end in found if end - start > history.info.late_after)


_LOOKS: Final = (
    ("committed", "committed"),
    ("idle", "nothing new"),
    ("failed", "failed"),
    ("open", "at work"),
    ("silent", "no run although one was due"),
)


def _run_bar(run: TableRun, time: TimeAxis, lane: int, now: datetime) -> Bar:
    end = run.timing.finished_at or now
    left, width = time.place(run.timing.started_at), 0.0
    width = max(round(time.place(end) - left, 1), 2.0)
    window = f", window {run.result.window}" if run.result.window else ""
    status = run.status.value
    return Bar(
        x=min(left, RIGHT - width),
        y=TOP + _LANE * lane + 4,
        width=width,
        height=_LANE - 8,
        look=status if status in ("committed", "idle", "failed") else "open",
        words=f"{instant(run.timing.started_at)}, {run.kind.words}, {run.status}{window}",
    )


def _longest(spans: Sequence[tuple[datetime, datetime]]) -> float:
    return max(end - start for start, end in spans).total_seconds()


def _of_spans(largest: float) -> ValueAxis:
    step = span_step(largest, _MARKS)
    steps = int(max(-(-largest // step), 1))
    return ValueAxis.up_to(largest, step, [_span(step * n) if n else "0" for n in range(steps + 1)])


def _span(seconds: float) -> str:
    return duration(timedelta(seconds=round(seconds)))
