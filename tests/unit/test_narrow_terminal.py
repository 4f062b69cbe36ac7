"""plan, run, status and verify in terminals of 80 and 120 columns: long names, failed tables, and nothing broken in the middle."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from io import StringIO

import pytest
from rich.cells import cell_len
from rich.console import Console

from cdc_ops.cli.commands.verify import print_verification
from cdc_ops.cli.output import render
from cdc_ops.cli.output.verbosity import verbose_option
from cdc_ops.core.cursor.cursors import Cursor, CursorValue
from cdc_ops.core.cursor.windows import Window
from cdc_ops.core.operation.operation import OperationKind
from cdc_ops.core.operation.protocol.table_progress import SnapshotProgress
from cdc_ops.core.operation.protocol.table_state import TableState, committed
from cdc_ops.core.operation.reads import WindowRead
from cdc_ops.core.operation.results import Counts
from cdc_ops.core.pipeline.pipeline import TableConfig
from cdc_ops.core.pipeline.table_settings import TableSettings
from cdc_ops.core.schema.tables import TableName
from cdc_ops.errors import UnforeseenJobError
from cdc_ops.state.base import TableOverview
from cdc_ops.state.lease import Lease
from cdc_ops.state.table_run import TableRun, TableRunStatus
from cdc_ops.steps.plan import TablePlan
from cdc_ops.steps.planning.request import Draft
from cdc_ops.steps.runs.run import RunReport
from cdc_ops.steps.runs.table_groups import TableFailure
from tests.lake_case import Case
from tests.operations import changed, made, with_fields

SCHEMA = "billing_and_accounting"
LONGEST = "a_name_of_sixty_four_characters_which_is_what_mysql_allows_them_"
NAMES = ("orders", LONGEST, "größen_und_maße_Ж", "odd[bold]name", "注文")
TABLES = tuple(TableName(schema=SCHEMA, name=name) for name in NAMES)
NOW = datetime(2026, 1, 31, 10, 15, tzinfo=UTC)
WINDOW = Window(low=CursorValue(parts=("2026-01-31 10:00:00.123456",)), high=CursorValue(parts=("2026-01-31 10:15:00.123456",)))
WARNING = "Cursor column 'updated_at' has no index, so that each increment reads the whole table. Create one on updated_at and id."


@pytest.fixture(params=[80, 120])
def terminal(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> StringIO:
    text = StringIO()
    for name in ("out", "err"):
        monkeypatch.setattr(render, name, Console(file=text, width=request.param, force_terminal=True, color_system=None))
    monkeypatch.setattr(text, "width", request.param, raising=False)
    return text


def run_of(table: TableName, **parts: object) -> TableRun:
    run = made(
        TableRun,
        pipeline="shop", table=table, run_id="r", trigger="cli", kind=OperationKind.INCREMENT, status=TableRunStatus.COMMITTED,
        started_at=NOW, window=WINDOW, delta_version=7, counts=Counts(read=1_234_567, inserted=1_000_000, updated=234_560, deleted=7),
    )  # fmt: skip
    return changed(run, **parts)


def config_of(table: TableName) -> TableConfig:
    return TableConfig(pipeline="shop", table=table, settings=TableSettings(), path="/lake")


def error_of(table: TableName) -> UnforeseenJobError:
    why = "org.apache.spark.SparkException: the job was aborted because a task failed four times and nobody knows for which reason"
    return UnforeseenJobError(f"Table {table} failed in Spark with Py4JJavaError.", why=why, data="The watermark stays.", next="Run again.")


def a_run() -> None:
    failures = tuple(TableFailure(config=config_of(table), error=error_of(table)) for table in TABLES[:2])
    runs = (*(run_of(table, status=TableRunStatus.FAILED) for table in TABLES[:2]), *map(run_of, TABLES[2:]))
    render.print_report("shop", RunReport(runs=runs, failures=failures, warnings=(f"{TABLES[1]}: {WARNING}",)), "/logs/spark.log")


def a_plan() -> None:
    parts = tuple(
        with_fields(
            Case(root="x").operation(1), kind=OperationKind.SNAPSHOT_CHUNK, expected_rows=1_000_000,
            snapshot_after=SnapshotProgress(bound=WINDOW.high, done=done, total=3) if done < 3 else None,
            snapshot_before=SnapshotProgress(bound=WINDOW.high, done=done - 1, total=3),
        )
        for done in (1, 2, 3)
    )  # fmt: skip
    plans = [
        TablePlan(config=config_of(table), state=TableState(pipeline="shop", table=table), new=Draft(operations=parts)) for table in TABLES
    ]
    method = "increments by updated_at; deletes and changed keys by reconcile: checksums of keys, by buckets; nothing else is asked"
    idle = replace(
        plans[0],
        method=method,
        new=Draft(idle="no row in [2026-01-31 10:00:00.123456, 2026-01-31 10:15:00.123456)", warnings=(WARNING,)),
    )
    render.print_plans("shop", [(TABLES[0], idle), (TABLES[1], error_of(TABLES[1])), *zip(TABLES[2:], plans[2:], strict=True)])


def a_status() -> None:
    rows = []
    for number, table in enumerate(TABLES):
        state = made(TableState, pipeline="shop", table=table, watermark=WINDOW.high, delta_version=7, fresh_at=NOW)
        lease = Lease(pipeline="shop", table=table, holder=f"cli:host:{number}:8f14e45f", token=1, expires_at=NOW)
        status = TableRunStatus.FAILED if number == 1 else TableRunStatus.COMMITTED
        last = run_of(table, status=status, alert=WARNING if number == 1 else "")
        rows.append(TableOverview(state=state, stats=None, last_run=last, lease=lease if number == 1 else None))
    render.print_status(rows)


def a_verification() -> None:
    counts = {"rows_source": 1_234_567, "rows_lake": 1_234_560, "only_in_source": 7, "only_in_lake": 0, "different": 12, "duplicates": 3}
    samples = [("different", ("4711", "a customer with a name of many words, which does not fit on a line of a narrow terminal"))]
    found = {"equal": False, "not_compared": ["note", "a_column_"], "keys": ["id", "customer"], "samples": samples, **counts}
    print_verification([{"table": str(table), "pipeline": "shop", **found} for table in TABLES])


@pytest.mark.parametrize("show", [a_plan, a_run, a_status, a_verification])
def test_no_name_is_broken_and_no_line_is_longer_than_the_terminal(terminal: StringIO, show: Callable[[], None]) -> None:
    show()
    lines = terminal.getvalue().splitlines()
    for name in NAMES:
        assert any(name in line for line in lines), f"{name} is not on one line:\n{terminal.getvalue()}"
    too_long = [line for line in lines if cell_len(line) > terminal.width and f"{SCHEMA}.{LONGEST}" not in line]  # type: ignore[attr-defined]
    assert too_long == []


@pytest.mark.parametrize("show", [a_plan, a_run, a_status, a_verification])
def test_the_schema_is_said_once_and_not_in_each_row(terminal: StringIO, show: Callable[[], None]) -> None:
    show()
    rows = [line for line in terminal.getvalue().splitlines() if f"schema {SCHEMA}" in line]
    assert len(rows) == 1
    plain = [line for line in terminal.getvalue().splitlines() if line.strip().startswith(NAMES[2])]
    assert len(plain) >= 1


def bounded_plan(table: TableName) -> TablePlan:
    read = WindowRead(window=WINDOW, slices=("",), bound_method="oldest-writer")
    operation = replace(Case(root="x").operation(1), read=read)
    return TablePlan(config=config_of(table), state=TableState(pipeline="shop", table=table), new=Draft(operations=(operation,)))


@pytest.mark.parametrize("terminal", [80], indirect=True)
def test_lines_below_a_table_begin_with_the_full_name_and_a_colon(terminal: StringIO) -> None:
    table = TableName(schema="shop", name="orders")
    render.print_plans("shop", [(table, bounded_plan(table))])
    render.print_report("shop", RunReport(runs=(changed(run_of(table), counts=Counts(read=1)),), failures=()))
    details = [line for line in terminal.getvalue().splitlines() if "[2026-01-31 10:00" in line]
    assert len(details) == 2
    assert all(line.startswith("shop.orders: [2026-01-31 10:00:00.123456, ") for line in details)


def test_a_plan_says_how_the_safe_bound_was_found(terminal: StringIO) -> None:
    render.print_plans("shop", [(TABLES[0], bounded_plan(TABLES[0]))])
    assert "bound by oldest-writer" in " ".join(terminal.getvalue().split())


def test_counts_are_words_and_snapshots_have_parts(terminal: StringIO) -> None:
    a_run()
    a_plan()
    text = terminal.getvalue()
    assert all(word in text for word in ("inserted", "updated", "deleted", "snapshot, part 1 of 3", "snapshot, part 3 of 3"))
    assert "+ / ~ / -" not in text
    assert "snapshot-chunk" not in text


def test_an_error_is_said_once_also_if_it_stopped_several_tables(terminal: StringIO) -> None:
    error = UnforeseenJobError("The JVM was killed.", next="Run again.")
    failures = tuple(TableFailure(config=config_of(table), error=error) for table in TABLES)
    render.print_report("shop", RunReport(runs=tuple(run_of(t, status=TableRunStatus.FAILED) for t in TABLES), failures=failures), "/s.log")
    text = terminal.getvalue()
    assert text.count("The JVM was killed.") == 1
    assert all(str(table) in text for table in TABLES)
    assert "Spark's log: /s.log" in text


def test_warnings_that_were_told_before_are_a_number_and_v_shows_them(terminal: StringIO) -> None:
    report = RunReport(runs=(run_of(TABLES[0]),), failures=(), warnings=("new",), unchanged=("old one", "old two"))
    render.print_report("shop", report)
    assert "warning: new" in terminal.getvalue()
    assert "2 earlier warnings unchanged; -v shows them" in terminal.getvalue()
    assert "old one" not in terminal.getvalue()
    verbose_option(lambda: render.print_report("shop", report))(verbose=True)
    assert "warning: old one" in terminal.getvalue()
    assert "warning: old two" in terminal.getvalue()
    assert terminal.getvalue().count("unchanged") == 1


def test_a_quiet_run_does_not_count_warnings_either(terminal: StringIO) -> None:
    runs = (run_of(TABLES[0], alert="look at this"),)
    report = RunReport(runs=runs, failures=(), warnings=("new", f"{TABLES[0]}: look at this"), unchanged=("old",))
    render.print_report("shop", report.only_alerts)
    assert "look at this" in terminal.getvalue()
    assert "new" not in terminal.getvalue()
    assert "unchanged" not in terminal.getvalue()


def test_a_table_without_cursor_shows_when_it_was_compared(terminal: StringIO) -> None:
    operation = with_fields(
        Case(root="x").operation(1), cursor=Cursor(columns=()), fresh_at=NOW - timedelta(minutes=1), watermark_after=WINDOW.low
    )
    state = committed(TableState(pipeline=operation.pipeline, table=operation.table), operation, 0)
    render.print_status([TableOverview(state=state, stats=None, last_run=None, lease=None)])
    assert "compared 2026-01-31 10:14:00" in terminal.getvalue()
    assert "2026-01-31 10:00:00" not in terminal.getvalue()


def test_where_the_output_is_no_terminal_a_sentence_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    text = StringIO()
    monkeypatch.setattr(render, "out", Console(file=text, width=80))
    monkeypatch.setattr(render, "err", Console(file=text, width=80))
    a_run()
    assert f"warning: {TABLES[1]}: {WARNING}" in text.getvalue().splitlines()


def test_a_warning_that_is_the_same_of_several_tables_is_said_once(capsys: pytest.CaptureFixture[str]) -> None:
    told = tuple(f"shop.t{number}: the grant is missing: GRANT PROCESS" for number in range(5))
    render.print_report("shop", RunReport(runs=(), failures=(), warnings=("the clock differs", *told, "shop.t1: its own")))
    assert capsys.readouterr().err.splitlines() == [
        "warning: the clock differs",
        "warning: shop.t0, shop.t1, shop.t2 and 2 more: the grant is missing: GRANT PROCESS",
        "warning: shop.t1: its own",
    ]
