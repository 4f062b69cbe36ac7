"""The charts of a table's page: where things stand, and that the words say the same; with no run, with one, with five hundred."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from cdc_ops.core.cursor.cursors import CursorValue
from cdc_ops.core.cursor.windows import Window
from cdc_ops.core.operation.operation import OperationKind
from cdc_ops.core.operation.results import Counts
from cdc_ops.core.schema.tables import TableName
from cdc_ops.state.table_run import RunResult, RunTiming, TableRun, TableRunStatus
from cdc_ops.web import history
from cdc_ops.web.charts import charts
from cdc_ops.web.charts.charts import BOTTOM, LEFT, RIGHT, TOP, Chart, TimeAxis
from cdc_ops.web.charts.windows import holes, windows_chart
from cdc_ops.web.history import History
from cdc_ops.web.view import PipelineInfo

NOW = datetime(2026, 1, 5, 12, tzinfo=UTC)
HOURLY = PipelineInfo(every=timedelta(hours=1))


def run(
    minutes: float,
    *,
    status: TableRunStatus = TableRunStatus.COMMITTED,
    kind: OperationKind = OperationKind.INCREMENT,
    window: tuple[str, str] | None = None,
    rows: int = 9,
    files: int | None = 4,
) -> TableRun:
    """A run that began so many minutes ago, took one of them, and left a table that was complete up to its beginning."""
    started = NOW - timedelta(minutes=minutes)
    ends = [CursorValue(parts=(text,)) if text else None for text in window or ()]
    return TableRun(
        pipeline="shop",
        table=TableName(schema="db", name="t"),
        run_id=f"r{minutes}",
        trigger="scheduled",
        kind=kind,
        status=status,
        timing=RunTiming(started_at=started, finished_at=started + timedelta(minutes=1)),
        result=RunResult(
            window=Window(low=ends[0], high=ends[1]) if ends else None,
            counts=Counts(read=rows, inserted=rows - rows // 3, updated=rows // 3),
            fresh_at=started,
            files=files,
        ),
    )


def lasting(one: TableRun, minutes: float | None) -> TableRun:
    """The same run, but it took so many minutes; None = it has not ended."""
    started = one.timing.started_at
    end = None if minutes is None else started + timedelta(minutes=minutes)
    return replace(one, timing=replace(one.timing, finished_at=end))


def drawn(runs: Sequence[TableRun], info: PipelineInfo = HOURLY) -> dict[str, Chart]:
    fresh_at = runs[-1].result.fresh_at if runs else None
    found = history.charts(History(runs=tuple(runs), info=info, now=NOW, fresh_at=fresh_at))
    assert len(found) == 6
    return {chart.title: chart for chart in found}


def points(chart: Chart) -> list[tuple[float, float]]:
    return [(float(x), float(y)) for x, y in (pair.split(",") for pair in chart.line.split())]


def test_without_a_run_each_chart_says_so_in_words() -> None:
    for chart in drawn([]).values():
        assert chart.is_empty
        assert chart.words.startswith("No run")


@pytest.mark.parametrize("count", [1, 2, 500])
def test_everything_stands_within_the_picture_for_any_number_of_runs(count: int) -> None:
    ages = range(count - 1, -1, -1)
    runs = [run(10 * age, window=(str(count - age), str(count - age + 1)), rows=age * 7 + 9) for age in ages]
    for chart in drawn(runs).values():
        assert chart.rows
        assert chart.columns or count == 1
        assert chart.bars or len(points(chart)) > 1 or count == 1
        for bar in chart.bars:
            assert LEFT <= bar.x <= bar.x + bar.width <= RIGHT + 0.2
            assert TOP - 1.5 <= bar.y <= bar.y + bar.height <= max(BOTTOM, chart.height) + 1.5
        for x, y in points(chart) if chart.line else []:
            assert LEFT <= x <= RIGHT
            assert TOP <= y <= BOTTOM


def test_the_lag_grows_until_a_run_carries_the_table_forward() -> None:
    chart = drawn([run(120), run(60)])["Behind the source"]
    heights = [y for _, y in points(chart)]
    assert len(heights) == 4  # after the first run, before and after the second, now
    assert heights[0] > heights[1] < heights[2] > heights[3]
    assert chart.words == "Now 1 h behind; at most 1 h 1 min, at 2026-01-05 11:01:00 UTC, in 2 runs since 2026-01-05 10:00:00 UTC."


def test_a_line_never_goes_back_in_time_where_runs_overlap() -> None:
    runs = [lasting(run(120, files=7), 110), run(60, files=3), run(30, files=5)]
    found = drawn(runs)
    for title in ("Behind the source", "Files of the Delta table"):
        places = [x for x, _ in points(found[title])]
        assert len(places) > 3
        assert places == sorted(places)
    assert found["Files of the Delta table"].words == "7 files now; between 3 and 7 after 3 runs."


def test_runs_of_earlier_versions_have_no_lag_and_no_files_and_the_charts_say_so() -> None:
    old = [replace(one, result=replace(one.result, fresh_at=None, files=None)) for one in (run(120), run(60))]
    found = drawn(old)
    for title in ("Behind the source", "Files of the Delta table"):
        assert found[title].is_empty
        assert "this version of cdc-ops" in found[title].words


def test_rows_are_stacked_and_idle_runs_are_left_out() -> None:
    chart = drawn([run(90, rows=30), run(60, rows=0, status=TableRunStatus.IDLE), run(30, rows=60)])["Rows written"]
    assert [bar.look for bar in chart.bars] == ["inserted", "updated"] * 2
    assert chart.bars[0].y == pytest.approx(chart.bars[1].y + chart.bars[1].height, abs=0.2)
    assert sum(bar.height for bar in chart.bars[2:]) == pytest.approx(2 * sum(bar.height for bar in chart.bars[:2]), abs=0.5)
    assert chart.words == "2 runs inserted 60, updated 30 and deleted 0 rows; the largest wrote 60."


def test_failed_runs_are_counted_and_drawn_in_front() -> None:
    runs = [run(90, status=TableRunStatus.FAILED), run(60), run(30)]
    assert drawn(runs)["Runs"].bars[-1].look == "failed"
    assert "1 failed" in drawn(runs)["Runs"].words
    assert "1 failed" in drawn(runs)["Time taken"].words


def test_each_kind_has_a_lane() -> None:
    chart = drawn([run(90), run(60, kind=OperationKind.BACKFILL), run(30, kind=OperationKind.RECONCILE)])["Runs"]
    assert [tick.text for tick in chart.rows] == ["increment", "backfill", "reconcile"]
    assert sorted(bar.y for bar in chart.bars) == [bar.y for bar in chart.bars]
    assert len({bar.y for bar in chart.bars}) == 3


def test_a_time_without_runs_is_marked_where_the_schedule_has_some() -> None:
    runs = [run(600), run(540), run(60)]
    chart = drawn(runs)["Runs"]
    [silent] = [bar for bar in chart.bars if bar.look == "silent"]
    assert silent.words == "no run from 2026-01-05 03:01:00 UTC to 2026-01-05 11:00:00 UTC"
    assert "No run came in 1 stretch of time, the longest 7 h 59 min." in chart.words
    assert not [bar for bar in drawn(runs, PipelineInfo())["Runs"].bars if bar.look == "silent"]
    stopped = drawn([run(300)])["Runs"]
    assert "the longest 4 h 59 min" in stopped.words


def silent_times(*runs: TableRun) -> list[tuple[float, float]]:
    """How many minutes ago the table began and ceased to be without a run; one is due every quarter of an hour."""
    found = history.silent_times(History(runs=runs, info=PipelineInfo(every=timedelta(minutes=15)), now=NOW))
    return [((NOW - start) / timedelta(minutes=1), (NOW - end) / timedelta(minutes=1)) for start, end in found]


def test_while_a_run_is_at_work_no_run_is_missing() -> None:
    at_work, ten_hours = lasting(run(600, status=TableRunStatus.PLANNED), None), lasting(run(600), 600)
    assert silent_times(at_work) == []
    assert silent_times(ten_hours) == []
    assert silent_times(lasting(run(600), 300)) == [(300, 0)]
    assert silent_times(lasting(run(600), 500), run(500)) == [(100, 0)], "the second run ended while the first one was at work"
    refused = run(540, status=TableRunStatus.FAILED)
    assert silent_times(at_work, refused) == [], "a run that finds the table held says nothing of the one that holds it"


def test_a_run_that_died_without_a_word_counts_as_at_work_until_the_next_one_has_the_table() -> None:
    died = lasting(run(600, status=TableRunStatus.PLANNED), None)
    assert silent_times(died, run(300), run(200)) == [(299, 200), (199, 0)]


def test_windows_that_tile_have_no_hole_and_others_say_which() -> None:
    tiled = [run(90, window=("10", "20")), run(60, window=("20", "35")), run(30, window=("35", "40"))]
    assert holes(tiled) == ()
    assert "each begins where the one before ended" in windows_chart(tiled, TimeAxis(start=NOW - timedelta(hours=2), end=NOW)).words
    broken = windows_chart([tiled[0], tiled[2]], TimeAxis(start=NOW - timedelta(hours=2), end=NOW))
    assert broken.words == "2 windows from 10 to 40; 1 hole: no run of this list has read from 20 to 35."
    assert [bar.look for bar in broken.bars] == ["hole", "committed", "committed"]


def test_holes_are_exact_where_a_float_is_not() -> None:
    big = 2**60
    runs = [run(90, window=("0", str(big))), run(60, window=(str(big + 1), str(big + 9)))]
    assert len(holes(runs)) == 1


@pytest.mark.parametrize(
    "between",
    [
        run(60, window=("20", "35"), status=TableRunStatus.MERGED),  # its commit was found in the lake by the next run
        run(60, window=("20", "35"), status=TableRunStatus.FAILED),
        run(60, kind=OperationKind.SNAPSHOT_CHUNK),
        run(60, window=("", "30")),
    ],
)
def test_what_another_run_has_read_is_no_hole(between: TableRun) -> None:
    runs = [run(90, window=("10", "20")), between, run(30, window=("35", "40"))]
    assert holes(runs) == ()
    assert len(holes([runs[0], runs[2]])) == 1


def test_a_backfill_neither_fills_a_hole_nor_makes_one() -> None:
    backfill = run(60, window=("1", "35"), kind=OperationKind.BACKFILL)
    assert len(holes([run(90, window=("10", "20")), backfill, run(30, window=("35", "40"))])) == 1
    assert holes([run(90, window=("10", "20")), backfill, run(30, window=("20", "40"))]) == ()


@pytest.mark.parametrize(
    ("low", "high", "labels"),
    [
        ("2026-01-05 08:00:00", "2026-01-05 12:00:00", ["08:00", "09:00", "10:00", "11:00", "12:00"]),
        ("2026-01-01", "2026-01-09", ["01-05"]),
        ("1000", "5000", ["1,000", "2,000", "3,000", "4,000", "5,000"]),
        ("-20", "9" * 30, ["0"]),
    ],
)
def test_the_axis_of_windows_is_labelled_in_the_cursors_own_kind(low: str, high: str, labels: list[str]) -> None:
    chart = windows_chart([run(30, window=(low, high))], TimeAxis(start=NOW - timedelta(hours=2), end=NOW))
    texts = [tick.text for tick in chart.rows]
    assert set(labels) <= set(texts)
    assert len(texts) <= 5


TIMES = [run(90, window=("2026-01-05 08:00:00", "2026-01-05 09:00:00")), run(80, window=("2026-01-05 09:00:00", "2026-01-05 10:00:00"))]


@pytest.mark.parametrize("id_", [7, 2 * 10**15, 3 * 10**17, 7 * 10**18])
def test_after_a_change_between_times_and_numbers_only_windows_of_the_newer_cursor_are_drawn(id_: int) -> None:
    numbers = [run(60, window=(str(id_), str(id_ + 2))), run(30, window=(str(id_ + 2), str(id_ + 3)))]
    later = [lasting(replace(one, timing=replace(one.timing, started_at=NOW - timedelta(minutes=9))), 1) for one in TIMES]
    axis = TimeAxis(start=NOW - timedelta(hours=2), end=NOW)
    for old, new, ends in ((TIMES, numbers, (id_, id_ + 3)), (numbers, later, ("2026-01-05 08:00:00", "2026-01-05 10:00:00"))):
        chart = windows_chart([*old, *new], axis)
        assert chart.words == f"2 windows from {ends[0]} to {ends[1]}; each begins where the one before ended, or earlier."
        assert [bar.look for bar in chart.bars] == ["committed", "committed"]
        assert [(tick.at, tick.text) for tick in chart.rows] == [(tick.at, tick.text) for tick in windows_chart(new, axis).rows]
        assert holes([*old, *new]) == ()
    assert len(holes([*TIMES, numbers[0], run(10, window=(str(id_ + 5), str(id_ + 9)))])) == 1


@pytest.mark.parametrize("low", ["9999-12-31 23:59:59.999999", "9999-12-31 23:59:59", "9999-12-30", "2026-01-05"])
def test_windows_up_to_the_end_of_all_years_are_drawn(low: str) -> None:
    chart = windows_chart([run(30, window=(low, "9999-12-31 23:59:59.999999"))], TimeAxis(start=NOW - timedelta(hours=2), end=NOW))
    assert len(chart.bars) == 1
    assert all(TOP <= tick.at <= BOTTOM for tick in chart.rows)


@pytest.mark.parametrize(
    ("low", "high", "labels"),
    [
        (99_900_000, 100_200_000, ["99,900k", "100,000k", "100,100k", "100,200k"]),
        (0, 400_000_000, ["0", "100M", "200M", "300M", "400M"]),
        (7_246_990_110_000_000_000, 7_246_990_110_003_000_000, ["…110,000M", "…110,001M", "…110,002M", "…110,003M"]),
        (7_246_990_110_123_456_789, 7_246_990_110_123_456_791, ["…456,789", "…456,790", "…456,791"]),
        (-7_246_990_110_003_000_000, -7_246_990_110_000_000_000, ["-…110,003M", "-…110,002M", "-…110,001M", "-…110,000M"]),
        (0, 2 * 10**37, ["0", "5e36", "10e36", "15e36", "20e36"]),
        (10**37, 10**37 + 3, []),
    ],
)
def test_labels_of_an_axis_fit_beside_it_and_tell_its_marks_apart(low: int, high: int, labels: list[str]) -> None:
    axis = TimeAxis(start=NOW - timedelta(hours=2), end=NOW)
    texts = [tick.text for tick in windows_chart([run(30, window=(str(low), str(high)))], axis).rows]
    assert max(map(len, texts)) <= 10
    assert len(set(texts)) == len(texts) > 1
    assert set(labels) <= set(texts)


def test_an_axis_of_time_that_goes_over_a_new_year_names_the_years() -> None:
    for years in (1, 3, 40):
        texts = [tick.text for tick in TimeAxis.over([NOW - timedelta(days=366 * years)], NOW).ticks]
        assert len(set(texts)) == len(texts) > 1
        assert all(datetime.fromisoformat(text).year <= NOW.year for text in texts)


def test_cursors_that_are_no_number_and_no_time_are_left_out() -> None:
    chart = windows_chart([run(30, window=("a", "b"))], TimeAxis(start=NOW - timedelta(hours=2), end=NOW))
    assert chart.is_empty


@pytest.mark.parametrize("minutes", [1, 7, 59, 61, 600, 3000, 60_000, 3_000_000])
def test_an_axis_of_time_has_two_to_six_labels_in_order(minutes: int) -> None:
    axis = TimeAxis.over([NOW - timedelta(minutes=minutes)], NOW)
    places = [tick.at for tick in axis.ticks]
    assert 1 < len(places) <= 7
    assert places == sorted(places)
    assert axis.place(NOW) == RIGHT
    assert axis.place(NOW - timedelta(days=99_999)) == LEFT


def test_a_bar_is_never_thinner_than_one_unit_nor_wider_than_fourteen() -> None:
    assert [charts.bar_width(count) for count in (0, 1, 100, 5000)] == [14.0, 14.0, 3.4, 1.0]
