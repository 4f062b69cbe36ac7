"""What the commands show in a narrow terminal, and what a plan says of edits by others."""

from dataclasses import replace
from datetime import UTC, datetime
from io import StringIO

import pytest
from rich.console import Console

from cdc_ops.cli.commands.verify import print_verification
from cdc_ops.cli.output import render
from cdc_ops.core.cursor.cursors import CursorValue
from cdc_ops.core.cursor.windows import Window
from cdc_ops.core.operation.operation import OperationKind
from cdc_ops.core.operation.protocol.commit_record import ForeignChange, LakeHead
from cdc_ops.core.operation.protocol.table_state import TableState
from cdc_ops.core.pipeline.pipeline import TableConfig
from cdc_ops.core.pipeline.table_settings import TableSettings
from cdc_ops.core.schema.tables import TableName
from cdc_ops.errors import RequestError
from cdc_ops.state.table_run import TableRun, TableRunStatus
from cdc_ops.steps.plan import TablePlan
from cdc_ops.steps.planning.request import Draft
from cdc_ops.steps.planning.warnings import foreign_warnings
from cdc_ops.steps.runs.run import RunReport
from tests.lake_case import Case
from tests.operations import changed, made, with_fields

WINDOW = Window(low=CursorValue(parts=("2026-01-31 10:00:00.123456", "4711")), high=CursorValue(parts=("2026-01-31 10:15:00.123456", "0")))
TABLE = TableName(schema="shop", name="orders_of_customers")
HEAD = LakeHead(version=9, txn_version=1, record=None, record_version=None, foreign_app_ids=(), columns=())


@pytest.fixture(params=[80, 100, 200])
def shown(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> StringIO:
    text = StringIO()
    monkeypatch.setattr(render, "out", Console(file=text, width=request.param))
    return text


def test_a_window_is_on_one_line_in_any_terminal(shown: StringIO) -> None:
    run = made(
        TableRun,
        pipeline="shop", table=TABLE, run_id="r", trigger="cli", kind=OperationKind.INCREMENT, status=TableRunStatus.COMMITTED,
        started_at=datetime(2026, 1, 31, tzinfo=UTC), window=WINDOW, delta_version=7,
    )  # fmt: skip
    render.print_report("shop", RunReport(runs=(run, changed(run, window=None)), failures=()))
    assert str(WINDOW) in shown.getvalue()
    assert "orders_of_customers" in shown.getvalue()
    assert "increment" in shown.getvalue()


def test_a_plan_is_on_one_line_a_table_and_says_why_a_table_is_idle(shown: StringIO) -> None:
    config = TableConfig(pipeline="shop", table=TABLE, settings=TableSettings(), path="/lake")
    state = TableState(pipeline="shop", table=TABLE)
    operation = with_fields(Case(root="x").operation(1), window=WINDOW, expected_rows=20_000)
    busy = TablePlan(config=config, state=state, new=Draft(operations=(operation,)))
    idle = TablePlan(config=config, state=state, new=Draft(idle="no row in [a, b)"))
    render.print_plans("shop", [(TABLE, busy), (TableName(schema="shop", name="items"), idle)])
    lines = shown.getvalue().splitlines()
    assert any(str(WINDOW) in line for line in lines)
    assert any("items" in line and "no row in [a, b)" in line for line in lines)


def test_a_plan_says_once_why_a_table_that_is_missing_is_idle(shown: StringIO) -> None:
    config = TableConfig(pipeline="shop", table=TABLE, settings=TableSettings(), path="/lake")
    why = "no longer at the source: it was dropped"
    plan = TablePlan(config=config, state=TableState(pipeline="shop", table=TABLE), new=Draft(idle=why, alert=why))
    render.print_plans("shop", [(TABLE, plan)])
    assert shown.getvalue().count(why) == 1


def test_edits_by_others_are_named_with_version_and_operation() -> None:
    changes = tuple(ForeignChange(version=version, operation="DELETE") for version in (9, 8, 7, 6))
    (text,) = foreign_warnings(replace(HEAD, foreign_changes=changes))
    assert "DELETE in Delta version 9, DELETE in Delta version 8" in text
    assert "and 1 more" in text
    assert "cdc-ops verify" in text


def test_an_untouched_table_and_one_that_is_refused_anyway_have_no_such_warning() -> None:
    restored = replace(HEAD, foreign_changes=(ForeignChange(version=9, operation="RESTORE"),))
    assert [foreign_warnings(head) for head in (None, HEAD, restored)] == [(), (), ()]


FOUND = {
    "table": "shop.orders_of_customers", "pipeline": "shop", "keys": ["customer", "no"], "columns": ["customer", "no", "amount"],
    "equal": False, "not_compared": [], "rows_source": 3_000, "rows_lake": 3_000, "only_in_source": 1, "only_in_lake": 1,
    "different": 2_000, "duplicates": 0, "kept": 0,
    "samples": [("different", ("a, b", "1000")), ("only in lake", ("Ä", "5")), ("only in source", ("c\n", "-2.50"))],
}  # fmt: skip


def test_a_verification_says_which_columns_it_did_not_compare(shown: StringIO) -> None:
    equal = {"only_in_source": 0, "only_in_lake": 0, "different": 0, "samples": ()}
    print_verification([{**FOUND, **equal, "equal": True, "not_compared": ["note"]}])
    assert "not compared, because the lake does not have these columns (yet): note" in shown.getvalue()
    assert "--repair" not in shown.getvalue()


def test_a_verification_names_the_keys_that_differ_a_line_each_in_any_terminal(shown: StringIO) -> None:
    print_verification([FOUND])
    lines = shown.getvalue().splitlines()
    for line in (
        'shop.orders_of_customers: different customer="a, b", no=1000',
        "shop.orders_of_customers: extra     customer=Ä, no=5",
        'shop.orders_of_customers: missing   customer="c\\n", no=-2.50',
        "shop.orders_of_customers: and more: 1,999 different",
        "To repair: cdc-ops verify --pipeline shop --table shop.orders_of_customers --repair",
    ):
        assert line in lines


def test_a_verification_of_many_tables_that_differ_offers_to_repair_the_pipeline(shown: StringIO) -> None:
    print_verification([{**FOUND, "table": f"shop.t{number}"} for number in range(4)])
    assert "To repair: cdc-ops verify --pipeline shop --repair" in shown.getvalue().splitlines()


def test_a_verification_of_a_table_without_keys_names_rows_by_their_values(shown: StringIO) -> None:
    print_verification([{**FOUND, "keys": [], "samples": [("only in lake", ("a", "1", "NULL"))]}])
    assert "the table has no keys: all values identify a row" in shown.getvalue()
    assert "extra     customer=a, no=1, amount=NULL" in shown.getvalue()


def test_a_repair_says_what_it_did_and_what_is_left(shown: StringIO) -> None:
    done = {"status": "committed", "counts": {"inserted": 1, "updated": 1999, "deleted": 1}}
    left = {"only_in_source": 0, "only_in_lake": 0, "different": 0, "duplicates": 2}
    repair = {"equal": False, "run": {"tables": [done], "failures": []}, "left": left}
    print_verification([{**FOUND, "repair": repair}])
    assert "repaired: 1 inserted, 1,999 updated, 1 deleted" in shown.getvalue()
    assert "compared again: 0 missing, 0 extra, 0 different, 2 duplicates" in shown.getvalue()
    refused = {"error": "DeletesRefusedError", "what": "2,000 of 3,000 rows would be deleted.", "why": "", "data": "", "next": "See."}
    print_verification([{**FOUND, "repair": {**repair, "run": {"tables": [], "failures": [refused]}}}])
    assert "not repaired: 2,000 of 3,000 rows would be deleted. Next: See." in shown.getvalue()


def test_a_table_that_cannot_be_compared_is_named_among_the_others(shown: StringIO) -> None:
    failed = {
        "table": "shop.gone",
        "pipeline": "shop",
        "equal": False,
        "error": RequestError("No such table.").to_payload(),
        "retryable": False,
    }
    print_verification([failed, {**FOUND, "samples": ()}])
    assert "No such table." in shown.getvalue()
    assert "failed" in shown.getvalue()
