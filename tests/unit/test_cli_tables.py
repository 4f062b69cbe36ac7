"""What the commands show in a narrow terminal, and what a plan says of edits by others."""

from dataclasses import replace
from datetime import UTC, datetime
from io import StringIO

import pytest
from rich.console import Console

from cdc_ops.cli import render
from cdc_ops.core.commits import ForeignChange, LakeHead
from cdc_ops.core.cursors import CursorValue
from cdc_ops.core.operations import OperationKind
from cdc_ops.core.pipeline import TableConfig, TableSettings
from cdc_ops.core.runs import TableState
from cdc_ops.core.tables import TableName
from cdc_ops.core.windows import Window
from cdc_ops.state.base import TableRun, TableRunStatus
from cdc_ops.steps.plan import TablePlan, foreign_warnings
from cdc_ops.steps.run import RunReport
from tests.lake_case import Case

WINDOW = Window(low=CursorValue(parts=("2026-01-31 10:00:00.123456", "4711")), high=CursorValue(parts=("2026-01-31 10:15:00.123456", "0")))
TABLE = TableName(schema="shop", name="orders_of_customers")
HEAD = LakeHead(version=9, txn_version=1, record=None, record_version=None, foreign_app_ids=(), columns=())


@pytest.fixture(params=[80, 100, 200])
def shown(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> StringIO:
    text = StringIO()
    monkeypatch.setattr(render, "out", Console(file=text, width=request.param))
    return text


def test_a_window_is_on_one_line_in_any_terminal(shown: StringIO) -> None:
    run = TableRun(
        pipeline="shop", table=TABLE, run_id="r", trigger="cli", kind=OperationKind.INCREMENT, status=TableRunStatus.COMMITTED,
        started_at=datetime(2026, 1, 31, tzinfo=UTC), window=WINDOW, delta_version=7,
    )  # fmt: skip
    render.print_report("shop", RunReport(runs=(run, replace(run, window=None)), failures=()))
    assert str(WINDOW) in shown.getvalue()
    assert "orders_of_customers" in shown.getvalue()
    assert "increment" in shown.getvalue()


def test_a_plan_is_on_one_line_a_table_and_says_why_a_table_is_idle(shown: StringIO) -> None:
    config = TableConfig(pipeline="shop", table=TABLE, settings=TableSettings(), path="/lake")
    state = TableState(pipeline="shop", table=TABLE)
    busy = TablePlan(config=config, state=state, planned=(replace(Case(root="x").operation(1), window=WINDOW, expected_rows=20_000),))
    idle = TablePlan(config=config, state=state, idle="no row in [a, b)")
    render.print_plans("shop", [(TABLE, busy), (TableName(schema="shop", name="items"), idle)])
    lines = shown.getvalue().splitlines()
    assert any(str(WINDOW) in line for line in lines)
    assert any("items" in line and "no row in [a, b)" in line for line in lines)


def test_edits_by_others_are_named_with_version_and_operation() -> None:
    changes = tuple(ForeignChange(version=version, operation="DELETE") for version in (9, 8, 7, 6))
    (text,) = foreign_warnings(replace(HEAD, foreign_changes=changes))
    assert "DELETE in Delta version 9, DELETE in Delta version 8" in text
    assert "and 1 more" in text
    assert "cdc-ops verify" in text


def test_an_untouched_table_and_one_that_is_refused_anyway_have_no_such_warning() -> None:
    restored = replace(HEAD, foreign_changes=(ForeignChange(version=9, operation="RESTORE"),))
    assert [foreign_warnings(head) for head in (None, HEAD, restored)] == [(), (), ()]


def test_a_verification_says_which_columns_it_did_not_compare(shown: StringIO) -> None:
    found = {"rows_source": 1, "rows_lake": 1, "only_in_source": 0, "only_in_lake": 0, "different": 0}
    render.print_verification([{"table": "shop.orders", "equal": True, "not_compared": ["note"], **found}])
    assert "not compared, because the lake does not have them (yet): note" in shown.getvalue()
