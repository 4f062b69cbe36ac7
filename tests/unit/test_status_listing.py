"""What the overview lists: search, states, pipelines, order, pages, and the addresses of its links."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from urllib.parse import parse_qsl

import pytest

from cdc_ops.core.maintenance import TableStats
from cdc_ops.core.operation.operation import OperationKind
from cdc_ops.core.operation.protocol.table_progress import TableProgress
from cdc_ops.core.operation.protocol.table_state import TableState
from cdc_ops.core.operation.results import Counts
from cdc_ops.core.schema.tables import TableName
from cdc_ops.state.base import TableOverview
from cdc_ops.state.table_run import RunResult, RunTiming, TableRun, TableRunStatus
from cdc_ops.web.listing import PAGE, Listing, Sort, listed
from cdc_ops.web.view import Health, PipelineInfo, TableRow, Tone, freshness, table_row

NOW = datetime(2026, 1, 2, tzinfo=UTC)


def row(name: str, *, pipeline: str = "shop", behind: float | None = None, rows: int | None = None, size: int | None = None) -> TableRow:
    """A table whose snapshot is not complete, so that its health is `new`; `rows` of its last run, which failed if they are negative."""
    table = TableName(schema="db", name=name)
    run = None
    if rows is not None:
        run = TableRun(
            pipeline=pipeline,
            table=table,
            run_id="r",
            trigger="scheduled",
            kind=OperationKind.INCREMENT,
            status=TableRunStatus.FAILED if rows < 0 else TableRunStatus.COMMITTED,
            timing=RunTiming(started_at=NOW - timedelta(minutes=abs(rows))),
            result=RunResult(counts=Counts(read=abs(rows))),
        )
    progress = TableProgress(fresh_at=None if behind is None else NOW - timedelta(minutes=behind))
    stats = None if size is None else TableStats(delta_version=1, files=1, size_bytes=size)
    state = TableState(pipeline=pipeline, table=table, progress=progress)
    return table_row(TableOverview(state=state, stats=stats, last_run=run, lease=None), PipelineInfo(), NOW)


TABLES = (
    row("orders", behind=5, rows=7, size=10),
    row("Order_items", behind=50, rows=-3, size=900),
    row("carts", pipeline="clicks", rows=9),
    row("users", behind=1, size=30),
)


def names(**wanted: object) -> list[str]:
    return [item.glance.table.name for item in listed(TABLES, Listing(**wanted)).signs]  # type: ignore[arg-type]


def test_a_search_finds_words_in_any_case_in_table_and_pipeline() -> None:
    assert names(search="ORDER") == ["Order_items", "orders"]
    assert names(search="shop order item") == ["Order_items"]
    assert names(search="clicks") == ["carts"]
    assert names(search="order nothing") == []


def test_a_pipeline_and_a_state_narrow_the_list_and_the_tally_counts_the_other_states_too() -> None:
    assert names(pipeline="clicks") == ["carts"]
    assert names(pipeline="shop", health=Health.FAILED) == ["Order_items"]
    shown = listed(TABLES, Listing(pipeline="shop", health=Health.FAILED))
    assert (dict(shown.tally), shown.matching) == ({Health.FAILED: 1, Health.NEW: 2}, 1)


@pytest.mark.parametrize(
    ("sort", "order"),
    [
        (Sort.STATE, ["Order_items", "carts", "orders", "users"]),
        (Sort.TABLE, ["Order_items", "carts", "orders", "users"]),
        (Sort.BEHIND, ["Order_items", "orders", "users", "carts"]),
        (Sort.ROWS, ["carts", "orders", "Order_items", "users"]),
        (Sort.SIZE, ["Order_items", "users", "orders", "carts"]),
        (Sort.RUN, ["Order_items", "orders", "carts", "users"]),
    ],
)
def test_each_column_sorts_and_turns(sort: Sort, order: list[str]) -> None:
    assert names(sort=sort) == order
    values = names(sort=sort, turned=True)
    assert values[-1] == order[0] or sort is Sort.STATE
    assert sorted(values) == sorted(order)


def test_a_heading_sorts_by_its_column_and_then_turns_it() -> None:
    plain = Listing(search="a", page=4)
    assert dict(parse_qsl(plain.sorted_by(Sort.BEHIND).partition("?")[2])) == {"q": "a", "sort": "behind"}
    behind = Listing(sort=Sort.BEHIND)
    assert behind.sorted_by(Sort.BEHIND) == "ui?sort=behind&order=turned"
    assert (behind.direction(Sort.BEHIND), behind.direction(Sort.ROWS)) == ("descending", "none")
    assert Listing(sort=Sort.BEHIND, turned=True).direction(Sort.BEHIND) == "ascending"
    assert Listing(sort=Sort.TABLE).direction(Sort.TABLE) == "ascending"


def test_an_address_read_back_is_the_same_listing() -> None:
    wanted = Listing(search="a&b=c ü", health=Health.LATE, pipeline="x y", sort=Sort.SIZE, turned=True, page=3)
    assert Listing.parse(dict(parse_qsl(wanted.address(page=3).partition("?")[2]))) == wanted
    assert Listing().address() == "ui"


def test_a_page_holds_a_hundred_tables_and_a_page_behind_the_last_is_the_last() -> None:
    many = [row(f"t{number:04}") for number in range(PAGE * 2 + 1)]
    first, last = listed(many, Listing()), listed(many, Listing(page=99))
    assert (len(first.signs), first.first, first.pages, first.matching) == (PAGE, 1, 3, 201)
    assert ([item.table for item in last.signs], last.page, last.first) == (["db.t0200"], 3, 201)
    nothing = listed([], Listing(page=2))
    assert (nothing.signs, nothing.page, nothing.pages, nothing.first) == ((), 1, 1, 0)


@pytest.mark.parametrize("text", ["0", "-1", "x", "", "9" * 50, "\u0663"])
def test_a_page_that_is_no_number_is_the_first(text: str) -> None:
    assert Listing.parse({"page": text}).page == 1


def test_the_bar_shows_how_much_of_what_the_schedule_allows_is_used() -> None:
    hourly = PipelineInfo(every=timedelta(hours=1))  # late after 2 h 10 min
    found = [freshness(timedelta(minutes=minutes), hourly.late_after, hourly.every) for minutes in (0, 30, 90, 130, 131, 100_000)]
    assert [(one.share, one.tone) for one in found] == [
        (0, Tone.GOOD),
        (23, Tone.GOOD),
        (69, Tone.NEAR),
        (100, Tone.NEAR),
        (100, Tone.OVER),
        (100, Tone.OVER),
    ]
    assert {one.interval for one in found} == {46}
    assert found[-1].words == "more than the 2 h 10 min that a table may be behind"
    unknown = freshness(timedelta(hours=12), PipelineInfo().late_after, None)
    assert (unknown.share, unknown.interval, unknown.tone) == (50, None, Tone.GOOD)
    assert row("new").freshness is None
    tight = freshness(timedelta(minutes=30), timedelta(minutes=40), timedelta(hours=1))
    assert (tight.share, tight.interval) == (75, None)


def test_a_tables_max_lag_is_what_its_bar_is_measured_by() -> None:
    known = row("orders", behind=30, rows=1)
    assert known.overview.last_run is not None
    limited = replace(known.overview, last_run=replace(known.overview.last_run, max_lag=timedelta(minutes=40)))
    found = table_row(limited, PipelineInfo(every=timedelta(hours=1)), NOW)
    assert found.freshness is not None
    assert (found.limit, found.freshness.share) == (timedelta(minutes=40), 75)
